# SPDX-License-Identifier: Apache-2.0
"""The runs of one container: planned, started, waited for, and started again as its restart policy says."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol

from trainwright.api.objects import Document, uid_of
from trainwright.api.times import Now
from trainwright.controller.local.node import files, logs
from trainwright.controller.local.node.document import (
    ConfigError,
    CreateError,
    describe,
    grace_of,
    should_restart,
)
from trainwright.controller.local.node.hosting import Hosting
from trainwright.controller.local.node.plan import ContainerPlan, Folders
from trainwright.controller.local.node.probes import (
    LIVENESS,
    READINESS,
    STARTUP,
    HandlerTarget,
    Probes,
    attempt,
    go_duration,
    shortened,
)
from trainwright.controller.local.node.process.supervision import ContainerProcess, Exit, ProcessSpec, ProgramStartError
from trainwright.controller.local.node.sessions import ProcessSession, open_session
from trainwright.controller.local.node.status import EPOCH, ContainerState, Running, Terminated, Waiting
from trainwright.controller.local.node.volumes import Volumes
from trainwright.controller.local.podaccess import UnavailableError
from trainwright.controller.runtime.tasks import TaskScope, together

FIRST_SECONDS = 10.0
LONGEST_SECONDS = 300.0
FORGET_SECONDS = 2 * LONGEST_SECONDS
"""After a run that ended so long after the last restart, counting starts again."""


class CrashBackoff:
    """How long a container that ended waits for its next run: not at all, then 10 s, doubling to 5 min."""

    def __init__(self) -> None:
        self._delay = 0.0
        self._restarted = 0.0

    def delay(self, ended: float) -> float:
        """Seconds to wait after a run that ended at `ended`, counted from then."""
        if self._delay and ended - self._restarted > FORGET_SECONDS:
            self._delay = 0.0
        return self._delay

    def restarted(self, now: float) -> None:
        self._delay = min(self._delay * 2, LONGEST_SECONDS) if self._delay else FIRST_SECONDS
        self._restarted = now


class _Pod(Protocol):
    """What a runner needs from its pod: see `PodWorker`."""

    volumes: Volumes

    @property
    def pod(self) -> Document: ...
    def goes_on_without(self, container: str) -> bool: ...
    def changed(self) -> None: ...
    def event(self, kind: str, reason: str, note: str) -> None: ...
    async def source_change(self) -> None: ...


RETRY_SECONDS = 10.0
"""Time until a container that cannot be configured is tried again, if nothing that it refers to changes before."""
START_ERROR = 128
KEPT_RUNS = 5
"""Runs whose logs are kept, with the first one and the present one."""
LEAST_SECONDS = 2.0
"""Time between SIGTERM and SIGKILL after a preStop hook that used up the grace period."""
_FAILED = 1
"""The exit code that a kubelet assumes of a container whose probe has failed."""


class ContainerRunner:
    """One container. `run` returns when it will not run again; `stop` ends its process."""

    def __init__(
        self,
        container: Document,
        state: ContainerState,
        folders: Folders,
        pod: _Pod,
        hosting: Hosting,
        tasks: TaskScope,
        now: Now,
    ) -> None:
        self.container = container
        self.name: str = container["name"]
        self.state = state
        self.folders = folders
        self.process: ContainerProcess | None = None
        self.plan: ContainerPlan | None = None
        """The plan of the current run, which exec uses."""
        self._starting: asyncio.Task[ContainerProcess | Exception] | None = None
        self._pod = pod
        self._hosting = hosting
        self._tasks = tasks
        self._now = now
        self._backoff = CrashBackoff()
        self._sessions: list[ProcessSession] = []
        self._opened = 0
        self._opening = asyncio.Lock()
        self._closed = False
        self._stopped: ContainerProcess | None = None
        """The process that the node has begun to end."""
        self.started = asyncio.Event()
        """Set at the first start."""

    async def run(self) -> int:
        """Run until the restart policy allows no further run. Returns the last exit code."""
        loop = asyncio.get_running_loop()
        while True:
            code = await self._once()
            if not should_restart(self._pod.pod, self.container, code):
                return code
            delay = self._backoff.delay(loop.time())
            if delay:
                await self._crash_loop(delay)
            self._backoff.restarted(loop.time())
            self.state.restarts += 1

    async def _crash_loop(self, delay: float) -> None:
        pod = describe(self._pod.pod)
        self.state.wait(
            "CrashLoopBackOff", f"back-off {go_duration(delay)} restarting failed container={self.name} pod={pod}"
        )
        self._pod.event("Warning", "BackOff", f"Back-off restarting failed container {self.name} in pod {pod}")
        self._pod.changed()
        await asyncio.sleep(delay)

    async def _once(self) -> int:
        plan = await self._plan()
        self.plan = plan
        self.state.image_id = plan.image_id
        for warning in plan.warnings if self.state.restarts == 0 else ():
            self._pod.event("Warning", "MountPathExists", warning)
        started = await self._start(plan)
        if isinstance(started, Exception):
            return self._not_started(str(started))
        self._begin(started)
        await self._attend(started)
        self._ended(started, await started.wait())
        assert isinstance(self.state.state, Terminated)
        return self.state.state.exit_code

    async def _plan(self) -> ContainerPlan:
        """The plan; waits as long as the container cannot be configured."""
        said = ""
        while True:
            try:
                return await self._hosting.plan(self._pod.pod, self.container, self._pod.volumes, self.folders)
            except (ConfigError, CreateError, OSError) as error:
                reason = "CreateContainerConfigError" if isinstance(error, ConfigError) else "CreateContainerError"
                self.state.wait(reason, str(error))
                if str(error) != said:
                    self._pod.event("Warning", "Failed", f"Error: {error}")
                    self._pod.changed()
                said = str(error)
            await _first(self._pod.source_change, lambda: asyncio.sleep(RETRY_SECONDS))

    async def _start(self, plan: ContainerPlan) -> ContainerProcess | Exception:
        # A task of its own: a cancellation must not lose a process that is just being started.
        self._starting = self._tasks.start(f"start:{self.name}", self._attempt(plan))
        return await asyncio.shield(self._starting)

    async def _attempt(self, plan: ContainerPlan) -> ContainerProcess | Exception:
        """The process, or why there is none: an exception would end the tasks of the other containers."""
        spec = ProcessSpec(
            command=plan.command,
            environment=plan.environment,
            folder=plan.folder,
            log=str(self.folders.log(self.state.restarts)),
        )
        try:
            await asyncio.to_thread(self._make_folders)
            mark = self.folders.container / "process"
            return await self._hosting.start(self._pod.pod, spec, plan, mark, self._tasks, join=None)
        except (ProgramStartError, OSError) as error:
            return error

    def _begin(self, process: ContainerProcess) -> None:
        """Record the start of a run, once."""
        if self.process is process:
            return
        self.process = process
        started = not self.container.get(STARTUP) and not self._hook("postStart")
        ready = started and not self.container.get(READINESS)
        self.state.begin(process.started_at, self._container_id(), started=started, ready=ready)
        self._pod.event("Normal", "Started", "Container started")
        self._pod.changed()

    # ------------------------------------------------------------------ hooks and probes

    def _is_attended(self) -> bool:
        """Whether more than the start of the process decides if the container is started, ready and alive."""
        return any(self.container.get(kind) for kind in (STARTUP, READINESS, LIVENESS)) or bool(self._hook("postStart"))

    def _hook(self, name: str) -> Document:
        hook: Document = (self.container.get("lifecycle") or {}).get(name) or {}
        return hook

    async def _attend(self, process: ContainerProcess) -> None:
        """Run the hook and the probes until the process ends; end it if they say so."""
        if not self._is_attended():
            self.started.set()
            return
        async with TaskScope(f"attend:{self.name}") as tasks:
            ended = tasks.start("attend/end", _awaited(process.wait))
            judged = tasks.start("attend/probes", self._judged())
            await asyncio.wait({ended, judged}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return
            reason, probe = judged.result()
            self._pod.event("Normal", "Killing", reason)
            seconds = probe.get("terminationGracePeriodSeconds") or grace_of(self._pod.pod)
            await self._end(process, lambda: asyncio.sleep(float(seconds)))

    async def _judged(self) -> tuple[str, Document]:
        """Wait until the container has to end; returns the note of the event, and the probe."""
        if (hook := self._hook("postStart")) and (failure := await attempt(hook, self._target())):
            self._pod.event("Warning", "FailedPostStartHook", f"PostStartHook failed: {failure}")
            return "FailedPostStartHook", {}
        probes = Probes(
            self.container,
            self._target(),
            self.state,
            changed=self._pod.changed,
            event=lambda reason, note: self._pod.event("Warning", reason, note),
        )
        failed = await probes.run(self.started)
        return self._note_of(failed), self.container[f"{failed}Probe"]

    def _note_of(self, failed: str) -> str:
        """What the event says, as a kubelet's: with a container that is the last one and stays down, the pod ends."""
        if should_restart(self._pod.pod, self.container, _FAILED):
            return f"Container {self.name} failed {failed} probe, will be restarted"
        goes_on = self._pod.goes_on_without(self.name)
        return f"Container {self.name} failed {failed} probe" if goes_on else f"Stopping container {self.name}"

    async def _end(self, process: ContainerProcess, until: Callable[[], Awaitable[Any]]) -> None:
        """The preStop hook, SIGTERM, and SIGKILL once `until` is over. Returns when the process has ended."""
        # One whose program has ended by now, and whose children still run, was not stopped.
        if not process.program_ended():
            self._stopped = process
        hook = self._hook("preStop")
        if hook:
            await _first(lambda: self._pre_stop(hook), process.wait, until)
        if not process.ended:
            process.terminate()
            least = LEAST_SECONDS if hook else 0.0
            await _first(process.wait, lambda: together("end", _awaited(until), asyncio.sleep(least)))
        process.kill()
        await process.wait()

    async def _pre_stop(self, hook: Document) -> None:
        if failure := await attempt(hook, self._target()):
            self._pod.event("Warning", "FailedPreStopHook", f"PreStopHook failed: {failure}")

    def _target(self) -> HandlerTarget:
        pod = self._pod.pod
        return HandlerTarget(
            execute=self._execute,
            container=self.container,
            moved=self._hosting.ports.moved(pod),
        )

    async def _execute(self, command: Sequence[str]) -> tuple[int, bytes]:
        try:
            session = await self.exec(command, stdin=False, tty=False)
        except UnavailableError as error:
            return START_ERROR, str(error).encode()
        output = bytearray()

        async def copy(stream: AsyncIterator[bytes]) -> None:
            async for chunk in stream:
                output.extend(shortened(chunk))

        try:
            await together("exec", copy(session.stdout), copy(session.stderr))
            return await session.wait(), shortened(bytes(output))
        finally:
            await session.close()

    # ------------------------------------------------------------------ exec and the end

    def has_ended(self, run: int) -> bool:
        """Whether a run is over; runs count from 0."""
        return run < self.state.restarts or not isinstance(self.state.state, Running)

    async def exec(self, command: Sequence[str], *, stdin: bool, tty: bool) -> ProcessSession:
        """Start a further process in the running container; it ends with it. Raises UnavailableError."""
        # One at a time, so that the end of the container meets no session that is half open.
        async with self._opening:
            plan, run = self.plan, self.state.restarts
            if plan is None or self._closed or self.has_ended(run):
                raise UnavailableError(f'container not found ("{self.name}")')
            session = await self._open(plan, command, stdin=stdin, tty=tty)
            self._sessions = [one for one in self._sessions if not one.process.ended]
            self._sessions.append(session)
        # The next run may have begun by now: what ended this one did not know of the session.
        if self.has_ended(run):
            session.process.kill()
        return session

    async def _open(self, plan: ContainerPlan, command: Sequence[str], *, stdin: bool, tty: bool) -> ProcessSession:
        self._opened += 1
        mark = self.folders.container / f"exec-{self._opened}"

        async def start(stdio: tuple[int, int, int], terminal: bool) -> ContainerProcess:
            spec = ProcessSpec(
                command=plan.rewritten(command),
                environment=plan.environment | ({"TERM": "xterm"} if terminal else {}),
                folder=plan.folder,
                log=os.devnull,
                stdio=stdio,
                terminal=terminal,
            )
            return await self._hosting.start(self._pod.pod, spec, plan, mark, self._tasks, join=self.process)

        try:
            return await open_session(start, stdin=stdin, tty=tty)
        except (ProgramStartError, OSError) as error:
            raise UnavailableError(f"failed to exec in container: {error}") from error

    def _make_folders(self) -> None:
        # The first failure is what a user looks for, and then the latest.
        if (old := self.state.restarts - KEPT_RUNS) > 0:
            for file in self.folders.logs.glob(f"{old}.log*"):
                file.unlink()
        for folder in (self.folders.work, self.folders.temporary, self.folders.logs):
            folder.mkdir(parents=True, exist_ok=True)
        # Neither emptied in place nor followed: the run before may have left a link to a file of the user.
        files.remove(self.folders.termination)
        files.write_fresh(self.folders.termination, b"", 0o644)

    def _not_started(self, message: str) -> int:
        self.state.container_id = self._container_id()
        self.state.end(
            Terminated(
                exit_code=START_ERROR,
                reason="StartError",
                message=message,
                started_at=EPOCH,
                finished_at=self._now(),
                container_id=self.state.container_id,
            )
        )
        self._pod.event("Warning", "Failed", f"Error: {message}")
        self._pod.changed()
        return START_ERROR

    def _ended(self, process: ContainerProcess, exited: Exit) -> None:
        """Record the end of a run, once. What was started beside it ends, too."""
        for session in self._sessions:
            session.process.kill()
        if not isinstance(self.state.state, Running) or self.process is not process:
            return
        stopped = self._stopped is process
        reason = "Completed" if exited.code == 0 else "OOMKilled" if exited.out_of_memory else "Error"
        message = logs.message(
            self.container, self.folders.termination, self.folders.log(self.state.restarts), code=exited.code
        )
        self.state.end(
            Terminated(
                exit_code=exited.code,
                reason=reason,
                message="\n".join(filter(None, ("" if stopped else logs.of_kernel(exited), message))),
                started_at=process.started_at,
                finished_at=exited.at,
                container_id=self._container_id(),
            ),
            stopped=stopped,
        )
        self._pod.changed()

    def _container_id(self) -> str:
        return f"local://{uid_of(self._pod.pod)}/{self.name}/{self.state.restarts}"

    async def stop(self, until: Callable[[], Awaitable[Any]]) -> None:
        """SIGTERM, wait for the end or for `until`, then SIGKILL. Returns when the process has ended.

        `run` must have been cancelled or have returned.
        """
        if self._starting is not None:
            started = await self._starting
            if isinstance(started, ContainerProcess):
                self._begin(started)
            elif isinstance(self.state.state, Waiting):
                self._not_started(str(started))
        if self.process is not None:
            if not self.process.ended:
                self._pod.event("Normal", "Killing", f"Stopping container {self.name}")
                await self._end(self.process, until)
            self._ended(self.process, await self.process.wait())
        self._closed = True
        async with self._opening:
            for session in self._sessions:
                session.process.kill()
                await session.process.wait()
        self.state.settle()


async def _first(*work: Callable[[], Awaitable[Any]]) -> None:
    async with TaskScope("first") as tasks:
        started = [tasks.start(f"first/{index}", _awaited(one)) for index, one in enumerate(work)]
        await asyncio.wait(started, return_when=asyncio.FIRST_COMPLETED)


async def _awaited(work: Callable[[], Awaitable[Any]]) -> None:
    await work()
