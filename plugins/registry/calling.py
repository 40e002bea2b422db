# SPDX-License-Identifier: Apache-2.0
"""Calls hooks of plugins: what goes wrong in one is an error that names the plugin, the file and the line.

Hooks run on the event loop, so one that does not return would stop the manager, and on a laptop the whole cluster. In
the main thread, where the loop runs, a timer of the operating system ends the call. The built-in plugins are called
without a timer, which would cost each of their calls 20 microseconds.

Plugins get copies of the inputs, which are made once for a run and compared with the inputs at the end of each phase.
If they differ, the phase runs again on new copies, with a comparison after each hook, to find the plugin that changed
them. So most runs cost one comparison for each phase.
"""

import inspect
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.messages import one_line, shortened
from trainwright.api.rights import Rule
from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.plugins.contract import (
    Component,
    FactUnavailable,
    FieldError,
    PodRef,
    Reference,
    Refusal,
    Runtime,
    Warned,
    Watch,
)
from trainwright.plugins.contract.container import Ledger
from trainwright.plugins.contract.errors import InputMutated, PluginFailure
from trainwright.plugins.contract.facts import GeneratedSecret
from trainwright.plugins.contract.picture import Cause
from trainwright.plugins.contract.points import EXTENSION_POINTS, SHAPING, Plugin
from trainwright.plugins.registry.discovery import PluginCandidate

T = TypeVar("T")

LIMIT_SECONDS = 5.0
"""For one call. An API server waits ten seconds for the answer of a webhook."""
_AGAIN_SECONDS = 1.0
"""How often a call that has not ended is interrupted again."""
_VALUE_LIMIT = 80
_OURS = "trainwright"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

_SEVERAL: dict[str, tuple[str, tuple[type, ...]]] = {
    "watches": ("a Watch", (Watch,)),
    "uses_facts": ("a Reference", (Reference,)),
    "validation_facts": ("a Reference", (Reference,)),
    "status_facts": ("a Reference", (Reference,)),
    "validate": ("a finding", (FieldError, Warned)),
    "validate_shaped": ("a finding", (FieldError, Warned)),
    "build": ("a Component", (Component,)),
    "explain": ("a Cause", (Cause,)),
}
"""Hooks that return or yield several items: what each of them is."""
_SINGLE: dict[str, tuple[str, tuple[type, ...]]] = {
    **dict.fromkeys(SHAPING, ("None: it changes info", (type(None),))),
    "reporter": ("a PodRef or None", (PodRef, type(None))),
    "status": ("a TrainJobStatus or None", (TrainJobStatus, type(None))),
}


class _Late(BaseException):
    """Ends a call. It is no Exception, which the plugin may catch."""


def called(plugin: Any, name: str, hook: str, *arguments: Any) -> Any:
    """What a hook returns; a list where it returns or yields several items.

    Raises Refusal, FactUnavailable; PluginFailure for every other exception, for a result of another type, and for a
    call that does not return within LIMIT_SECONDS.
    """
    module = type(plugin).__module__
    method = getattr(plugin, hook)
    try:
        with nullcontext() if is_ours(plugin) else _limited(), spoken_aside():
            result = with_all(method, hook)(*arguments)
            if hook in _SEVERAL and isinstance(result, Iterable):
                result = list(result)
    except Refusal as refusal:
        raise refusal.attributed(name, hook) from refusal.__cause__
    except (FactUnavailable, KeyboardInterrupt):
        raise
    except _Late as late:
        problem = f"{hook} did not return within {LIMIT_SECONDS:g} s{place_of(late, module)}"
        raise PluginFailure(problem, plugin=name, phase=hook) from late
    except BaseException as error:  # sys.exit in a plugin must not end the manager
        problem = f"{hook} failed: {type(error).__name__}: {error}{place_of(error, module)}"
        raise PluginFailure(problem, plugin=name, phase=hook) from error
    if problem := _wrong(hook, result):
        raise PluginFailure(f"{hook} returned {problem}{_defined(method)}", plugin=name, phase=hook)
    return result


def with_all(method: Callable[..., Any], hook: str) -> Callable[..., Any]:
    """An implementation, which may take some of the arguments, as a function of all arguments of its hook."""
    indexes = _taken(getattr(method, "__func__", method), hook)
    return lambda *arguments: method(*(arguments[index] for index in indexes))


@lru_cache(maxsize=1024)
def _taken(function: Callable[..., Any], hook: str) -> tuple[int, ...]:
    """Which arguments of a hook an implementation takes, in its own order."""
    offered = arguments_of(hook)
    return tuple(offered.index(name) for name in inspect.signature(function).parameters if name != "self")


