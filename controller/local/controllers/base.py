# SPDX-License-Identifier: Apache-2.0
"""What several controllers do in the same way: writes, events, generated names, the kinds that are served."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import msgspec

from trainwright.api.base import Resource
from trainwright.api.objects import Document, name_of, namespace_of, resource_version_of, status_of, uid_of
from trainwright.controller.local.controllers.objects import merge_patch
from trainwright.controller.runtime import Client, EventRecorder, NotFound, Request


@dataclass(frozen=True, slots=True)
class EventReport:
    """One event."""

    type: Literal["Normal", "Warning"]
    reason: str
    note: str


def record(recorder: EventRecorder, regarding: Document, reports: Iterable[EventReport], *, action: str = "") -> None:
    """Record events about an object. `action` is what the controller was doing; default: the reason."""
    for report in reports:
        recorder.event(regarding, report.type, report.reason, report.note, action=action)


T = TypeVar("T")


async def write_status(client: Client, kind: Resource, before: Document, status: Document) -> Document:
    """Make `status` the status of an object, unless it is already. Returns the object.

    Raises Conflict if the object is not the one in `before` any more, because the status was computed from that one.
    """
    patch = merge_patch(status_of(before), status)
    if not patch:
        return before
    lock = {"resourceVersion": resource_version_of(before), "uid": uid_of(before)}
    document = {"metadata": lock, "status": patch}
    return await client.patch(kind, name_of(before), namespace_of(before), document, subresource="status")


async def remove_finalizer(client: Client, kind: Resource, obj: Document, finalizer: str) -> None:
    """Remove a finalizer from an object of a built-in kind, if the object is still there."""
    patch = {"metadata": {"uid": uid_of(obj), "$deleteFromPrimitiveList/finalizers": [finalizer]}}
    try:
        await client.patch(kind, name_of(obj), namespace_of(obj), patch, type="strategic")
    except NotFound:
        return


async def each(work: Callable[[T], Awaitable[None]], items: Iterable[T], *, at_once: int = 50) -> list[Exception]:
    """Do `work` for every item, some at once. Returns the errors, so that one item does not hold up the others."""
    limit = asyncio.Semaphore(at_once)

    async def one(item: T) -> Exception | None:
        async with limit:
            try:
                await work(item)
            except Exception as error:
                return error
        return None

    return [error for error in await asyncio.gather(*(one(item) for item in items)) if error is not None]


async def each_slowly(work: Callable[[T], Awaitable[None]], items: Iterable[T]) -> list[Exception]:
    """As `each`, in batches of 1, 2, 4 … that end with the first batch in which something fails.

    So what cannot succeed, such as the pods of a Job that admission refuses, is tried once and not 500 times.
    """
    left = list(items)
    size = 1
    while left:
        errors = await each(work, left[:size])
        if errors:
            return errors
        left, size = left[size:], size * 2
    return []


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
