# SPDX-License-Identifier: Apache-2.0
"""Which of the ranks that stand still is elsewhere, from the stacks that they print when they are stopped.

The writer of progress lets `faulthandler` print where each thread of a process stands. Most ranks of a training that
hangs wait for the one that does something else, or the same somewhere else.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainwright.api.messages import shortened
from trainwright.controller.trainer.failures.last_words import RANK_PREFIX

_THREAD = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+ .*\(most recent call first\):$")
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)$')
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python\d|<frozen ")
_WAITS = re.compile(
    r"torch/distributed/|mpi4py|horovod|/xgboost/collective|multihost_utils"
    r"|\b(?:all_?reduce|all_?gather\w*|reduce_?scatter\w*|broadcast\w*|barrier|monitored_barrier)$",
    re.IGNORECASE,
)
"""Files and functions of what a rank does together with the others."""
_MAIN = "<module>"
_NAMED = 3


@dataclass(frozen=True, slots=True)
class _Place:
    frame: str
    """The innermost line of the user's own files."""
    waits: bool
    """Whether it calls what all ranks do together."""


def whereabouts(logs: Mapping[str, str]) -> str:
    """Which rank is not where the others are, and at which line of the user's file; empty: the logs do not tell.

    `logs` are the ends of logs by rank, as people call it.
    """
    places = [(rank, place) for rank, log in logs.items() for place in _places(log.split("\n"))]
    if not places:
        return ""
    counts = Counter(place.frame for _, place in places)
    (usual, number), *others = counts.most_common()
    if not others:
        return f"{_listed(dict.fromkeys(rank for rank, _ in places))} stood at {usual}"
    away = [one for one in places if not one[1].waits]
    if not away or len(away) == len(places):
        away = [one for one in places if one[1].frame != usual] if number * 2 > len(places) else []
    if not away:
        return ", ".join(f"{rank} stood at {place.frame}" for rank, place in places[:_NAMED])
    staying = next(place.frame for _, place in places if place not in [one for _, one in away])
    rank, place = away[0]
    more = f", like {len(away) - 1} more" if away[1:] else ""
    return f"{rank} was elsewhere{more}: {place.frame}; the others waited at {staying}"


def _listed(ranks: Mapping[str, None]) -> str:
    names = list(ranks)
    return names[0] if len(names) == 1 else f"all {len(names)} that printed a stack"


def _places(lines: Sequence[str]) -> Iterator[_Place]:
    """Where the main thread of each process stands."""
    for frames in _threads(lines):
        # Other threads do not begin in a module.
        if all(function != _MAIN for _, _, function in frames):
            continue
        own = next((n for n, (file, _, _) in enumerate(frames) if not _LIBRARY.search(file)), 0)
        file, line, function = frames[own]
        waits = any(_WAITS.search(file) or _WAITS.search(function) for file, _, function in frames[: own + 1])
        yield _Place(f'File "{shortened(file, 60)}", line {line}, in {function}', waits)


def _threads(lines: Sequence[str]) -> Iterator[list[tuple[str, str, str]]]:
    """The frames of each thread, the innermost first."""
    frames: list[tuple[str, str, str]] = []
    is_inside = False
    for line in (*(RANK_PREFIX.sub("", one).rstrip() for one in lines), ""):
        frame = _FRAME.match(line) if is_inside else None
        if frame is not None:
            frames.append((frame[1], frame[2], frame[3]))
            continue
        if frames:
            yield frames
        frames, is_inside = [], _THREAD.search(line) is not None
