# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH108 - pathlib would double the time to start
"""Runs one container's process, writes its log, and ends it with all its descendants when the cluster goes away.

It is a fork of the spawner, which runs in a bare interpreter, so it imports nothing of the project but `lowlevel`.

Standard input is the control pipe. Its first line is a JSON object (`ProcessSpec` of `supervision`). Each further line
is `term` (SIGTERM to the program) or `kill` (SIGKILL to every descendant). The cluster process holds the other end as
long as it lives; even SIGKILL closes it. At end of file the guard sends SIGTERM, waits for the grace period of the
specification, and kills what is left.

Standard output is the report pipe, one JSON object a line: `started` with pid and start time, `ended` with the code
(128 + n after signal n) and the time at which the program ended, and `exited` once its log is complete and nothing of
it runs; or only `failed` with the reason why the program cannot run.

Everything that the program started ends with it, as in a container. The guard adopts orphans of its descendants, so a
process cannot leave the tree by starting a session of its own. What a guard leaves behind that was killed itself is
ended by the node.

A log that cannot be written, because the disk is full for example, stops neither the guard nor its program.
"""

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import subprocess
import termios
import time
from typing import Any

from trainwright.controller.local.node.process import lowlevel

CHUNK = 64 * 1024
LINE_BYTES = 16 * 1024
"""Longer lines are written in parts, as container runtimes do."""
DRAIN_SECONDS = 2.0
KILL_SECONDS = 10.0


class LogFile:
    """The log of one run: `<time> <stream> <F or P> <text>` per line, in files of a limited size.

    This is the format of container runtimes; P marks a part of a line that goes on in the next entry.
    """

    def __init__(self, path: str, limit: int, keep: int) -> None:
        self._path, self._limit, self._keep = path, limit, keep
        self._rest = {"stdout": b"", "stderr": b""}
        self._moving = {"stdout": b"", "stderr": b""}
        """What is seen of a line that is written over, such as a progress bar, and has not ended."""
        self._last = ""
        """The stream of the line at the end of the log, if that is such a line."""
        self._file, self._part = -1, 0
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
            self._file = os.open(self._part_path(self._part), flags, 0o600)
            self._size = os.fstat(self._file).st_size

    def _part_path(self, part: int) -> str:
        return f"{self._path}.{part}" if part else self._path

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
        shown = rest.removesuffix(b"\r") if b"\r" in rest else b""
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
        self._part += 1
        self._size = 0
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._part_path(self._part - self._keep))

    def close(self) -> None:
        for stream, rest in self._rest.items():
            if rest:
                # Nothing ended it, so readers see no end of the line either.
                self._append(self._head(stream) + b"P " + rest + b"\n")
        if self._file >= 0:
            os.close(self._file)


class ProgramGuard:
    def __init__(self, spec: dict[str, Any], rest: bytes) -> None:
        self._spec = spec
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
        lowlevel.adopt_orphans()
        wake, spec = self._wake_on_signals(), self._spec
        try:
            log = LogFile(spec["log"], spec["log_bytes"], spec["log_files"])
            child = self._start(bool(spec["stdio"]))
        except (OSError, ValueError) as error:
            # Without a number it is the launcher's text.
            launching = isinstance(error, OSError) and error.errno == 0
            why = error.args[1] if launching else lowlevel.start_failure(error, spec["command"], spec["folder"])
            self._report({"failed": why, "at": time.time()})
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
        """Start the program: with pipes to the log, or with the descriptors that the specification names."""
        spec = self._spec
        stdin, stdout, stderr = spec["stdio"] if passed else (subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE)
        terminal = spec["terminal"]
        failed, failing = os.pipe()
        handle: list[int] = spec["exit_handle"] or []
        launched = [*spec["launcher"], str(failing), *map(str, handle)] if spec["launcher"] else []

        def before_program() -> None:
            if terminal:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # the controlling terminal of the new session
            lowlevel.die_with_parent()
            if handle:
                lowlevel.announce(*handle)

        self._child = child = subprocess.Popen(
            launched or spec["command"],
            env=spec["environment"],
            cwd="/" if launched else spec["folder"],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            # A terminal needs a session, whose leader leads a process group, too. A launcher makes it inside.
            process_group=None if terminal and not launched else 0,
            start_new_session=terminal and not launched,
            preexec_fn=lowlevel.die_with_parent if launched else before_program,  # noqa: PLW1509
            pass_fds=[failing, *handle[:2]] if launched else [],
        )
        for descriptor in {failing, *handle[:2], *(one for one in (stdin, stdout, stderr) if one >= 0)}:
            os.close(descriptor)
        if reason := self._launch_failure(failed):
            raise OSError(0, reason)
        self._report({"started": child.pid, "guard": os.getpid(), "at": time.time()})
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
        # What came in one read with the specification.
        self._obey(b"")
        self._reap()
        while self._code is None:
            timeout = None
            if self._orphaned_at is not None:
                timeout = self._orphaned_at + self._spec["grace"] - time.monotonic()
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
        if self._spec["launcher"]:
            # Its group is two processes of the launcher: one passes the signal on, the other ignores it.
            self.signal_group(signal.SIGTERM)
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child.pid, signal.SIGTERM)

    def signal_group(self, number: int) -> None:
        assert self._child is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, number)

    def end_descendants(self) -> None:
        """SIGKILL to the program and everything below it, until nothing is left."""
        deadline = time.monotonic() + KILL_SECONDS
        while True:
            self.signal_group(signal.SIGKILL)
            # New children may appear between the look and the signal, so look again after each round.
            left = lowlevel.descendants(os.getpid())
            lowlevel.kill(left)
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
                self._code = lowlevel.exit_code(status)
                self._ended_at = time.time()
                self._child.returncode = self._code

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


def main(passed: list[int]) -> None:
    """Read the specification and run it in a session of its own, which Ctrl-C on a terminal does not reach.

    `passed` are here the descriptors that the specification names.
    """
    os.setsid()
    data = b""
    while b"\n" not in data:
        more = os.read(0, CHUNK)
        if not more:
            return  # the cluster ended before the specification was complete
        data += more
    line, _, rest = data.partition(b"\n")
    spec: dict[str, Any] = json.loads(line)
    for name, count in (("stdio", 3), ("exit_handle", 2)):  # the third of an exit handle is no descriptor
        if named := spec[name]:
            spec[name] = [*(passed.pop(0) if one >= 0 else one for one in named[:count]), *named[count:]]
    ProgramGuard(spec, rest).run()
