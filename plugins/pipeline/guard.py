# SPDX-License-Identifier: Apache-2.0
"""Calling a plugin so that whatever happens in there has its name on it, and its inputs stay as they are."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.plugins.contract import (
    FactUnavailable,
    InputMutated,
    Ledger,
    PluginFailure,
    Refusal,
    Runtime,
)

T = TypeVar("T")


class Guard:
    """The calls of one run: on copies of the inputs, which are compared with the originals after each call."""

    __slots__ = ("_inputs", "job", "ledger", "old", "runtime")

    def __init__(self, job: TrainJob, runtime: Runtime | None = None, old: TrainJob | None = None) -> None:
        self.job = job.deepcopy()
        """The TrainJob that plugins get."""
        self.runtime = runtime.deepcopy() if runtime is not None else None
        """The runtime that plugins get."""
        self.old = old.deepcopy() if old is not None else None
        """The TrainJob before an update that plugins get."""
        self.ledger = Ledger()
        """Where their writes are noted."""
        self._inputs = (("the TrainJob", job), ("the runtime", runtime), ("the old TrainJob", old))

    def call(self, name: str, hook: str, function: Callable[..., T], *arguments: Any) -> T:
        """Call a hook. Raises Refusal, PluginFailure, InputMutated or FactUnavailable."""
        self.ledger.plugin, self.ledger.phase = name, hook
        try:
            result = function(*arguments)
        except Refusal as refusal:
            raise refusal.attributed(name, hook) from refusal.__cause__
        except FactUnavailable:
            raise
        except Exception as error:
            problem = f"{hook} failed: {type(error).__name__}: {error}"
            raise PluginFailure(problem, plugin=name, phase=hook) from error
        self._unchanged(name, hook)
        return result

    def collect(self, name: str, hook: str, function: Callable[..., Iterable[T]], *arguments: Any) -> list[T]:
        """Call a hook that returns or yields several things. Raises like `call`, also for what is raised on the way."""
        return self.call(name, hook, lambda: list(function(*arguments)))

    def _unchanged(self, name: str, hook: str) -> None:
        for (what, original), copy in zip(self._inputs, (self.job, self.runtime, self.old), strict=True):
            if original != copy:
                problem = f"{hook} changed {what}, which is an input; change info instead"
                raise InputMutated(problem, plugin=name, phase=hook)
