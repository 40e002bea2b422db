# SPDX-License-Identifier: Apache-2.0
"""The kinds that the API server serves, with their verbs, each in its preferred version."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from trainwright.api.base import Resource
from trainwright.api.objects import Document
from trainwright.controller.runtime import Client, Request

_ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})
"""Events have owners in name only, and go by their age."""


@dataclass(frozen=True, slots=True)
class Served:
    """One kind."""

    resource: Resource
    verbs: frozenset[str]


async def served_kinds(client: Client) -> list[Served]:
    """Ask the API server. Raises ApiError, TransportError."""
    found: list[Served] = []
    for path in ("/api", "/apis"):
        response = await client.send(Request("GET", path, {}, {"Accept": _ACCEPT}))
        document: Any = msgspec.json.decode(response.body)
        found += _kinds(document.get("items") or ())
    return found


def collectable(kinds: Iterable[Served]) -> list[Resource]:
    """The kinds whose objects the garbage collector watches and deletes."""
    return [
        kind.resource
        for kind in kinds
        if {"list", "watch", "delete"} <= kind.verbs and (kind.resource.group, kind.resource.plural) not in _IGNORED
    ]


def _kinds(groups: Iterable[Document]) -> Iterator[Served]:
    for group in groups:
        name = str((group.get("metadata") or {}).get("name") or "")
        seen: set[str] = set()
        # The preferred version comes first.
        for version in group.get("versions") or ():
            for one in version.get("resources") or ():
                kind, plural = str((one.get("responseKind") or {}).get("kind") or ""), str(one.get("resource"))
                if not kind or plural in seen:
                    continue
                seen.add(plural)
                resource = Resource(
                    group=name,
                    version=str(version.get("version")),
                    kind=kind,
                    plural=plural,
                    namespaced=one.get("scope") == "Namespaced",
                )
                yield Served(resource, frozenset(one.get("verbs") or ()))
