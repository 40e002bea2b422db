# SPDX-License-Identifier: Apache-2.0
"""Starts groups of runnables in order and stops them in reverse, within one time budget.

Each group is a TaskGroup in a task of its own. A failing runnable does not cancel its siblings. It requests a stop, and
the groups end in order, so that workers finish before the caches and servers below them stop. When the budget is used
up, running tasks are cancelled. A task that ignores its cancellation is named in the error and left behind, because the
process is about to end.

Between the end of leader-elected work and that of the other groups there can be a drain: servers go on, and ask their
clients to leave.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol, runtime_checkable

from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.tasks import TaskScope, first_error, outlasted

log = logging.getLogger(__name__)

GRACE_SECONDS = 30.0
CANCEL_SECONDS = 1.0
"""Time for the clean-up of a cancelled runnable, beyond the budget."""


class Group(IntEnum):
    """Groups in the order of their start."""

    SERVERS = 1
    """Metrics, health, debug."""
    WEBHOOKS = 2
    """Before the caches, because a first list may need conversion."""
    CACHES = 3
    OTHERS = 4
    """Run on every replica."""
    LEADER = 5
    """Run only while this replica leads."""


@runtime_checkable
class Runnable(Protocol):
    """Runs beside others. `run` ends by itself, when cancelled, or after `request_stop` if it has one."""

    async def run(self) -> None:
        """Run. It may return; an exception stops the whole process."""
        ...


@runtime_checkable
class Stoppable(Protocol):
    """A runnable that can finish its work before it ends."""

    def request_stop(self) -> None:
        """Finish started work, start no more, and return from `run`."""
        ...


@runtime_checkable
class Drainable(Protocol):
    """A runnable whose clients can go elsewhere."""

    def begin_drain(self) -> None:
        """Go on serving, and ask the clients to leave. `request_stop` or the cancellation follows."""
        ...


class GraceExceeded(Exception):  # noqa: N818 - a time limit, not an error
    """Runnables were still running when the time to stop was used up."""


@dataclass(slots=True, eq=False)
class _Member:
    name: str
    runnable: Runnable
    task: asyncio.Task[None] | None = None


@dataclass(slots=True, eq=False)
class _RunningGroup:
    group: Group
    members: list[_Member] = field(default_factory=list)
    scope: TaskScope | None = None
    host: asyncio.Task[None] | None = None
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    def alive(self) -> list[tuple[_Member, asyncio.Task[None]]]:
        """The members that run, with their tasks."""
        return [(one, one.task) for one in self.members if one.task is not None and not one.task.done()]


class Supervisor:
    """Runs the groups. Leader election waits in `before`, and is left in `after`."""

    def __init__(
        self,
        *,
        grace: float = GRACE_SECONDS,
        drain: float = 0.0,
        before: Callable[[Group], Coroutine[Any, Any, None]] | None = None,
        after: Callable[[Group], Awaitable[None]] | None = None,
        enter: Callable[[Group], None] | None = None,
    ) -> None:
        """Args:
        grace: seconds for the whole stop, 0 means do not wait.
        drain: seconds of them before groups other than LEADER end. A failure or `hurry` leaves it out.
        before: awaited before a group starts.
        after: awaited after a group has ended in a stop without a failure.
        enter: called in the task of each runnable.
        """
        self._grace = grace
        self._drain = drain
        self._before = before
        self._after = after
        self._enter = enter
        self._groups = {group: _RunningGroup(group) for group in Group}
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self._started = False
        self._stopping = False
        self._hurried = asyncio.Event()

    def add(self, runnable: Runnable, group: Group, name: str = "") -> None:
        """Add a runnable; it starts at once if its group runs. Raises ConfigurationError while stopping."""
        if self._stopping:
            raise ConfigurationError(f"cannot add {name or runnable!r}: the process is stopping")
        running = self._groups[group]
        member = _Member(name or type(runnable).__name__.lower(), runnable)
        running.members.append(member)
        if running.scope is not None:
            self._launch(running, member)

    def stop(self) -> None:
        """Request the stop. Idempotent; call it only from the event loop."""
        self._stop.set()

    def hurry(self) -> None:
        """From now on a stop cancels at once instead of waiting."""
        self._grace = 0.0
        self._hurried.set()

    def ended(self, group: Group) -> bool:
        """Whether nothing of the group runs: it has ended or never started."""
        return not self._groups[group].alive()

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def running(self) -> list[str]:
        """Names of the running runnables, in the order of their groups."""
        groups = self._groups.items()
        return [f"{group.name.lower()}/{member.name}" for group, running in groups for member, _ in running.alive()]

    async def run(self) -> None:
        """Start everything, wait for `stop` or a failure, stop everything.

        Cancelled, it stops everything too; cancelled while it stops, it waits for nothing but the ends of what runs.
        Raises the first failure of a runnable; GraceExceeded if the stop took longer than the budget.
        """
        if self._started:
            raise ConfigurationError("a supervisor runs once")
        self._started = True
        try:
            await self._open_all()
            await self._stop.wait()
        except asyncio.CancelledError:
            self._stop.set()
            self._drain = 0.0
            await self._closed()
            raise
        except Exception as error:  # from `before`; the groups that are open must be closed
            self._failure = self._failure or error
        late = await self._closed()
        if self._failure is not None:
            if late:
                self._failure.add_note(str(late))
            raise self._failure
        if late is not None:
            raise late

    async def _open_all(self) -> None:
        for group in Group:
            if self._stop.is_set():
                return
            if self._before is not None:
                await self._until_stop(self._before(group), group)
                if self._stop.is_set():
                    return
            running = self._groups[group]
            running.host = asyncio.get_running_loop().create_task(
                self._host(running), name=f"group:{group.name.lower()}"
            )
            await running.opened.wait()

    async def _until_stop(self, work: Coroutine[Any, Any, None], group: Group) -> None:
        async with TaskScope(f"before:{group.name.lower()}") as tasks:
            ready = tasks.start(f"before:{group.name.lower()}/ready", work)
            await tasks.first(ready, self._stop)
            if ready.done():
                ready.result()

    async def _host(self, running: _RunningGroup) -> None:
        async with TaskScope(f"group:{running.group.name.lower()}") as scope:
            running.scope = scope
            for member in running.members:
                self._launch(running, member)
            running.opened.set()
            await running.closing.wait()

    def _launch(self, running: _RunningGroup, member: _Member) -> None:
        assert running.scope is not None
        member.task = running.scope.start(f"run:{member.name}", self._guard(running.group, member))

    async def _guard(self, group: Group, member: _Member) -> None:
        """Run a member. Its failure is kept and requests a stop instead of cancelling its siblings."""
        if self._enter is not None:
            self._enter(group)
        try:
            await member.runnable.run()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if self._stop.is_set() or task is None or task.cancelling():
                if error.__cause__ is not None:
                    self._fail(member, error.__cause__)
                raise
            # A task inside was cancelled and ended the member; nothing else reports that.
            self._fail(member, RuntimeError("it was cancelled, but not by its supervisor"))
        except BaseExceptionGroup as errors:
            self._fail(member, first_error(errors))
        except Exception as error:
            self._fail(member, error)

    def _fail(self, member: _Member, error: BaseException) -> None:
        if self._failure is None and not self._stop.is_set():
            self._failure = error
            log.error("%s failed, stopping the process: %s", member.name, error)
        else:
            log.error("%s failed while stopping: %s", member.name, error)
        self._stop.set()

    # ------------------------------------------------------------------ ending

    async def _closed(self) -> GraceExceeded | None:
        """Close all groups. A cancellation hurries that, and is passed on once nothing is left to outlive it."""
        closing = asyncio.get_running_loop().create_task(self._close_all(), name="supervisor/close")
        cancelled = await outlasted(closing, self._cancel_all)
        late = closing.result()
        if cancelled is not None:
            raise cancelled
        return late

    def _cancel_all(self) -> None:
        self.hurry()
        for running in self._groups.values():
            for _, task in running.alive():
                task.cancel()

    async def _close_all(self) -> GraceExceeded | None:
        self._stopping = True
        loop = asyncio.get_running_loop()
        begun = loop.time()
        deadline = begun + max(0.0, self._grace)
        drain = min(self._drain, self._grace) if self._failure is None else 0.0
        if drain > 0:
            self._begin_drain(drain)
        late: list[str] = []
        for group in reversed(Group):
            late += await self._close(self._groups[group], deadline)
            if self._after is not None and self._failure is None:
                await self._after(group)
            if group is Group.LEADER and drain > 0 and self._grace > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._hurried.wait(), max(0.0, begun + drain - loop.time()))
        if late:
            text = f"still running after the grace period of {self._grace:g} s: {', '.join(late)}"
            if self._grace > 0:
                return GraceExceeded(text)
            log.warning("%s", text)
        return None

    def _begin_drain(self, seconds: float) -> None:
        log.info("serving on for %g s while not ready, until the clients have gone to other replicas", seconds)
        for group, running in self._groups.items():
            if group is not Group.LEADER and running.host is not None:
                for member in running.members:
                    if isinstance(member.runnable, Drainable):
                        member.runnable.begin_drain()

    async def _close(self, running: _RunningGroup, deadline: float) -> list[str]:
        """Stop one group; returns the names of the members that had to be cancelled."""
        if running.host is None:
            return []
        loop = asyncio.get_running_loop()
        for member, task in running.alive():
            if isinstance(member.runnable, Stoppable):
                member.runnable.request_stop()
            else:
                task.cancel()
        tasks = {m.task for m in running.members if m.task is not None}
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.0, deadline - loop.time()))
        late = running.alive()
        for _, task in late:
            task.cancel()
        running.closing.set()
        await asyncio.wait({running.host}, timeout=CANCEL_SECONDS if late else None)
        if running.host.done() and not running.host.cancelled() and (error := running.host.exception()) is not None:
            log.error("group %s: %s", running.group.name.lower(), error)
        return [member.name for member, _ in late]
