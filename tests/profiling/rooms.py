# SPDX-License-Identifier: Apache-2.0
"""Samples of the manager's stack as a table of rooms: milliseconds per life, alone and with what each room calls.

A room is a part of the house with one task. A frame belongs to the room of its file; files of no room (the models, the
standard library, aiohttp below our client) count for whoever called them.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOMS: Sequence[tuple[str, str]] = (
    ("requests", "controller/runtime/client/"),
    ("watch and decode", "controller/runtime/client/watch.py"),
    ("watch and decode", "controller/runtime/cache/"),
    ("own writes in the cache", "controller/runtime/cache/echo.py"),
    ("packing managedFields", "controller/runtime/cache/transforms.py"),
    ("compare and apply", "controller/runtime/apply/"),
    ("queue and workers", "controller/runtime/workqueue/"),
    ("queue and workers", "controller/runtime/controller/"),
    ("metrics", "controller/runtime/metrics/"),
    ("metrics", "controller/trainer/job/metrics.py"),
    ("events", "controller/runtime/events/"),
    ("events", "controller/trainer/job/events.py"),
    ("webhooks", "controller/runtime/webhook/"),
    ("webhooks", "controller/runtime/servers/"),
    ("admission", "controller/trainer/admission/"),
    ("snapshot", "controller/trainer/build/runtimes.py"),
    ("objects of a job", "controller/trainer/build/"),
    ("shaping", "plugins/"),
    ("status and decision", "controller/trainer/job/"),
    ("states of jobs", "controller/trainer/job/status.py"),
    ("progress", "controller/trainer/progress/"),
    ("explain", "controller/trainer/why/"),
    ("one reconcile", "controller/trainer/controller.py"),
    ("the rest", "controller/"),
)
"""Name and files of each room; the longest path that fits counts."""
LOOP = "event loop"
"""Frames of no room at all: the loop, and what aiohttp does when bytes arrive."""
ROOT = Path(__file__).parents[2]


class Room(NamedTuple):
    """Shares of all samples."""

    name: str
    alone: float
    inside: float
    """With all that it calls."""


def room_of(file: str) -> str | None:
    """The room of a file; None if it has none."""
    path = file.removeprefix(f"{ROOT}/").removeprefix("trainwright/")
    if path == file and not path.startswith(("controller/", "plugins/")):
        return None
    fitting = [(len(prefix), name) for name, prefix in ROOMS if path.startswith(prefix)]
    return max(fitting)[1] if fitting else None


def rooms(samples: Iterable[tuple[Sequence[Sequence[str]], int]]) -> list[Room]:
    """The rooms, the largest first."""
    alone: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    total = 0
    for stack, times in samples:
        named = [name for file, _ in stack if (name := room_of(file)) is not None]
        # The command that runs it all is on every stack.
        named = named[:-1] if named and named[-1] == "the rest" else named
        while named and named[-1] == "the rest":
            named.pop()
        total += times
        alone[named[0] if named else LOOP] += times
        for name in set(named) or {LOOP}:
            inside[name] += times
    return [Room(name, alone[name] / total, share / total) for name, share in inside.most_common()] if total else []


def read(file: Path) -> list[tuple[list[list[str]], int]]:
    """The samples that `sampler` wrote."""
    found: list[tuple[list[list[str]], int]] = json.loads(file.read_text())
    return found


def table(samples: Sequence[tuple[Sequence[Sequence[str]], int]], milliseconds: float, functions: int = 0) -> str:
    """Rooms as text. `milliseconds` is what all samples together stand for; `functions` adds the largest ones."""
    lines = [f"  {'room':<28}{'alone':>8}{'inside':>9}   ms per life, {sum(t for _, t in samples)} samples"]
    lines += [
        f"  {room.name:<28}{room.alone * milliseconds:8.2f}{room.inside * milliseconds:9.2f}" for room in rooms(samples)
    ]
    alone: Counter[str] = Counter()
    for stack, times in samples:
        file, function = stack[0]
        alone[f"{Path(file).parent.name}/{Path(file).name}:{function}"] += times
    total = sum(alone.values()) or 1
    lines += [f"    {times / total * milliseconds:6.3f}  {name}" for name, times in alone.most_common(functions)]
    return "\n".join(lines)
