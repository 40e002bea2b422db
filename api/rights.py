# SPDX-License-Identifier: Apache-2.0
"""The rights that code needs on the API server, declared beside that code.

The shipped roles hold what the parts in use declare and nothing else. Server-side apply needs the verbs `patch` and
`create`, since it may create the object.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from trainwright.api.base import Resource
from trainwright.api.objects import Document

SELF_REVIEW = Resource(
    group="authorization.k8s.io",
    version="v1",
    kind="SelfSubjectAccessReview",
    plural="selfsubjectaccessreviews",
    namespaced=False,
)
"""Asks the API server whether whoever asks has a right."""
WATCH = ("list", "watch")
"""Verbs for a kind that is read from the cache only."""
READ = ("get", *WATCH)
"""Verbs for a kind that is also read live, such as one of which only the metadata is cached."""
APPLY = ("create", "patch")
"""Verbs for a kind that is written by server-side apply."""


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """One RBAC rule: these verbs on this resource."""

    group: str
    """API group, empty for core."""
    resource: str
    """Plural, lower case; `name/subresource` for a subresource."""
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    """The objects with these names only; empty for all. RBAC cannot limit `create` to names."""
    namespaced: bool = True
    """Whether the objects are in namespaces, so that a Role can grant the right."""

    @classmethod
    def on(cls, resource: Resource, *verbs: str, names: Iterable[str] = (), subresource: str = "") -> "Rule":
        return cls(
            resource.group,
            f"{resource.plural}/{subresource}" if subresource else resource.plural,
            tuple(sorted(set(verbs))),
            tuple(sorted(set(names))),
            resource.namespaced,
        )

    def document(self) -> Document:
        """The rule in wire form, as a Role has it."""
        return {
            "apiGroups": [self.group],
            "resources": [self.resource],
            **({"resourceNames": list(self.names)} if self.names else {}),
            "verbs": list(self.verbs),
        }


def merged(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """One rule for each resource and set of names, sorted."""
    verbs: dict[tuple[str, str, tuple[str, ...], bool], set[str]] = {}
    for rule in rules:
        verbs.setdefault((rule.group, rule.resource, rule.names, rule.namespaced), set()).update(rule.verbs)
    return tuple(
        Rule(group, resource, tuple(sorted(every)), names, namespaced)
        for (group, resource, names, namespaced), every in sorted(verbs.items())
    )
