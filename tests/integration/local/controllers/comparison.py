# SPDX-License-Identifier: Apache-2.0
"""Runs a scenario with our controllers, and compares what they have made with what the real ones make.

What the real ones make is recorded. `make parity` runs both worlds beside each other, and compares the recordings, too.
Each world has an API server and the same kubelet of the test. Compared are all objects of the namespace at the
points that the scenario names, and all events at its end, without what differs by nature: uids, times, versions and the
random ends of names.
"""

import asyncio
import difflib
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from tests.integration.local.controllers.conftest import World
from tests.integration.local.controllers.recordings import Notes, recorded_notes
from trainwright.api.base import Resource
from trainwright.api.objects import Document, name_of, uid_of
from trainwright.controller.local.controllers.jobset_objects import STARTUP_COMPLETED, STARTUP_IN_PROGRESS
from trainwright.controller.local.controllers.objects import (
    ACCOUNT,
    CLAIM,
    CONFIG_MAP,
    JOB,
    JOBSET,
    NAMESPACE,
    POD,
    SERVICE,
)
from trainwright.controller.runtime.errors import NotFound
from trainwright.controller.runtime.testing.waiting import GaveUp, at_least, eventually, is_empty

KINDS = (JOBSET, JOB, SERVICE, CLAIM, POD, ACCOUNT, CONFIG_MAP)
EVENT = Resource(group="events.k8s.io", version="v1", kind="Event", plural="events", namespaced=True)
COMMAND = "python -m tests.integration.local.controllers.record"
Note: TypeAlias = Callable[[str], Awaitable[None]]
Scenario: TypeAlias = Callable[[World, Note], Awaitable[None]]
Worlds: TypeAlias = tuple[World, World]
"""The real controllers, and ours."""
AT_ONCE = 4
"""Scenarios that run beside each other, each in a namespace of its own."""

_DROPPED = {"managedFields", "resourceVersion", "creationTimestamp", "clusterIP", "clusterIPs"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_RANDOM = re.compile(r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}(?![a-z0-9])")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\\n", re.DOTALL)
_BY_CHANCE = ("follower pod", "already exists")
"""In events that depend on whether a pod is scheduled before the next one is created, and whether the cache of JobSet's
manager still has a Job that is gone."""
_LOOK_SECONDS = 0.4
_SETTLED_SECONDS = 2.0
"""How long nothing may change. kube-controller-manager looks at a Job one second after its pods have changed."""


async def notes_of(world: World, scenario: Scenario) -> Notes:
    """Run a scenario in one world; returns what was seen."""
    notes: Notes = {}

    async def note(label: str) -> None:
        notes[label] = await settled(world)

    await scenario(world, note)
    notes["events"] = await _events(world)
    with suppress(NotFound):
        await world.client.delete(NAMESPACE, world.namespace)
    notes["left at the end"] = await eventually(lambda: _left(world), is_empty)
    return notes


async def _left(world: World) -> list[str]:
    """The namespace as long as it is there."""
    try:
        return [json.dumps(await world.client.get(NAMESPACE, world.namespace))]
    except NotFound:
        return []


async def with_the_real_ones(real: World, ours: World, scenario: Scenario) -> str:
    """The first point at which the two worlds differ, or the real one and its recording; empty if there is none."""
    theirs, made = await asyncio.gather(notes_of(real, scenario), notes_of(ours, scenario))
    recorded = recorded_notes(name_of_scenario(scenario))
    return difference(theirs, made, "ours") or difference(recorded, theirs, f"now; to record: {COMMAND}")


async def with_nothing_recorded(real: World, ours: World, scenario: Scenario) -> str:
    """The first point at which the two worlds differ; empty if there is none."""
    theirs, made = await asyncio.gather(notes_of(real, scenario), notes_of(ours, scenario))
    return difference(theirs, made, "ours")


async def with_the_recording(ours: World, scenario: Scenario) -> str:
    """The first point at which our world differs from what is recorded; empty if there is none."""
    return difference(recorded_notes(name_of_scenario(scenario)), await notes_of(ours, scenario), "ours")


def difference(theirs: Notes, made: Notes, what: str) -> str:
    """The first point at which notes differ from those of the real ones; empty if there is none."""
    for label, expected in theirs.items():
        if made.get(label) != expected:
            found = _lines(made.get(label, []))
            lines = difflib.unified_diff(_lines(expected), found, "the real ones", what, lineterm="", n=6)
            return f"{label}:\n" + "\n".join(lines)
    further = made.keys() - theirs.keys()
    return f"without a counterpart: {', '.join(sorted(further))}" if further else ""


