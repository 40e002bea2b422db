# SPDX-License-Identifier: Apache-2.0
"""Who set which value, and why.

Every write of a plugin goes through the model of the contract and leaves an entry here. From the entries come
`trainwright render --explain` and the conflicts: a value that a plugin set and that somebody else (another plugin, the
runtime, the TrainJob) wanted to be different.
"""

from dataclasses import dataclass
from typing import Any

TRAIN_JOB = "the TrainJob"
"""Source of values that a plugin only carries over from the TrainJob."""
RUNTIME = "the runtime"
"""Source of values that were in the template before any plugin ran."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One value in the output."""

    path: str
    """In the JobSet, list items by key: `spec.replicatedJobs[node]…containers[node].env[PET_NNODES]`."""
    value: Any
    plugin: str
    """Who wrote it; empty for the template, which is made before any plugin runs."""
    source: str
    """Whose value it is: the plugin's name, `TRAIN_JOB`, or the patch of a manager."""
    phase: str
    why: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """A value that one side set and the other replaced."""

    path: str
    loser: str
    winner: str

    def __str__(self) -> str:
        return f"{self.path}: the value of {self.winner} replaces the one of {self.loser}"


class Ledger:
    """The book of one pipeline run."""

    __slots__ = ("_conflicts", "_settings", "phase", "plugin")

    def __init__(self) -> None:
        self._settings: dict[str, Setting] = {}
        self._conflicts: dict[str, Conflict] = {}
        self.plugin = ""
        """Who is writing now; set by the pipeline."""
        self.phase = "template"

    def record(self, path: str, value: Any, *, before: Any, why: str, source: str = "") -> None:
        """Note that the current plugin set the value at the path, where `before` was (None: nothing)."""
        who = source or self.plugin
        earlier = self._settings.get(path)
        if earlier is not None and earlier.source == who and earlier.value == value:
            return
        if before is not None and before != value:
            self._replaced(path, earlier.source if earlier is not None else RUNTIME, who)
        self._settings[path] = Setting(path, value, self.plugin, who, self.phase, why)

    def carried(self, path: str, value: Any, *, why: str) -> None:
        """Note a value of the TrainJob that the template took over before any plugin ran."""
        self._settings[path] = Setting(path, value, "", TRAIN_JOB, "template", why)

    def patched(self, path: str, value: Any, *, before: Any, manager: str) -> None:
        """Note a value that an entry of runtimePatches set."""
        self.record(path, value, before=before, why="spec.runtimePatches", source=f"the patch of {manager}")

    def settings(self) -> tuple[Setting, ...]:
        """The last setting of each path, in the order in which the paths were first set."""
        return tuple(self._settings.values())

    def conflicts(self) -> tuple[Conflict, ...]:
        """The last conflict of each path."""
        return tuple(self._conflicts.values())

    def _replaced(self, path: str, loser: str, winner: str) -> None:
        """Users and patches are there to replace values of the runtime; everything else is a surprise to somebody."""
        if winner != loser and (loser != RUNTIME or winner == self.plugin):
            self._conflicts[path] = Conflict(path, loser, winner)
