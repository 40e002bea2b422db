# SPDX-License-Identifier: Apache-2.0
"""One container as a process of this machine, under a guard; see `guard` for the pipes between them.

Guards are started by a spawner, which is a process of its own; see there for the reason.
"""

import asyncio
import io
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainwright.controller.local.node.files import read_end
from trainwright.controller.local.node.process import ends, lowlevel
from trainwright.controller.local.node.process.ends import ExitHandle, ExitOrderTracker, TrackedExit
from trainwright.controller.runtime.tasks import finished_in_thread, made_in_thread, outlasted

log = logging.getLogger(__name__)

SPAWNER = Path(__file__).with_name("spawner.py")
LAUNCHER = Path(__file__).with_name("launcher.py")
_END_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Guard:
    """A guard that was started. Whoever has it closes both pipes."""

    stdin: io.FileIO
    """Its control pipe. At its end the guard takes the cluster for gone, and ends what still runs."""
    stdout: io.FileIO
    """Its report pipe: at its end, the guard has ended."""

    def send(self, line: bytes) -> None:
        """Send a line of the control pipe. A guard may have ended: its report, or that there is none, says so."""
        left = memoryview(line)
        with suppress(BrokenPipeError, ValueError):
            while left:
                left = left[self.stdin.write(left) :]

    def close(self) -> None:
        self.stdin.close()
        self.stdout.close()


def _start_spawner() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start the spawner's process, with the other end of the socket for its requests. Raises OSError."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(SPAWNER), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={},
                cwd="/",
                pass_fds=[theirs.fileno()],
                # Ctrl-C on a terminal is not for it.
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
    return process, ours


