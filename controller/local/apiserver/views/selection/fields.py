# SPDX-License-Identifier: Apache-2.0
"""Field selectors, and the field labels that each kind supports.

https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/#list-of-supported-fields
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainwright.controller.local.apiserver.merge.apply.values import quoted, shown
from trainwright.controller.local.apiserver.schema.published.kinds import recorded_kinds
from trainwright.controller.local.apiserver.views.jsonpath import compile_path
from trainwright.controller.local.apiserver.views.selection.errors import SelectorError

Document = Mapping[str, Any]
Reader = Callable[[Document], str]
Term = tuple[str, str, str]
"""A field label, `=` or `!=`, and the value."""

_ESCAPED = frozenset("\\,=")


@dataclass(frozen=True, slots=True)
class SelectableFields:
    """The field labels of a kind.

    Attributes:
        readers: how the value of a label is read from an object.
        refusal: what is said of another label.
    """

    readers: Mapping[str, Reader]
    refusal: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Matches objects whose fields have all the values.

    Attributes:
        terms: sorted by label.
        fields: the labels that it reads.
        matches: whether an object matches.
    """

    terms: tuple[Term, ...]
    matches: Callable[[Document], bool]
    fields: frozenset[str] = field(default=frozenset())

    def exact(self, label: str) -> str | None:
        """The one value that a field must have, such as the name that a watch is limited to."""
        return next((value for found, sign, value in self.terms if found == label and sign == "="), None)

    def __bool__(self) -> bool:
        """Whether it leaves anything out."""
        return bool(self.terms)


def parse_field_selector(text: str, selectable: SelectableFields) -> FieldSelector:
    """Parse a query's selector, such as `spec.nodeName=a,status.phase!=Running`.

    Raises:
        SelectorError: it cannot be parsed, or the kind does not support a label.
    """
    # In this order, because the first error is the one that is said.
    terms = [_term(part, text) for part in sorted(_parts(text)) if part]
    for label, _, value in terms:
        if label not in selectable.readers and (label or value):
            raise SelectorError(selectable.refusal(label))
    terms = [term for term in terms if term[0]]
    tests = [_test(selectable.readers[label], sign, value) for label, sign, value in terms]
    matches = tests[0] if len(tests) == 1 else lambda document: all(test(document) for test in tests)
    return FieldSelector(tuple(terms), matches, frozenset(label for label, _, _ in terms))


def _parts(text: str) -> Iterator[str]:
    """The parts between commas that are not escaped."""
    start, escaped = 0, False
    for index, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == ",":
            yield text[start:index]
            start = index + 1
    yield text[start:]


def _term(part: str, text: str) -> Term:
    place = min((part.find(sign) for sign in ("!=", "=") if sign in part), default=-1)
    if place < 0:
        raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
    label, rest = part[:place], part[place:]
    if rest.startswith("!="):
        return label, "!=", _unescaped(rest[2:])
    return label, "=", _unescaped(rest[2:] if rest.startswith("==") else rest[1:])


def _unescaped(value: str) -> str:
    made: list[str] = []
    characters = iter(value)
    for character in characters:
        if character == "\\":
            following = next(characters, "")
            if following not in _ESCAPED:
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{following}")
            made.append(following)
        elif character in _ESCAPED:
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(character)}")
        else:
            made.append(character)
    return "".join(made)


def _test(read: Reader, sign: str, value: str) -> Callable[[Document], bool]:
    if sign == "=":
        return lambda document: read(document) == value
    return lambda document: read(document) != value


def _text(*path: str) -> Reader:
    """The string at a path; empty where there is none."""

    def read(document: Document) -> str:
        value: Any = document
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value if isinstance(value, str) else ""

    return read


def _flag(*path: str) -> Reader:
    """`true` or `false`, which is what an absent one is."""
    inner, name = path[:-1], path[-1]

    def read(document: Document) -> str:
        value: Any = document
        for key in inner:
            value = (value or {}).get(key)
        return "true" if (value or {}).get(name) is True else "false"

    return read


