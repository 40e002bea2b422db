# SPDX-License-Identifier: Apache-2.0
"""How guards are started: by a spawner, which is a process of its own; see there for the reason."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from trainwright.controller.local.node.process.spawner import HEADER, NUMBERS

GUARD = Path(__file__).with_name("guard.py")
SPAWNER = Path(__file__).with_name("spawner.py")
LAUNCHER = Path(__file__).with_name("launcher.py")
_END_SECONDS = 10.0


class Started(Protocol):
    """A guard that was started; a Popen is one."""

    @property
    def stdin(self) -> IO[bytes] | None:
        """Its control pipe."""
        ...

    @property
    def stdout(self) -> IO[bytes] | None:
        """Its report pipe."""
        ...

    def wait(self) -> object:
        """Return when it has ended; its report pipe is at its end then."""
        ...


def start_program(program: Path) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start one of the small programs beside this file, with the other end of the socket for its requests.

    Raises OSError.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(program), str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={},
            cwd="/",
            pass_fds=[theirs.fileno()],
            # Ctrl-C on a terminal is not for it.
            start_new_session=True,
        )
    return process, ours


class Spawner:
    """Starts guards. Thread-safe; every method blocks. Its process is started with the first guard."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        """Its process, while there is one."""
        self._requests: socket.socket | None = None

    def start(self, errors: Path, passed: Iterable[int]) -> Started:
        """Start a guard.

        Args:
            errors: file for what the guard itself complains of.
            passed: descriptors that its order names, at most five.

        Raises OSError.
        """
        numbers = _descriptors(passed)
        with _emptied(errors) as stderr:
            theirs_in, ours_in = os.pipe()
            ours_out, theirs_out = os.pipe()
            try:
                self._send(numbers, [theirs_in, theirs_out, stderr.fileno(), *numbers])
            except BaseException:
                os.close(ours_in)
                os.close(ours_out)
                raise
            finally:
                os.close(theirs_in)
                os.close(theirs_out)
        return _Guard(os.fdopen(ours_in, "wb"), os.fdopen(ours_out, "rb", buffering=0))

    def _send(self, numbers: list[int], descriptors: list[int]) -> None:
        message = HEADER.pack(len(numbers), *numbers, *(NUMBERS - len(numbers)) * [0])
        with self._lock:
            try:
                socket.send_fds(self._running(), [message], descriptors)
            except (BrokenPipeError, ConnectionResetError):
                # It was killed; the guards that it started go on without it.
                self._end()
                socket.send_fds(self._running(), [message], descriptors)

    def _running(self) -> socket.socket:
        if self._requests is None:
            self.process, ours = start_program(SPAWNER)
            self._requests = ours
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
        """End its process; guards go on. A later start begins again."""
        with self._lock:
            self._end()


class _Guard:
    """A guard that a spawner started, and reaps."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self.stdin: IO[bytes] | None = stdin
        self.stdout: IO[bytes] | None = stdout

    def wait(self) -> None:
        """Nothing is left to wait for once the report pipe is at its end."""


def alone(errors: Path, passed: Iterable[int]) -> Started:
    """Start one guard without a spawner. Raises OSError."""
    with _emptied(errors) as stderr:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(GUARD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={},
            cwd="/",
            pass_fds=_descriptors(passed),
        )


def _emptied(errors: Path) -> IO[bytes]:
    """The file for complaints of a guard, which lies where its pod can change it. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(errors, flags, 0o600), "wb")


def _descriptors(passed: Iterable[int]) -> list[int]:
    """Without the numbers that stand for a pipe of the guard's own, or for nothing."""
    return sorted({number for number in passed if number >= 0})
