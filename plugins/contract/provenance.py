# SPDX-License-Identifier: Apache-2.0
"""Records which plugin set which value, and why.

Every write of a plugin goes through the model of the contract and adds an entry here. `trainwright render --explain`
prints the entries. A value that was set twice, and differently, gives an override: a warning for the user.
"""

from dataclasses import dataclass
from typing import Any

TRAIN_JOB = "the TrainJob"
"""Source of values that a plugin copies from the TrainJob."""
RUNTIME = "the runtime"
"""Source of values that were in the template before any plugin ran."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One value in the output."""

    path: str
    """Path in the JobSet, with list items by key: `spec.replicatedJobs[node]…containers[node].env[PET_NNODES]`."""
    value: Any
    plugin: str
    """The plugin that wrote it; empty for the template, which is made before plugins run."""
    source: str
    """Where the value comes from: a plugin, `TRAIN_JOB`, or the patch of a manager."""
    phase: str
    why: str


@dataclass(frozen=True, slots=True)
class Override:
    """A value that one source set and another one replaced."""

    path: str
    loser: str
    winner: str

    def __str__(self) -> str:
        return f"{self.path}: the value of {self.winner} replaces the one of {self.loser}"


class Ledger:
    """The record of one run of the pipeline."""

    __slots__ = ("_overrides", "_settings", "_written", "phase", "plugin")

    def __init__(self) -> None:
        self._settings: dict[str, Setting] = {}
        self._overrides: dict[str, Override] = {}
        self._written: list[str] = []
        self.plugin = ""
        """The plugin that writes now; set by the pipeline."""
        self.phase = "template"

    def begin(self, plugin: str, phase: str) -> None:
        """Attribute what follows to a plugin."""
        self.plugin, self.phase = plugin, phase
        self._written.clear()

    def copy(self) -> "Ledger":
        """A ledger that begins with the entries of this one."""
        copied = Ledger()
        copied._settings, copied._overrides = dict(self._settings), dict(self._overrides)
        return copied

    def record(self, path: str, value: Any, *, before: Any, why: str, source: str = "") -> None:
        """Note that the current plugin replaced `before` (None: no value) at the path by the value."""
        who = source or self.plugin
        self._written.append(path)
        earlier = self._settings.get(path)
        if earlier is not None and earlier.source == who and earlier.value == value:
            return
        if before is not None and before != value:
            self._replaced(path, earlier.source if earlier is not None else RUNTIME, who)
        self._settings[path] = Setting(path, value, self.plugin, who, self.phase, why)

    def found(self, path: str, value: Any, *, before: Any) -> None:
        """Note a value that the current plugin has set past this record, unless it is part of one that is in it."""
        if not any(path == one or _is_part(path, one) or _is_part(one, path) for one in self._written):
            self.record(path, value, before=before, why="set in info.template")
            self._written.pop()

    def carried(self, path: str, value: Any, *, why: str) -> None:
        """Note a value of the TrainJob that is in the template before plugins run."""
        self._settings[path] = Setting(path, value, "", TRAIN_JOB, "template", why)

    def patched(self, path: str, value: Any, *, before: Any, manager: str) -> None:
        """Note a value that an entry of runtimePatches set."""
        self.record(path, value, before=before, why="spec.runtimePatches", source=f"the patch of {manager}")

    def settings(self) -> tuple[Setting, ...]:
        """The last setting of each path, in the order in which the paths were first set."""
        return tuple(self._settings.values())

    def overrides(self) -> tuple[Override, ...]:
        """The last override of each path."""
        return tuple(self._overrides.values())

    def _replaced(self, path: str, loser: str, winner: str) -> None:
        """Note an override. Users and patches may replace values of the runtime; any other replacement is noted."""
        if winner != loser and (loser != RUNTIME or winner == self.plugin):
            self._overrides[path] = Override(path, loser, winner)


def _is_part(path: str, whole: str) -> bool:
    return path.startswith((f"{whole}.", f"{whole}["))