def arguments_of(hook: str) -> tuple[str, ...]:
    """The names of the arguments that the contract offers to implementations of a hook."""
    return tuple(inspect.signature(getattr(EXTENSION_POINTS[hook], hook)).parameters)[1:]


def spoken_aside() -> AbstractContextManager[object]:
    """What a plugin prints goes to the standard error: a command writes its answer, such as YAML, to the other."""
    return redirect_stdout(sys.stderr)


def is_ours(plugin: Any) -> bool:
    """Whether it is a built-in plugin."""
    return _package(type(plugin).__module__)[0] == _OURS


def place_of(error: BaseException, module: str) -> str:
    """Where the package of `module` raised the error: ` (acme_ray.py, line 12)`; empty where no code of it ran."""
    places = [
        (_package(frame.f_globals.get("__name__") or ""), _place(frame.f_code, line, frame.f_globals))
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    return next((place for package, place in reversed(places) if package == _package(module)), "")


def _wrong(hook: str, result: Any) -> str:
    """The value that is of another type, and what is expected; empty if there is none."""
    if hook in _SINGLE:
        what, types = _SINGLE[hook]
        return "" if isinstance(result, types) else f"{_shown(result)} instead of {what}"
    what, types = _SEVERAL[hook]
    if not isinstance(result, list):
        return f"{_shown(result)} instead of several items, each {what}"
    for item in result:
        if not isinstance(item, types):
            return f"{_shown(item)} instead of {what}"
        if isinstance(item, (FieldError, Warned)) and not _has_text(item):
            return f"{_shown(item)}, which cannot be written as text"
    return ""


def _has_text(finding: Any) -> bool:
    try:
        str(finding).encode()
    except Exception:
        return False
    return True


def _shown(value: Any) -> str:
    try:
        # Without addresses: a condition must not differ from one process to the next.
        return shortened(_ADDRESS.sub("", one_line(repr(value))), _VALUE_LIMIT)
    except Exception:
        return f"an object of class {type(value).__name__}"


def _defined(method: Any) -> str:
    code = getattr(method, "__code__", None)
    return _place(code, code.co_firstlineno, method.__globals__) if isinstance(code, CodeType) else ""


def _place(code: CodeType, line: int | None, names: dict[str, Any]) -> str:
    """The file below the folder that its package is in, and the line: the same on each machine."""
    path = Path(code.co_filename)
    depth = (names.get("__name__") or "").count(".") + (2 if path.name == "__init__.py" else 1)
    return f" ({'/'.join(path.parts[-depth:])}, line {line})"


def _package(module: str) -> tuple[str, ...]:
    """The top-level package; of ours, where all plugins are in one, the module or folder of the plugin."""
    parts = tuple(module.split("."))
    return parts[:3] if parts[0] == _OURS else parts[:1]


@contextmanager
def _limited() -> Iterator[None]:
    """Raise _Late in the block when it takes too long, also while it waits. In the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    armed = True

    def interrupt(*_: object) -> None:
        if armed:
            raise _Late

    handler = signal.signal(signal.SIGALRM, interrupt)
    timer = signal.setitimer(signal.ITIMER_REAL, LIMIT_SECONDS, _AGAIN_SECONDS)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)


@dataclass(frozen=True, slots=True)
class Loaded:
    plugin: Plugin
    candidate: PluginCandidate
    watches: tuple[Watch, ...] = ()
    """What its hook `watches` has returned."""

    @property
    def name(self) -> str:
        return self.candidate.name

    def hook(self, name: str) -> Callable[..., Any]:
        """The implementation of a hook, to be called with all its arguments; what it raises is raised."""
        return with_all(getattr(self.plugin, name), name)

    @property
    def hooks(self) -> tuple[str, ...]:
        """The hooks of the plugin, in the order of the phases."""
        return tuple(hook for hook in EXTENSION_POINTS if hasattr(self.plugin, hook))

    @property
    def rules(self) -> tuple[Rule, ...]:
        making = (Rule.on(Secret.RESOURCE, "create"),) if self.secrets else ()
        watching = (rule for watch in self.watches for rule in watch.rules)
        return (*getattr(self.plugin, "rules", ()), *watching, *making)

    @property
    def secrets(self) -> tuple[GeneratedSecret, ...]:
        return tuple(getattr(self.plugin, "secrets", ()))

    @property
    def before(self) -> frozenset[str]:
        return frozenset(getattr(self.plugin, "before", ()))

    @property
    def after(self) -> frozenset[str]:
        return frozenset(getattr(self.plugin, "after", ()))


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
