# SPDX-License-Identifier: Apache-2.0
"""The rights that a part of the program needs on the API server, declared beside the code that needs them.

A role is made from what the parts in use declare, and from nothing else. Verbs are those of requests: server-side apply
is `patch`, and `create` too, since it may make the object.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from trainwright.api.base import Resource

WATCH = ("list", "watch")
"""Verbs of a kind that is read from the cache alone."""
READ = ("get", *WATCH)
"""Verbs of a kind that is also read live, as the content of one is of which only metadata is cached."""
APPLY = ("create", "patch")
"""Verbs of a kind that is written by server-side apply."""


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """One RBAC rule: these verbs on this resource."""

    group: str
    """API group, empty for core."""
    resource: str
    """Plural, lower case; `name/subresource` for a subresource."""
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    """Only objects of these names; empty: all. `create` cannot be limited so."""
    namespaced: bool = True
    """Whether the objects live in namespaces, so that a role in one namespace can give the right."""

    @classmethod
    def on(cls, resource: Resource, *verbs: str, names: Iterable[str] = (), subresource: str = "") -> "Rule":
        """The rule for a kind, or for a subresource of it."""
        return cls(
            resource.group,
            f"{resource.plural}/{subresource}" if subresource else resource.plural,
            tuple(sorted(set(verbs))),
            tuple(sorted(set(names))),
            resource.namespaced,
        )


def merged(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """One rule per resource and set of names, sorted."""
    verbs: dict[tuple[str, str, tuple[str, ...], bool], set[str]] = {}
    for rule in rules:
        verbs.setdefault((rule.group, rule.resource, rule.names, rule.namespaced), set()).update(rule.verbs)
    return tuple(
        Rule(group, resource, tuple(sorted(every)), names, namespaced)
        for (group, resource, names, namespaced), every in sorted(verbs.items())
    )
