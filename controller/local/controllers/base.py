# SPDX-License-Identifier: Apache-2.0
"""The base of the controllers: each plans, which is a pure function of documents, and this carries the plan out.

`PlanningController` reads the cache, makes a `Plan`, has it carried out and plans again, until nothing is left to do.
The cache shows a write when it is answered, so the next plan sees it.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

from trainwright.api.base import Resource
from trainwright.api.conditions import find_true
from trainwright.api.objects import (
    Document,
    Key,
    conditions_of,
    generated_name,
    name_of,
    namespace_of,
    resource_version_of,
    spec_of,
    status_of,
    uid_of,
)
from trainwright.api.times import LOOK_SECONDS, Now, parse, wall_clock
from trainwright.controller.local.controllers.objects import POD, merge_patch
from trainwright.controller.runtime import (
    Backoff,
    Client,
    Forbidden,
    Manager,
    MetadataOnly,
    NotFound,
    Result,
    RetryAfter,
)
from trainwright.controller.runtime.errors import ApiError, is_namespace_ending
from trainwright.controller.runtime.events.recorder import EventRecorder
from trainwright.controller.runtime.manager.supervisor import Group

T = TypeVar("T")
Check: TypeAlias = Callable[[Document, Sequence[Document]], str | None]
"""A check of the node's own: given a pod and the pods on the node, why the pod does not fit; None: it does."""
_PASSES = 20
"""Plans that are carried out in one reconcile. Three are usual; more than this would be a defect."""
_AT_ONCE = 50
"""Writes of one kind that are on their way at the same time."""


class EventReport(NamedTuple):
    """An event about the object that is reconciled. In texts of writes, `{name}` and `{message}` are filled in."""

    type: Literal["Normal", "Warning"]
    reason: str
    note: str
    action: str = ""
    """Empty: the controller's."""

    def filled(self, name: str, message: str = "") -> "EventReport":
        """The same about an object, with the message of a refusal."""
        return self._replace(note=self.note.replace("{name}", name).replace("{message}", message))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """One request about one object.

    An object that is gone already needs no deletion and no removal of a finalizer, so NotFound of these is no error.
    """

    verb: Literal["create", "delete", "patch", "apply", "release", "bind", "finalize"]
    """`release` removes the finalizer `body["finalizer"]`; `finalize` writes the spec of a namespace."""
    kind: Resource | MetadataOnly
    obj: Document
    """As it is to be created, else as it was read."""
    body: Document = field(default_factory=dict)
    """Of a patch or an apply."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the client's method."""
    tolerate: type[ApiError] | tuple[type[ApiError], ...] = ()
    """Refusals that are as good as success."""
    done: EventReport | None = None
    refused: EventReport | None = None
    """Recorded unless the namespace is being deleted."""


