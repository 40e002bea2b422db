# SPDX-License-Identifier: Apache-2.0
"""Rules of roles: what they allow, and what of other rules they cover. Pure functions.

Sources: `pkg/apis/rbac/v1/evaluation_helpers.go`, `k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go`,
`pkg/registry/rbac/validation/policy_compact.go`.
"""

from collections.abc import Iterable, Iterator, Sequence

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.authorization.attributes import Attributes
from trainwright.controller.local.values import quoted

_SHOWN = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("ResourceNames", "resourceNames"),
    ("Verbs", "verbs"),
)


def allows(rule: Document, wanted: Attributes) -> bool:
    """Whether a rule allows something."""
    if not _has(_of(rule, "verbs"), wanted.verb):
        return False
    if not wanted.is_resource:
        return any(_url_covers(url, wanted.path) for url in _of(rule, "nonResourceURLs"))
    names = _of(rule, "resourceNames")
    return (
        _has(_of(rule, "apiGroups"), wanted.group)
        and _names_resource(_of(rule, "resources"), wanted)
        and (not names or wanted.name in names)
    )


def _names_resource(resources: Sequence[str], wanted: Attributes) -> bool:
    if "*" in resources or wanted.combined in resources:
        return True
    return bool(wanted.subresource) and f"*/{wanted.subresource}" in resources


def uncovered(owned: Sequence[Document], wanted: Iterable[Document]) -> list[Document]:
    """What of the wanted rules the owned ones do not allow, one verb on one resource each."""
    return [part for rule in wanted for part in _parts(rule) if not any(_covers(one, part) for one in owned)]


def _parts(rule: Document) -> Iterator[Document]:
    names = _of(rule, "resourceNames")
    for group in _of(rule, "apiGroups"):
        for resource in _of(rule, "resources"):
            for verb in _of(rule, "verbs"):
                part: Document = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                yield from ({**part, "resourceNames": [name]} for name in names) if names else (part,)
    for url in _of(rule, "nonResourceURLs"):
        for verb in _of(rule, "verbs"):
            yield {"nonResourceURLs": [url], "verbs": [verb]}


def _covers(rule: Document, part: Document) -> bool:
    names, wanted_names = _of(rule, "resourceNames"), _of(part, "resourceNames")
    return (
        all(_has(_of(rule, field), one) for field in ("verbs", "apiGroups") for one in _of(part, field))
        and all(_covers_resource(_of(rule, "resources"), one) for one in _of(part, "resources"))
        and all(
            any(_url_covers(own, url) for own in _of(rule, "nonResourceURLs")) for url in _of(part, "nonResourceURLs")
        )
        and (not names or (bool(wanted_names) and set(wanted_names) <= set(names)))
    )


def _covers_resource(owned: Sequence[str], wanted: str) -> bool:
    _, slash, subresource = wanted.partition("/")
    return _has(owned, wanted) or (bool(slash) and f"*/{subresource}" in owned)


def _url_covers(owned: str, wanted: str) -> bool:
    return owned in ("*", wanted) or (owned.endswith("*") and wanted.startswith(owned.rstrip("*")))


def shown(rules: Iterable[Document]) -> list[str]:
    """Rules as messages name them, those that differ in their verbs alone together, in order."""
    compact: list[Document] = []
    simple: dict[tuple[str, str, str | None], Document] = {}
    for rule in rules:
        groups, resources, names = (_of(rule, field) for field in ("apiGroups", "resources", "resourceNames"))
        if len(groups) != 1 or len(resources) != 1 or len(names) > 1:
            compact.append(rule)
            continue
        key = (groups[0], resources[0], names[0] if names else None)
        if key in simple:
            simple[key]["verbs"] = [*simple[key]["verbs"], *_of(rule, "verbs")]
        else:
            simple[key] = dict(rule)
    return sorted({_text(rule) for rule in (*compact, *simple.values())})


def _text(rule: Document) -> str:
    parts = (
        f"{name}:[{' '.join(quoted(one) for one in _of(rule, field))}]" for name, field in _SHOWN if _of(rule, field)
    )
    return f"{{{', '.join(parts)}}}"


def _of(rule: Document, field: str) -> Sequence[str]:
    found: Sequence[str] = rule.get(field) or ()
    return found


def _has(values: Sequence[str], wanted: str) -> bool:
    return "*" in values or wanted in values
