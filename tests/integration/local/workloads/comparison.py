# SPDX-License-Identifier: Apache-2.0
"""Runs a scenario in two worlds at once, with the real controllers and with ours, and compares what both have made.

Both worlds have a real API server and the same kubelet of the test. Compared are all objects of the namespace at the
points that the scenario names, and all events at its end, without what differs by nature: uids, times, versions and the
random ends of names.
"""

import asyncio
import difflib
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from tests.integration.local.workloads.conftest import World
from trainwright.api.base import Resource
from trainwright.api.objects import Document, name_of, uid_of
from trainwright.controller.local.workloads.kinds import (
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
Note: TypeAlias = Callable[[str], Awaitable[None]]
Scenario: TypeAlias = Callable[[World, Note], Awaitable[None]]
Notes: TypeAlias = dict[str, list[str]]
Worlds: TypeAlias = tuple[World, World]
"""The real controllers, and ours."""
AT_ONCE = 4
"""Scenarios that run beside each other, each in a namespace of its own."""

_DROPPED = {"managedFields", "resourceVersion", "creationTimestamp", "clusterIP", "clusterIPs"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_RANDOM = re.compile(r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}(?![a-z0-9])")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\\n", re.DOTALL)
_BY_CHANCE = "follower pod"
"""In events that depend on whether a pod is scheduled before the next one is created."""
_SETTLED_SECONDS = 2.0
"""How long nothing may change. kube-controller-manager looks at a Job one second after its pods have changed."""


async def notes_of(world: World, scenario: Scenario) -> Notes:
    """Run a scenario in one world; returns what was seen."""
    notes: Notes = {}

    async def note(label: str) -> None:
        notes[label] = await settled(world)

    await scenario(world, note)
    notes["events"] = await _events(world)
    await world.client.delete(NAMESPACE, world.namespace)
    notes["left at the end"] = await eventually(lambda: _left(world), is_empty)
    return notes


async def _left(world: World) -> list[str]:
    """The namespace as long as it is there."""
    try:
        return [json.dumps(await world.client.get(NAMESPACE, world.namespace))]
    except NotFound:
        return []


async def difference(real: World, ours: World, scenario: Scenario) -> str:
    """The first point at which the two worlds differ; empty if there is none."""
    theirs, made = await asyncio.gather(notes_of(real, scenario), notes_of(ours, scenario))
    for label, expected in theirs.items():
        if made[label] != expected:
            lines = difflib.unified_diff(
                _lines(expected), _lines(made[label]), "the real ones", "ours", lineterm="", n=6
            )
            return f"{label}:\n" + "\n".join(lines)
    return ""


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
        found = await look()
        if found != last:
            last, since = found, loop.time()
        return loop.time() - since

    await eventually(look_again, at_least(_SETTLED_SECONDS))
    return last


async def _objects(world: World) -> list[str]:
    found = [obj for kind in KINDS for obj in await world.all(kind)]
    names = {uid_of(obj): f"<uid of {obj['kind']} {_RANDOM.sub('xxxxx', name_of(obj))}>" for obj in found}
    return sorted(_shown(obj, names) for obj in found)


def _shown(obj: Document, names: dict[str, str]) -> str:
    text = json.dumps(_stripped(obj), indent=1, sort_keys=True)
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


async def _events(world: World) -> list[str]:
    """All events, once no more come."""

    async def look() -> list[str]:
        found = {_event(event) for event in (await world.client.list(EVENT, world.namespace)).items}
        return sorted(event for event in found if _BY_CHANCE not in event)

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
    return _RANDOM.sub("xxxxx", " | ".join(str(part) for part in parts))


async def differences(worlds: Worlds, scenarios: Sequence[Scenario]) -> dict[str, str]:
    """What differs, by the name of the scenario."""
    limit = asyncio.Semaphore(AT_ONCE)
    found: dict[str, str] = {}

    async def one(scenario: Scenario) -> None:
        name = getattr(scenario, "__name__", "")
        async with limit:
            try:
                real, ours = [await world.elsewhere(f"compared-{name.replace('_', '-')}") for world in worlds]
                found[name] = await difference(real, ours, scenario)
            except GaveUp as error:
                found[name] = str(error)

    await asyncio.gather(*(one(scenario) for scenario in scenarios))
    return {name: text for name, text in found.items() if text}