class Spawner:
    """Starts guards. Thread-safe; every method blocks. Its process is started with the first guard."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        """Its process, while there is one."""
        self._requests: socket.socket | None = None

    def start(self, errors: Path, passed: Iterable[int]) -> Guard:
        """Start a guard, which complains in `errors` and gets at most five descriptors more. Raises OSError."""
        errors.unlink(missing_ok=True)  # its pod can put a link there
        with ExitStack() as ours, ExitStack() as theirs:
            stderr = theirs.enter_context(errors.open("xb"))
            theirs_in, ours_in = _pipe(theirs, ours)
            ours_out, theirs_out = _pipe(ours, theirs)
            self._send([theirs_in.fileno(), theirs_out.fileno(), stderr.fileno(), *passed])
            ours.pop_all()
        return Guard(ours_in, ours_out)

    def _send(self, descriptors: list[int]) -> None:
        with self._lock:
            try:
                socket.send_fds(self._running(), [b"g"], descriptors)
            except (BrokenPipeError, ConnectionResetError):
                # It was killed; the guards that it started go on without it.
                self._end()
                socket.send_fds(self._running(), [b"g"], descriptors)

    def _running(self) -> socket.socket:
        if self._requests is None:
            self.process, self._requests = _start_spawner()
        return self._requests

    def _end(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._requests = None
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_END_SECONDS)
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self) -> None:
        with self._lock:
            self._end()


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[io.FileIO, io.FileIO]:
    """The ends of a new pipe, which are closed with their side."""
    read, write = os.pipe()
    return reader.enter_context(io.FileIO(read)), writer.enter_context(io.FileIO(write, "w"))


LOG_BYTES = 10 * 1024 * 1024
LOG_FILES = 5
ORPHAN_GRACE_SECONDS = 5.0
"""Time between SIGTERM and SIGKILL if the process of the cluster has died."""
GUARD_SECONDS = 20.0
"""Time for a guard to end its program and to report that, after which it is killed itself."""
KILLED = 137
_WORDS_BYTES = 16 * 1024


class ProgramStartError(Exception):
    """The program cannot be executed. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    command: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    """The working folder."""
    log: str
    """The log file; the later ones, as each becomes full, have a number at the end of the name."""
    log_bytes: int = LOG_BYTES
    log_files: int = LOG_FILES
    grace: float = ORPHAN_GRACE_SECONDS
    stdio: tuple[int, int, int] | None = None
    """Descriptors for standard input, output and error; -1 is the log. None: no input, and both others to the log."""
    terminal: bool = False
    """Whether they are a terminal, which the program gets as its own."""
    launcher: Sequence[str] = ()
    """Program that makes the namespaces and then runs the command (mode A); see `launcher`. Empty: none."""
    exit_handle: ExitHandle | None = None
    """What the program announces itself with; None: nobody asks in which order it ends."""


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a process. `code` is 128 + n after signal n."""

    code: int
    at: datetime
    """When the program ended. Its children and its log may have taken longer. See `ends` for the order."""
    out_of_memory: bool = False
    """Whether the kernel says that it killed the program for lack of memory."""
    killed_nearby: int = 0
    """How many processes of this cluster, or of others in its control group, it killed for that while this one ran."""


class ContainerProcess:
    """A started process. `wait` gives its end; `terminate` and `kill` return at once."""

    def __init__(self, guard: Guard, mark: Path, end: TrackedExit | None, report: Mapping[str, Any]) -> None:
        """`report` is the first of the guard."""
        self.pid = int(report["started"])
        self.guard_pid = int(report["guard"])
        """Of the process that adopts what the container leaves behind."""
        self.started_at = _moment(report)
        self._guard = guard
        self._mark = mark
        self._end = end
        self._killed_before, self._since = ends.count(), time.monotonic()
        self._overdue: asyncio.TimerHandle | None = None
        self._code: int | None = None
        self._ended_at: datetime | None = None
        self._exit: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()

    @property
    def ended(self) -> bool:
        return self._exit.done()

    def program_ended(self) -> bool:
        """Whether the program has ended; what it started may still run."""
        return self.ended or (self._end is not None and self._end.seen())

    async def wait(self) -> Exit:
        """The end of the process. Cancelling the wait does not end the process."""
        return await asyncio.shield(self._exit)

    def terminate(self) -> None:
        self._guard.send(b"term\n")

    def kill(self) -> None:
        self._guard.send(b"kill\n")
        if self._overdue is None and not self.ended:
            self._overdue = asyncio.get_running_loop().call_later(GUARD_SECONDS, self._kill_guard)

    def _kill_guard(self) -> None:
        """A guard that is stopped obeys nothing; what it leaves behind is found without it."""
        if not self.ended:
            log.warning("%s: guard %d does not obey and is killed", self._mark, self.guard_pid)
            with suppress(ProcessLookupError):
                os.kill(self.guard_pid, signal.SIGKILL)

    async def follow(self, reports: asyncio.StreamReader) -> None:
        """Read the reports of the guard until it ends. A cancellation kills the process first."""
        try:
            try:
                await self._follow(reports)
            except asyncio.CancelledError:
                self.kill()
                await self._follow(reports)
                raise
        except Exception:
            log.exception("%s: the reports of the guard cannot be followed", self._mark)
            self.kill()
            await finished_in_thread(self._end_survivors)

    def let_go(self) -> None:
        """Its reports are not followed any more: those who wait for its end learn of it, whatever happened."""
        if not self._exit.done():
            self._exit.set_result(Exit(KILLED, datetime.now(UTC)))
        if self._overdue is not None:
            self._overdue.cancel()

    async def _follow(self, reports: asyncio.StreamReader) -> None:
        async for line in reports:
            try:
                report: dict[str, Any] = json.loads(line)
            except ValueError:  # the guard was killed while it wrote
                continue
            if "ended" in report:
                self._ended_at = self._seen_at(_moment(report))
            if "exited" in report:
                self._code = int(report["exited"])
        if self._code is None:
            await finished_in_thread(self._end_survivors)
        at = self._ended_at or self._seen_at(datetime.now(UTC))
        code = KILLED if self._code is None else self._code
        exited = Exit(code, at)
        if code == KILLED:
            number = self._end.pid if self._end is not None else 0
            named = await asyncio.to_thread(ends.killed, number, self._since)
            exited = replace(exited, out_of_memory=named)
        if code:  # a launcher ends with a code of its own after the kernel has killed what it started
            exited = replace(exited, killed_nearby=ends.count() - self._killed_before)
        if not self._exit.done():
            self._exit.set_result(exited)

    def _seen_at(self, at: datetime) -> datetime:
        """When the program ended, of which somebody says `at`."""
        return at if self._end is None else self._end.report(at)

    def _end_survivors(self) -> None:
        """The guard was killed, and the kernel killed its program: end what that had started. Blocks."""
        if left := lowlevel.kill_marked(str(self._mark)):
            log.warning("%s: the guard was killed, and %d processes did not end: %s", self._mark, len(left), left)


async def start(
    spec: ProcessSpec,
    *,
    mark: Path,
    follow: Callable[[str, Any], asyncio.Task[None]],
    spawn: Callable[[Path, Iterable[int]], Guard],
    exits: ExitOrderTracker | None = None,
) -> ContainerProcess:
    """Start a program under a guard.

    By `mark` the process and all that it starts are found, also by the next start of the cluster; the guard's errors
    lie there, with the suffix `.err`. `follow` starts a named task, which runs until the process has ended and alone
    closes what belongs to it.

    Raises ProgramStartError, OSError: the guard cannot be started.
    """
    started: asyncio.Future[ContainerProcess | Exception] = asyncio.get_running_loop().create_future()
    ending = ProgramStartError("its pod is ending")

    def never_began(_: object) -> None:
        if not started.done():
            started.set_result(ending)

    try:
        life = follow(f"container:{mark.stem}", _live(spec, mark, spawn, exits, started))
    except RuntimeError as error:
        raise ending from error
    # A task that is cancelled before it begins runs nothing, not even its last lines.
    life.add_done_callback(never_began)
    try:
        await asyncio.wait({started})
    except asyncio.CancelledError:
        # Nobody else knows of its program, which must not outlive the wait: its container may be ending.
        life.cancel()
        await outlasted(life, life.cancel)
        raise
    if isinstance(made := started.result(), Exception):
        raise made
    return made


async def _live(
    spec: ProcessSpec,
    mark: Path,
    spawn: Callable[[Path, Iterable[int]], Guard],
    exits: ExitOrderTracker | None,
    started: "asyncio.Future[ContainerProcess | Exception]",
) -> None:
    """The whole life of one process, from before its guard is started until that has ended."""
    end, handle = (None, None) if exits is None else exits.expect()
    # By this mark what it leaves behind is found, whatever became of its guard.
    environment = {**spec.environment, lowlevel.MARKER: str(mark)}
    spec = replace(spec, environment=environment, exit_handle=handle)
    try:
        # What starts guards may be killed before it does; then a second one is started.
        if not await _guarded(spec, mark, spawn, end, started) and not await _guarded(spec, mark, spawn, end, started):
            raise ProgramStartError("the guard of the process ended: no message")
    except Exception as error:
        if started.done():
            raise
        started.set_result(error)
    finally:
        if end is not None and not (started.done() and isinstance(started.result(), ContainerProcess)):
            end.forget()


async def _guarded(
    spec: ProcessSpec,
    mark: Path,
    spawn: Callable[[Path, Iterable[int]], Guard],
    end: TrackedExit | None,
    started: "asyncio.Future[ContainerProcess | Exception]",
) -> bool:
    """Run one guard to its end. Returns False if it ended without a word, also of complaint.

    This coroutine alone closes the pipes of the guard, by methods of Python's own: no failure here leaves them open.

    Raises ProgramStartError, OSError.
    """
    line = json.dumps(asdict(spec)).encode() + b"\n"
    # Without what stands for a pipe of the guard's own, or for nothing.
    passed = [one for one in (*(spec.stdio or ()), *(spec.exit_handle or ())[:2]) if one >= 0]
    reports, loop = asyncio.StreamReader(), asyncio.get_running_loop()
    guard = await made_in_thread(lambda: spawn(mark.with_suffix(".err"), passed), Guard.close)
    with guard.stdin, guard.stdout:
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reports), guard.stdout)
        with closing(transport):
            try:
                # In a thread: one with a large environment does not fit into the pipe at once.
                await finished_in_thread(lambda: guard.send(line))
                if (report := await _start_report(reports, mark)) is None:
                    return False
                process = ContainerProcess(guard, mark, end, report)
            except BaseException:
                guard.send(b"kill\n")
                guard.stdin.close()
                await reports.read()
                raise
            started.set_result(process)
            try:
                await process.follow(reports)
            finally:
                process.let_go()
    return True


async def _start_report(reports: asyncio.StreamReader, mark: Path) -> dict[str, Any] | None:
    """What a guard says of the start; None if it ended without a word. Raises ProgramStartError."""
    line = await reports.readline()
    words = "" if line else _words_of(mark)
    if not line and not words:
        return None
    try:
        report: dict[str, Any] = json.loads(line)
    except ValueError:  # it was killed before it said anything, or while it did
        await finished_in_thread(lambda: lowlevel.kill_marked(str(mark)))
        raise ProgramStartError(f"the guard of the process ended: {(words or 'no message').splitlines()[-1]}") from None
    if "failed" in report:
        raise ProgramStartError(str(report["failed"]))
    return report


def _words_of(mark: Path) -> str:
    return read_end(mark.with_suffix(".err"), _WORDS_BYTES).decode(errors="replace").strip()


def _moment(report: Mapping[str, Any]) -> datetime:
    return datetime.fromtimestamp(float(report["at"]), UTC)
