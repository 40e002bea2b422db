# SPDX-License-Identifier: Apache-2.0
"""Exceptions from any function of the node while it works for one pod.

Each function and method of `controller.local.node` counts its calls on behalf of a pod, in tasks and threads alike: a
context variable says for whom. At the call that the pod's fault has drawn, it raises instead of running. What the node
itself does, for all of its pods, is not done on behalf of one, whoever has caused it.
"""

import errno
import functools
import inspect
import random
import sys
from collections.abc import Callable
from contextvars import ContextVar
from types import FunctionType
from typing import Any

from trainwright.controller.local.node.node import LocalNode
from trainwright.controller.local.node.pod import PodWorker
from trainwright.controller.runtime.errors import ConnectionLost, ServerError

PACKAGE = "trainwright.controller.local.node"
ELSEWHERE = ("guard", "launcher", "lowlevel", "spawner")
"""Programs of their own."""
FAULT = "boundaries/fault"
"""Annotation of a pod: the number of the call that raises."""


class PlannedError(Exception):
    """An error that nobody expects."""


ERRORS: tuple[Callable[[], Exception], ...] = (
    lambda: PlannedError("planned"),
    lambda: OSError(errno.EIO, "planned input/output error"),
    lambda: OSError(errno.ENOSPC, "planned lack of room"),
    lambda: KeyError("planned"),
    lambda: RecursionError("planned"),
    lambda: MemoryError("planned"),
    lambda: ServerError("planned", code=500),
    lambda: ConnectionLost("planned"),
)


class Fault:
    """Of one pod: raises once."""

    def __init__(self, call: int) -> None:
        self._left = call
        self._error = random.Random(call).choice(ERRORS)
        self.where = ""
        """The function that raised; empty if none has yet."""

    def count(self, name: str) -> None:
        """A function is called. Raises the planned error, once."""
        self._left -= 1
        if self._left == 0:
            self.where = name
            raise self._error()


_current: ContextVar[Fault | None] = ContextVar("fault", default=None)


class Thrower:
    """Installs itself in the node; `faults` has those of the pods that ran, by name."""

    def __init__(self) -> None:
        self.faults: dict[str, Fault] = {}
        self._undo: list[Callable[[], None]] = []

    def install(self) -> None:
        """Wrap everything. Modules that are imported later are not."""
        original = PodWorker.run  # its beginning is where a pod's work begins
        modules = [module for name, module in sys.modules.items() if name.startswith(PACKAGE + ".")]
        ours = [module for module in modules if module.__name__.rpartition(".")[2] not in ELSEWHERE]
        wrapped: dict[FunctionType, Any] = {}
        for module in ours:
            for name, value in list(vars(module).items()):
                if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                    wrapped[value] = _counting(value, f"{module.__name__.removeprefix(PACKAGE)[1:]}.{name}")
                elif isinstance(value, type) and value.__module__ == module.__name__:
                    self._wrap_methods(value)
        # Those that others have imported by name, too.
        for module in list(sys.modules.values()):
            for name, value in list(vars(module).items()):
                if isinstance(value, FunctionType) and value in wrapped:
                    self._set(module, name, wrapped[value])

        async def run(worker: PodWorker) -> None:
            metadata = worker.pod["metadata"]
            if call := int((metadata.get("annotations") or {}).get(FAULT, "0")):
                self.faults[metadata["name"]] = fault = Fault(call)
                _current.set(fault)  # of this task, which ends with the pod
            await original(worker)

        self._set(PodWorker, "run", run)

    def remove(self) -> None:
        """Put everything back."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()

    def _wrap_methods(self, owner: type) -> None:
        for name, value in list(vars(owner).items()):
            # Making an object and comparing some is no work of its own.
            if isinstance(value, FunctionType) and not name.startswith("__"):
                wrap = _outside if owner is LocalNode else _counting
                self._set(owner, name, wrap(value, f"{owner.__name__}.{name}"))

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self._undo.append(functools.partial(setattr, owner, name, vars(owner)[name]))
        setattr(owner, name, value)


def _outside(function: FunctionType, name: str) -> Any:
    del name
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def for_all_later(*arguments: Any, **named: Any) -> Any:
            token = _current.set(None)
            try:
                return await function(*arguments, **named)
            finally:
                _current.reset(token)

        return for_all_later

    @functools.wraps(function)
    def for_all(*arguments: Any, **named: Any) -> Any:
        token = _current.set(None)
        try:
            return function(*arguments, **named)
        finally:
            _current.reset(token)

    return for_all


def _counting(function: FunctionType, name: str) -> Any:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def counted_later(*arguments: Any, **named: Any) -> Any:
            if (fault := _current.get()) is not None:
                fault.count(name)
            return await function(*arguments, **named)

        return counted_later
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return function

    @functools.wraps(function)
    def counted(*arguments: Any, **named: Any) -> Any:
        if (fault := _current.get()) is not None:
            fault.count(name)
        return function(*arguments, **named)

    return counted