def _texts(*labels: str) -> dict[str, Reader]:
    return {label: _text(*label.split(".")) for label in labels}


def _first_pod_ip(pod: Document) -> str:
    addresses = (pod.get("status") or {}).get("podIPs") or ()
    return str(addresses[0].get("ip") or "") if addresses else ""


def _succeeded(job: Document) -> str:
    return str((job.get("status") or {}).get("succeeded") or 0)


def _replicas(document: Document) -> str:
    return str((document.get("status") or {}).get("replicas") or 0)


def _first_of(*readers: Reader) -> Reader:
    return lambda document: next((value for read in readers if (value := read(document))), "")


_OBJECT = _texts("metadata.name", "metadata.namespace")
_NAME = _texts("metadata.name")
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _unsupported(label: str) -> str:
    return f"field label not supported: {label}"


def _unknown(label: str) -> str:
    return f'{quoted(label)} is not a known field selector: only "metadata.name", "metadata.namespace"'


_DEFAULT = SelectableFields(_OBJECT, _unknown)
_BUILT_IN: Mapping[tuple[str, str], SelectableFields] = {
    ("v1", "Pod"): SelectableFields(
        {
            **_OBJECT,
            **_texts("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
            **_texts("status.phase", "status.nominatedNodeName"),
            "spec.host": _text("spec", "nodeName"),
            "spec.hostNetwork": _flag("spec", "hostNetwork"),
            "status.podIP": _first_pod_ip,
            # Supported, yet never set: an old flaw that is kept.
            "status.podIPs": lambda _: "",
        },
        _unsupported,
    ),
    ("v1", "Node"): SelectableFields({**_NAME, "spec.unschedulable": _flag("spec", "unschedulable")}, _unsupported),
    ("v1", "Namespace"): SelectableFields({**_NAME, **_texts("status.phase")}, _unsupported),
    ("v1", "Secret"): SelectableFields({**_OBJECT, **_texts("type")}, _unsupported),
    ("v1", "Service"): SelectableFields({**_OBJECT, **_texts("spec.clusterIP", "spec.type")}, _unsupported),
    ("v1", "Event"): SelectableFields(
        {
            **_OBJECT,
            **_texts(*(f"involvedObject.{name}" for name in _REFERENCE), "reason", "reportingComponent", "type"),
            "source": _first_of(_text("source", "component"), _text("reportingComponent")),
        },
        _unsupported,
    ),
    ("events.k8s.io/v1", "Event"): SelectableFields(
        {
            **_OBJECT,
            **_texts(*(f"regarding.{name}" for name in _REFERENCE), "reason", "reportingController", "type"),
        },
        _unsupported,
    ),
    ("batch/v1", "Job"): SelectableFields(
        {**_OBJECT, "status.successful": _succeeded},
        lambda label: f"field label {quoted(label)} not supported for Job",
    ),
}


def selectable_fields(api_version: str, kind: str) -> SelectableFields:
    """The field labels of a built-in kind: most have only name and namespace."""
    known = _BUILT_IN.get((api_version, kind))
    row = recorded_kinds().get((api_version, kind))
    if known is not None or row is None or not row.selectable:
        return known or _DEFAULT
    readers = {path: _replicas if path == "status.replicas" else _text(*path.split(".")) for path in row.selectable}
    return SelectableFields({**(_OBJECT if row.namespaced else _NAME), **readers}, _unsupported)


def custom_selectable_fields(json_paths: Iterable[str], *, namespaced: bool) -> SelectableFields:
    """The field labels of a custom resource, by the `jsonPath` of its `selectableFields`, such as `.spec.color`.

    Raises:
        JSONPathError: a path cannot be parsed.
    """
    readers = dict(_OBJECT if namespaced else _NAME)
    for path in json_paths:
        readers[path.removeprefix(".")] = _at(path)
    return SelectableFields(readers, _unsupported)


def _at(path: str) -> Reader:
    find = compile_path(path)

    def read(document: Document) -> str:
        found = find(document)
        return shown(found[0]) if found and found[0] is not None else ""

    return read