def _lines(texts: list[str]) -> list[str]:
    return [line for text in texts for line in text.splitlines()]


async def settled(world: World) -> list[str]:
    """All objects of the namespace, once they no longer change."""
    return await _steady(lambda: _objects(world))


async def _steady(look: Callable[[], Awaitable[list[str]]]) -> list[str]:
    """What `look` returns once it has returned the same for long enough."""
    loop = asyncio.get_running_loop()
    since = loop.time()
    last: list[str] = []

    async def look_again() -> float:
        nonlocal last, since
        await asyncio.sleep(_LOOK_SECONDS)  # a look costs more than it takes
        found = await look()
        if found != last:
            last, since = found, loop.time()
        return loop.time() - since

    await eventually(look_again, at_least(_SETTLED_SECONDS))
    return last


async def _objects(world: World) -> list[str]:
    found = [await world.client.get(NAMESPACE, world.namespace)]
    found += [obj for kind in KINDS for obj in await world.all(kind)]
    return shown(found)


def shown(objects: Sequence[Document]) -> list[str]:
    """The objects as text, without what differs by nature, in an order of their own."""
    names = {uid_of(obj): f"<uid of {obj['kind']} {_RANDOM.sub('xxxxx', name_of(obj))}>" for obj in objects}
    return sorted(_shown(obj, names) for obj in objects)


def _shown(obj: Document, names: dict[str, str]) -> str:
    text = json.dumps(_without_chance(_stripped(obj)), indent=1, sort_keys=True)
    for uid, name in names.items():
        text = text.replace(uid, name)
    text = _UID.sub("<uid of nothing>", text)
    return _CERTIFICATE.sub("PEM", _RANDOM.sub("xxxxx", _TIME.sub("TIME", text)))


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stripped(item) for key, item in value.items() if key not in _DROPPED}
    if isinstance(value, list):
        return [_stripped(item) for item in value]
    return value


def _without_chance(obj: Document) -> Document:
    """Without what differs between two runs of the real controllers.

    The Job controller writes twice when a Job fails: first that none of its pods is ready, then the failure. JobSet's
    manager, if it looks in between (25 of 30 times), takes that for a start in order that goes on again. Nothing sets
    it right once the JobSet has failed.
    """
    conditions = (obj.get("status") or {}).get("conditions") or []
    states = {one["type"]: one["status"] for one in conditions}
    if obj["kind"] == JOBSET.kind and states.get("Failed") == "True" and STARTUP_COMPLETED in states:
        for one in conditions:
            if one["type"] in (STARTUP_IN_PROGRESS, STARTUP_COMPLETED):
                one["status"] = "by chance"
    return obj


async def _events(world: World) -> list[str]:
    """All events, once no more come."""

    async def look() -> list[str]:
        found = {_event(event) for event in (await world.client.list(EVENT, world.namespace)).items}
        return sorted(event for event in found if not any(text in event for text in _BY_CHANCE))

    return await _steady(look)


def _event(event: Document) -> str:
    regarding = event.get("regarding") or {}
    parts = (
        event.get("reportingController") or (event.get("deprecatedSource") or {}).get("component"),
        regarding.get("kind"),
        regarding.get("name"),
        event.get("type"),
        event.get("reason"),
        event.get("note"),
    )
    return _UID.sub("<uid>", _RANDOM.sub("xxxxx", " | ".join(str(part) for part in parts)))


async def differences(
    worlds: Sequence[World],
    scenarios: Sequence[Scenario],
    compare: Callable[..., Awaitable[str]],
    *,
    at_once: int = AT_ONCE,
) -> dict[str, str]:
    """What differs, by the name of the scenario. `compare` gets a namespace in each world, and the scenario."""
    limit = asyncio.Semaphore(at_once)
    found: dict[str, str] = {}

    async def one(scenario: Scenario) -> None:
        name = name_of_scenario(scenario)
        async with limit:
            try:
                found[name] = await compare(*[await elsewhere(world, scenario) for world in worlds], scenario)
            except GaveUp as error:
                found[name] = str(error)

    await asyncio.gather(*(one(scenario) for scenario in scenarios))
    return {name: text for name, text in found.items() if text}


async def elsewhere(world: World, scenario: Scenario) -> World:
    """The world in a namespace for the scenario, whose name is in what is seen."""
    return await world.elsewhere(f"compared-{name_of_scenario(scenario).replace('_', '-')}")


def name_of_scenario(scenario: Scenario) -> str:
    """The name of its function."""
    return str(getattr(scenario, "__name__", ""))
