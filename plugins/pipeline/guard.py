# SPDX-License-Identifier: Apache-2.0
"""Calls the hooks of one run on copies of the inputs, and detects changes of these.

Plugins get copies of the inputs, which are made once for a run and compared with the inputs at the end of each phase.
If they differ, the phase runs again on new copies, with a comparison after each hook, to find the plugin that changed
them. So most runs cost one comparison for each phase.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.plugins.contract import Runtime
from trainwright.plugins.contract.errors import InputMutated
from trainwright.plugins.contract.provenance import Ledger
from trainwright.plugins.registry import Loaded, called

T = TypeVar("T")


class PluginGuard:
    """Calls hooks on copies of the inputs."""

    __slots__ = ("_originals", "_strict", "job", "ledger", "old", "runtime")

    def __init__(
        self, job: TrainJob, runtime: Runtime | None = None, old: TrainJob | None = None, *, strict: bool = False
    ) -> None:
        """`strict`: compare the inputs after each call."""
        self.job = job.deepcopy()
        """The TrainJob that plugins get."""
        self.runtime = runtime.deepcopy() if runtime is not None else None
        """The runtime that plugins get."""
        self.old = old.deepcopy() if old is not None else None
        """The TrainJob before an update that plugins get."""
        self.ledger = Ledger()
        """Where the writes of plugins are noted."""
        self._originals = (job, runtime, old)
        self._strict = strict

    def changed(self) -> str:
        """The first input that was changed, in words; empty if none was."""
        job, runtime, old = self._originals
        if self.job != job:
            return "the TrainJob"
        if self.runtime != runtime:
            return "the runtime"
        return "the old TrainJob" if self.old != old else ""

    def call(self, entry: Loaded, hook: str, *arguments: Any) -> Any:
        """Call a hook. Raises like `called`; InputMutated if strict."""
        self.ledger.begin(entry.name, hook)
        result = called(entry.plugin, entry.name, hook, *arguments)
        if self._strict and (what := self.changed()):
            problem = f"{hook} changed {what}, which is an input; change info instead"
            raise InputMutated(problem, plugin=entry.name, phase=hook)
        return result


class GuardedInputs:
    """The inputs of one run, and the copies that its phases share."""

    __slots__ = ("_given", "_shared")

    def __init__(self, job: TrainJob, runtime: Runtime | None = None, old: TrainJob | None = None) -> None:
        self._given = (job, runtime, old)
        self._shared: PluginGuard | None = None

    def phase(self, hooks: Callable[[PluginGuard], T]) -> T:
        """Run a phase: a function that calls its hooks on the guard that it gets.

        Raises what the function raises, and InputMutated with the name of the plugin that changed an input.
        """
        guard = self.shared()
        try:
            result = hooks(guard)
        except Exception:
            # A change by one plugin may have made another one fail.
            if not guard.changed():
                raise
        else:
            if not guard.changed():
                return result
        self.renew()
        hooks(self.guard(strict=True))
        raise InputMutated(f"a plugin changed {guard.changed()}, which is an input, but not when the phase ran again")

    def shared(self) -> PluginGuard:
        if self._shared is None:
            self._shared = self.guard()
        return self._shared

    def renew(self) -> None:
        """Give the next phases new copies, because a plugin has changed the shared ones."""
        self._shared = None

    def guard(self, *, strict: bool = False) -> PluginGuard:
        return PluginGuard(*self._given, strict=strict)
