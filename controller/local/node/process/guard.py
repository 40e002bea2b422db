# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH105, PTH123, PTH208, S607 - pathlib would double the time to start; `ps` is POSIX
"""Runs one container's process, writes its log, and ends it with all its descendants when the cluster goes away.

It runs as a file in a bare interpreter (`python -I -S guard.py`) and imports nothing of the project, so that it starts
in a few milliseconds.

Standard input is the control pipe. Its first line is the order, a JSON object (`Order` of `containers`). Each further
line is `term` (SIGTERM to the program) or `kill` (SIGKILL to every descendant). The cluster process holds the
other end as long as it lives; even SIGKILL closes it. At end of file the guard sends SIGTERM, waits for the grace
period of the order, and kills what is left.

Standard output is the report pipe, one JSON object a line: `started` with pid and start time, `ended` with the code
(128 + n after signal n) and the time at which the program ended, and `exited` once its log is complete and nothing of
it runs; or only `failed` with the reason why the program cannot run.

Everything that the program started ends with it, as in a container. On Linux the guard adopts orphans of its
descendants (PR_SET_CHILD_SUBREAPER), so a process cannot leave the tree by starting a session of its own. Elsewhere a
process that detached and whose parent has ended is found only by its process group. What a guard leaves behind that
was killed itself is ended by its spawner and by the node.

A log that cannot be written, because the disk is full for example, stops neither the guard nor its program.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from typing import Any

LINUX = sys.platform == "linux"
CHUNK = 64 * 1024
LINE_BYTES = 16 * 1024
"""Longer lines are written in parts, as container runtimes do."""
DRAIN_SECONDS = 2.0
KILL_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
EPOLL_CTL_ADD = 1


class LogFile:
    """The log file of one run: `<time> <stream> <F or P> <text>` per line, rotated by size.

    This is the format of container runtimes; P marks a part of a line that goes on in the next entry.
    """

    def __init__(self, path: str, limit: int, keep: int, *, prompts: bool = False) -> None:
        self._path, self._limit, self._keep, self._prompts = path, limit, keep, prompts
        self._rest = {"stdout": b"", "stderr": b""}
        self._moving = {"stdout": b"", "stderr": b""}
        """What is seen of a line that is written over, such as a progress bar, and has not ended."""
        self._last = ""
        """The stream of the line at the end of the log, if that is such a line."""
        self._file = -1
        self._size = 0
        self._torn = False
        """Whether the last entry was written in part."""
        self._lost, self._why = 0, ""
        """Bytes that could not be written since the last that could, and why."""
        with contextlib.suppress(OSError):  # the first write tries again, and says why it cannot
            self._open()

    def _open(self) -> None:
        if self._file < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file = os.open(self._path, flags, 0o600)
            self._size = os.fstat(self._file).st_size

    def write(self, stream: str, data: bytes) -> None:
        """Write what one read gave; an unfinished line waits for its rest, unless it is written over, as by a bar."""
        head = self._head(stream)
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        entries = []
        for line in lines:
            line = line.removesuffix(b"\r")  # noqa: PLW2901 - as container runtimes
            last = max(0, len(line) - 1) // LINE_BYTES * LINE_BYTES
            entries += [head + b"P " + line[at : at + LINE_BYTES] for at in range(0, last, LINE_BYTES)]
            entries.append(head + b"F " + line[last:])
        while len(rest) >= LINE_BYTES:
            entries.append(head + b"P " + rest[:LINE_BYTES])
            rest = rest[LINE_BYTES:]
        # A return at the end may belong to the end of a line.
        shown = rest if self._prompts else rest.removesuffix(b"\r") if b"\r" in rest else b""
        if shown:
            entries.append(head + b"P " + shown)
            rest = rest[len(shown) :]
        self._rest[stream] = rest
        if entries:
            entries[0] = self._over_the_other(stream, entries[0], len(head) + 2)
            self._last = stream if b"\r" in shown else ""
            self._moving[stream] = shown.rpartition(b"\r")[2] if self._last else b""
            self._append(b"\n".join(entries) + b"\n")

    def _over_the_other(self, stream: str, entry: bytes, start: int) -> bytes:
        """An entry that writes over a moving line of the other stream, and begins with what its own line showed."""
        if self._last == stream:
            return entry
        text = entry[start:]
        own = b"" if text.startswith(b"\r") else self._moving[stream]
        return entry[:start] + (b"\r" if self._last else b"") + own + text

    @staticmethod
    def _head(stream: str) -> bytes:
        moment = time.time_ns()
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment // 10**9))
        return f"{text}.{moment % 10**9:09d}Z {stream} ".encode()

    def _append(self, data: bytes) -> None:
        """Write entries; what cannot be written is lost, and the next entry that can be is preceded by a note."""
        size = len(data)
        if self._lost:
            note = f"{self._lost} bytes of this log could not be written: {self._why}"
            data = self._head("stderr") + b"F " + note.encode() + b"\n" + data
        if self._torn:
            data = b"\n" + data
        written = 0
        try:
            if self._size and self._size + len(data) > self._limit:
                self._rotate()
            self._open()
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            self._lost, self._why = self._lost + size, error.strerror or str(error)
            self._torn = data[written - 1 : written] != b"\n" if written else self._torn
        else:
            self._lost, self._torn = 0, False
        self._size += written

    def _rotate(self) -> None:
        # Forgotten first: a descriptor is closed once, whatever fails below.
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
        for number in range(self._keep - 1, 0, -1):
            source = self._path if number == 1 else f"{self._path}.{number - 1}"
            with contextlib.suppress(FileNotFoundError):
                os.replace(source, f"{self._path}.{number}")
        self._size = 0

    def close(self) -> None:
        """Write unfinished lines, which end with the program."""
        for stream, rest in self._rest.items():
            if rest:
                # Nothing ended it, so readers see no end of the line either.
                self._append(self._head(stream) + b"P " + rest + b"\n")
        if self._file >= 0:
            os.close(self._file)


class ProgramGuard:
    """One program, its pipes and its descendants."""

    def __init__(self, order: dict[str, Any], rest: bytes) -> None:
        self._order = order
        self._commands = rest
        self._child: subprocess.Popen[bytes] | None = None
        self._code: int | None = None
        self._ended_at = 0.0
        self._orphaned_at: float | None = None

    def run(self) -> None:
        """Run the program until its end. Reports everything on standard output."""
        try:
            self._run()
        except BaseException:
            # Whatever goes wrong here: without a guard nothing of the program may run.
            if self._child is not None:
                self.end_descendants()
            raise

    def _run(self) -> None:
        if LINUX:
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        wake = self._wake_on_signals()
        try:
            order = self._order
            log = LogFile(order["log"], order["log_bytes"], order["log_files"], prompts=bool(order["prompts"]))
            child = self._start(bool(self._order["stdio"]))
        except (OSError, ValueError) as error:
            self._report({"failed": reason(error, self._order), "at": time.time()})
            return
        self._log = log
        pipes = (child.stdout, "stdout"), (child.stderr, "stderr")
        streams = {pipe.fileno(): name for pipe, name in pipes if pipe is not None}
        self._watch(wake, streams)
        # At once: how long its output and its children take says nothing about when it ended.
        self._report({"ended": self._code, "at": self._ended_at})
        self.end_descendants()
        self._drain(streams)
        log.close()
        self._report({"exited": self._code, "at": self._ended_at})

    def _wake_on_signals(self) -> int:
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write)
        # A handler that does nothing: the wake-up pipe is what counts, and the default would end the guard.
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        # A write to a report pipe that the cluster has closed must not end the guard before its program.
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        return read

    def _start(self, passed: bool) -> "subprocess.Popen[bytes]":
        """Start the program: with pipes to the log, or with the descriptors that the order names."""
        order = self._order
        stdin, stdout, stderr = order["stdio"] if passed else (subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE)
        terminal = order["terminal"]
        failed, failing = os.pipe()
        ticket: list[int] = order["ticket"] or []
        launched = [*order["launcher"], str(failing), *map(str, ticket)] if order["launcher"] else []

        def before_program() -> None:
            if terminal:
                _take_terminal()
            _die_with_parent()
            if ticket:
                announce(*ticket)

        self._child = child = subprocess.Popen(
            launched or order["command"],
            env=order["environment"],
            cwd="/" if launched else order["folder"],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            # A terminal needs a session, whose leader leads a process group, too. A launcher makes it inside.
            process_group=None if terminal and not launched else 0,
            start_new_session=terminal and not launched,
            preexec_fn=_die_with_parent if launched else before_program,  # noqa: PLW1509
            pass_fds=[failing, *ticket[:2]] if launched else [],
        )
        for descriptor in {failing, *ticket[:2], *(one for one in (stdin, stdout, stderr) if one >= 0)}:
            os.close(descriptor)
        if reason := self._launch_failure(failed):
            raise OSError(0, reason)
        pid = child.pid
        report = {"started": pid, "start_time": start_time(pid), "guard": os.getpid()}
        self._report(report | {"at": time.time()})
        return child

    def _launch_failure(self, failed: int) -> str:
        """Why a launcher could not run the program; empty if it runs, or without a launcher."""
        text = b""
        while data := os.read(failed, 4096):
            text += data
        os.close(failed)
        if text:
            self.end_descendants()
        return text.decode("utf-8", "replace")

    def _watch(self, wake: int, streams: dict[int, str]) -> None:
        """Copy the output and obey the control pipe until the program has ended."""
        sources = {0: "control", wake: "wake", **streams}
        # What came in one read with the order.
        self._obey(b"")
        self._reap()
        while self._code is None:
            timeout = None
            if self._orphaned_at is not None:
                timeout = self._orphaned_at + self._order["grace"] - time.monotonic()
                if timeout <= 0:
                    self.end_descendants()
                    timeout = 0.1
            ready, _, _ = select.select(list(sources), [], [], timeout)
            for descriptor in ready:
                if descriptor == 0:
                    if not self._control():
                        del sources[0]
                elif descriptor == wake:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wake, 4096)
                elif not self._copy(descriptor, streams):
                    del sources[descriptor]
            self._reap()

    def _copy(self, descriptor: int, streams: dict[int, str]) -> bool:
        data = os.read(descriptor, CHUNK)
        if data:
            self._log.write(streams[descriptor], data)
        return bool(data)

    def _control(self) -> bool:
        """Obey the lines that arrived. Returns False at the end of the pipe: the cluster is gone."""
        data = os.read(0, 4096)
        if not data:
            self._orphaned_at = time.monotonic()
            self.terminate()
            return False
        self._obey(data)
        return True

    def _obey(self, data: bytes) -> None:
        *lines, self._commands = (self._commands + data).split(b"\n")
        for line in lines:
            if line == b"term":
                self.terminate()
            elif line == b"kill":
                self.end_descendants()

    def terminate(self) -> None:
        """SIGTERM to the program, and to none of those that it started: as a kubelet, which tells process 1 alone.

        Workers that load data would die of it, and take a training along that saves its last checkpoint.
        """
        assert self._child is not None
        if self._order["launcher"]:
            # Its group is two processes of the launcher: one passes the signal on, the other ignores it.
            self.signal_group(signal.SIGTERM)
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child.pid, signal.SIGTERM)

    def signal_group(self, number: int) -> None:
        """Signal the process group of the program."""
        assert self._child is not None
        # macOS refuses if every member has ended.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)

    def end_descendants(self) -> None:
        """SIGKILL to the program and everything below it, until nothing is left."""
        deadline = time.monotonic() + KILL_SECONDS
        while True:
            self.signal_group(signal.SIGKILL)
            # New children may appear between the look and the signal, so look again after each round.
            left = descendants(os.getpid())
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self._reap()
            if not left or time.monotonic() > deadline:
                return
            time.sleep(0.002)

    def _reap(self) -> None:
        """Collect ended children; as a subreaper the guard has more than one."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if self._child is not None and pid == self._child.pid:
                code = os.waitstatus_to_exitcode(status)
                self._code = code if code >= 0 else 128 - code
                self._ended_at = time.time()
                self._child.returncode = code

    def _drain(self, streams: dict[int, str]) -> None:
        """Read what is left in the pipes. The time limit is for a reader's end that something foreign holds open."""
        deadline = time.monotonic() + DRAIN_SECONDS
        open_streams = dict(streams)
        while open_streams and (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select(list(open_streams), [], [], left)
            for descriptor in ready:
                if not self._copy(descriptor, streams):
                    del open_streams[descriptor]

    def _report(self, message: dict[str, Any]) -> None:
        try:
            os.write(1, json.dumps(message).encode() + b"\n")
        except OSError as error:
            if error.errno != errno.EPIPE:  # the cluster has ended and reads no reports
                raise


def reason(error: Exception, order: dict[str, Any]) -> str:
    """Why the program cannot run, in the words of container runtimes."""
    if isinstance(error, OSError) and error.errno == 0:
        return error.strerror or str(error)  # the words of the launcher
    name: str = order["command"][0]
    if isinstance(error, FileNotFoundError) and error.filename == order["folder"]:
        return f'working directory "{order["folder"]}" does not exist'
    if isinstance(error, FileNotFoundError):
        if "/" in name:
            return f'exec: "{name}": stat {name}: no such file or directory'
        return f'exec: "{name}": executable file not found in $PATH'
    if isinstance(error, PermissionError):
        return f'exec: "{name}": permission denied'
    return f'exec: "{name}": {getattr(error, "strerror", None) or error}'


def _die_with_parent() -> None:
    if LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def announce(epoll: int, channel: int, number: int) -> None:
    """Let the observer of ends (see `ends`) see the end of this process; without that, its guard's word counts."""
    with contextlib.suppress(OSError):
        me = os.pidfd_open(os.getpid())
        with socket.socket(fileno=os.dup(channel)) as announcing:
            # It keeps the descriptor open; in the message already, before it is read.
            socket.send_fds(announcing, [number.to_bytes(4, "little")], [me])
        # Once only, with the number for data. The kernel's structure has a gap before the data, but not on x86-64.
        gap = "" if os.uname().machine == "x86_64" else "4x"
        event = struct.pack(f"=I{gap}i4x", select.EPOLLIN | select.EPOLLONESHOT, number)
        ctypes.CDLL(None).epoll_ctl(epoll, EPOLL_CTL_ADD, me, event)
        os.close(me)


def _take_terminal() -> None:
    """Make standard input the controlling terminal of the new session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def start_time(pid: int) -> str:
    """When a process started, as text that only this process of this number has; empty if it has ended."""
    if LINUX:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                return file.read().rpartition(b")")[2].split()[19].decode()
        except OSError:
            return ""
    found = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def children(pid: int) -> list[int]:
    """The children of a process, the oldest first; those that have ended and were not collected are among them."""
    if LINUX:
        try:
            with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
                return [int(one) for one in file.read().split()]
        except FileNotFoundError:  # it has ended, or this kernel does not list children
            pass
        except OSError:
            return []
    return [one for one, parent in _processes() if parent == pid]


def descendants(root: int) -> list[int]:
    """All processes below `root` that have not ended."""
    known: dict[int, list[int]] = {}
    for pid, parent in _processes():
        known.setdefault(parent, []).append(pid)
    found: list[int] = []
    queue = [root]
    while queue:
        below = known.get(queue.pop(), [])
        found += below
        queue += below
    return found


def _processes() -> list[tuple[int, int]]:
    if not LINUX:
        command = ["ps", "-A", "-o", "pid=,ppid=,stat="]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listing:
            rows = [line.split(None, 2) for line in listing.communicate()[0].splitlines()]
        # `ps` lists itself, a child of the guard that has ended by now.
        return [(int(p), int(q)) for p, q, state in rows if not state.startswith("Z") and int(p) != listing.pid]
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except OSError:  # it has ended
                continue
            if state not in (b"Z", b"X"):
                found.append((int(name), int(parent)))
    return found


def main(numbers: "dict[int, int] | None" = None) -> None:
    """Read the order and run it in a session of its own, which Ctrl-C on a terminal does not reach.

    `numbers` are the descriptors here by those that the order names, if they differ.
    """
    os.setsid()
    data = b""
    while b"\n" not in data:
        more = os.read(0, CHUNK)
        if not more:
            return  # the cluster ended before the order was complete
        data += more
    line, _, rest = data.partition(b"\n")
    order: dict[str, Any] = json.loads(line)
    for name in ("stdio", "ticket"):
        if numbers and order[name]:
            # The third of a ticket is no descriptor.
            own = [] if name == "stdio" else order[name][2:]
            order[name] = [*(numbers.get(one, one) for one in order[name][: 3 - len(own)]), *own]
    ProgramGuard(order, rest).run()


if __name__ == "__main__":
    main()