@dataclass(slots=True, kw_only=True)
class Plan:
    """What to do, in the order of the fields."""

    writes: list[PlannedWrite] = field(default_factory=list)
    """In their order. Neighbours with the same verb and kind are written at the same time."""
    status: Document = field(default_factory=dict)
    """Of the object itself; empty: no change."""
    reports: list[EventReport] = field(default_factory=list)
    """About the status."""
    look_again: float | None = None
    """Seconds after which the plan may be another one, if nothing else happens."""

    def result(self) -> Result:
        """What a reconcile returns that has nothing left to write."""
        return None if self.look_again is None else RetryAfter(min(self.look_again, LOOK_SECONDS))

    def of(self, verb: str, kind: Resource | None = None) -> list[Document]:
        """The objects of the writes with this verb."""
        return [write.obj for write in self.writes if write.verb == verb and kind in (None, write.kind)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    now: Now = wall_clock
    """For everything that is written into objects or waits for a time of day."""
    authority: str = ""
    """PEM of the authority that signed the API server's certificate, for the ConfigMaps of the namespaces."""
    volumes: Path | None = None
    """Folder in which each volume claim gets a folder; needed for `claims`."""
    check: Check | None = None
    """A check of the node's own before a pod is bound, such as for ports that all pods of a laptop share."""


class ControllerBase(ABC):
    REPORTER: ClassVar[str] = ""
    """Reporting controller of its events; empty if it records none."""
    ACTION: ClassVar[str] = ""
    """What it does, in its events; empty: the reason of each."""
    JOINS_REFUSALS: ClassVar[bool] = False
    """Whether the refusals of neighbouring writes are one event."""

    def __init__(self, manager: Manager, settings: ControllerSettings | None = None) -> None:
        self.settings = settings or ControllerSettings()
        self.client, self.cache, self.now = manager.client, manager.cache, self.settings.now
        self.recorder = EventRecorder(manager.client, self.REPORTER)
        if self.REPORTER:
            manager.add(self.recorder, Group.SERVERS, f"events:{self.REPORTER}")
        self.declare(manager)

    @abstractmethod
    def declare(self, manager: Manager) -> None:
        """Declare what it watches on the manager, which runs it."""

    def report(self, obj: Document, event: EventReport) -> None:
        self.recorder.event(obj, event.type, event.reason, event.note, action=event.action or self.ACTION)

    async def carry_out(self, plan: Plan, kind: Resource, obj: Document) -> bool:
        """Carry out a plan for an object. Returns whether anything was written. Raises the first error."""
        await self.make(plan.writes, obj)
        written = obj
        if plan.status:
            written = await self.write_status(kind, obj, plan.status)
        for event in plan.reports:
            self.report(written, event)
        return bool(plan.writes) or written is not obj

    async def write_status(self, kind: Resource, obj: Document, status: Document) -> Document:
        """Make `status` the status of an object, unless it is already. Returns the object.

        Raises Conflict if the object is not the one in `obj` any more, because the status was computed from that one.
        """
        patch = merge_patch(status_of(obj), status)
        if not patch:
            return obj
        document = {"metadata": {"resourceVersion": resource_version_of(obj), "uid": uid_of(obj)}, "status": patch}
        return await self.client.patch(kind, name_of(obj), namespace_of(obj), document, subresource="status")

    async def make(self, writes: Iterable[PlannedWrite], about: Document | None = None) -> None:
        """Make writes as `write` does. Raises the first error."""
        # The others are of the same kind, and all writes are tried again.
        if errors := await self.write(writes, about):
            raise errors[0]

    async def write(self, writes: Iterable[PlannedWrite], about: Document | None = None) -> list[Exception]:
        """Make writes, and record the events that they bring about an object. Returns the errors of the first group
        of neighbours that has any."""
        for (verb, kind), group in groupby(writes, key=lambda write: (write.verb, write.kind)):
            refusals: list[EventReport] = []

            async def one(write: PlannedWrite, refusals: list[EventReport] = refusals) -> None:
                await self._write_one(write, about, refusals)

            run = each_slowly if (verb, kind) == ("create", POD) else each
            errors = await run(one, group)
            if self.JOINS_REFUSALS and refusals:
                refusals = [refusals[0]._replace(note="\n".join(sorted(event.note for event in refusals)))]
            for event in refusals:
                self.report(about or {}, event)
            if errors:
                return errors
        return []

    async def _write_one(self, write: PlannedWrite, about: Document | None, refusals: list[EventReport]) -> None:
        obj = write.obj
        if write.verb == "create" and not name_of(obj):
            # Named here and not by the API server, so that the cache knows the object when the write is answered.
            metadata = obj["metadata"]
            obj = {**obj, "metadata": {**metadata, "name": generated_name(metadata["generateName"])}}
        try:
            await _send(self.client, write, obj)
        except ApiError as error:
            if isinstance(error, write.tolerate):
                return
            if write.refused is not None and not is_namespace_ending(error):
                refusals.append(write.refused.filled(name_of(obj), error.message))
            raise
        if write.done is not None and about is not None:
            self.report(about, write.done.filled(name_of(obj)))


class PlanningController(ControllerBase):
    """Reconciles the objects of one kind: plans, has the plan carried out and plans again, until nothing is left."""

    NAME: ClassVar[str]
    KIND: ClassVar[Resource]
    OWNS: ClassVar[tuple[Resource, ...]] = ()
    """Kinds of the objects that it makes for one."""

    def declare(self, manager: Manager) -> None:
        builder = manager.controller(self.NAME).for_(self.KIND)
        for kind in self.OWNS:
            builder.owns(kind)
        builder.reconcile(self.reconcile)

    @abstractmethod
    def plan(self, obj: Document) -> Plan | None:
        """The next step for an object; None: it is none of its business."""

    async def reconcile(self, key: Key) -> Result:
        try:
            for _ in range(_PASSES):
                obj = self.cache.get(self.KIND, key.name, key.namespace)
                plan = self.plan(obj) if obj is not None else None
                if obj is None or plan is None:
                    return None
                if not await self.carry_out(plan, self.KIND, obj):
                    return plan.result()
        except NotFound:
            return None  # it was deleted meanwhile; the event of the deletion brings what follows
        except Forbidden as error:
            if is_namespace_ending(error):
                return None
            raise
        return Backoff(f"no end after {_PASSES} passes")


async def _send(client: Client, write: PlannedWrite, obj: Document) -> None:
    name, namespace = name_of(obj), namespace_of(obj)
    try:
        match write.verb:
            case "create":
                await client.create(obj, kind=write.kind)
            case "delete":
                await client.delete(write.kind, name, namespace, uid=uid_of(obj), **write.options)
            case "patch":
                await client.patch(write.kind, name, namespace, write.body, **write.options)
            case "apply":
                await client.apply(write.body, kind=write.kind, force=True, **write.options)
            case "bind":
                await client.post_subresource(write.kind, name, namespace, "binding", write.body)
            case "finalize":
                lock = {"name": name, "uid": uid_of(obj), "resourceVersion": resource_version_of(obj)}
                await client.update({"metadata": lock, "spec": write.body}, kind=write.kind, subresource="finalize")
            case "release":
                finalizers = {"$deleteFromPrimitiveList/finalizers": [write.body["finalizer"]]}
                patch = {"metadata": {"uid": uid_of(obj), **finalizers}}
                await client.patch(write.kind, name, namespace, patch, type="strategic")
    except NotFound:
        if write.verb not in ("delete", "release"):
            raise


def released(kind: Resource, obj: Document, finalizer: str) -> PlannedWrite:
    """Take a finalizer off an object of a built-in kind."""
    return PlannedWrite(verb="release", kind=kind, obj=obj, body={"finalizer": finalizer})


def seconds_to_live(obj: Document, now: datetime, *ends: str) -> float | None:
    """What is left of `ttlSecondsAfterFinished` since the first of the conditions `ends` that is True; None: it has no
    such limit, or has not ended."""
    seconds = spec_of(obj).get("ttlSecondsAfterFinished")
    end = next((one for type_ in ends if (one := find_true(conditions_of(obj), type_))), None)
    if seconds is None or end is None:
        return None
    return (parse(end["lastTransitionTime"]) + timedelta(seconds=int(seconds)) - now).total_seconds()


async def each(work: Callable[[T], Awaitable[None]], items: Iterable[T]) -> list[Exception]:
    """Do `work` for every item, some at once. Returns the errors, so that one item does not hold up the others."""
    limit = asyncio.Semaphore(_AT_ONCE)

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
    left, size = list(items), 1
    while left:
        if errors := await each(work, left[:size]):
            return errors
        left, size = left[size:], size * 2
    return []
