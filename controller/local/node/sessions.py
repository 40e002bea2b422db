# SPDX-License-Identifier: Apache-2.0
"""Further processes in a container (exec)."""

import asyncio
import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeAlias

from trainwright.controller.local.node.process.supervision import ContainerProcess

CHUNK = 64 * 1024

Streams: TypeAlias = tuple[int | None, int, int | None]
"""Descriptors of this side for standard input, output and error; with a terminal the first two are the same."""
Starter: TypeAlias = Callable[[tuple[int, int, int], bool], Awaitable[ContainerProcess]]
"""Starts the process with three descriptors; the second argument says whether they are a terminal."""


class ProcessSession:
    """One process and its streams; an `ExecSession`."""

    def __init__(self, process: ContainerProcess, stdin: int | None, out: int, err: int | None, *, tty: bool) -> None:
        self._process = process
        self._stdin, self._out, self._err, self._tty = stdin, out, err, tty
        self._closed = False

    @property
    def process(self) -> ContainerProcess:
        return self._process

    @property
    def stdout(self) -> AsyncIterator[bytes]:
        return _read(self._out)

    @property
    def stderr(self) -> AsyncIterator[bytes]:
        """Error output until it is closed; empty with a terminal."""
        return _read(self._err) if self._err is not None else _nothing()

    async def write(self, data: bytes) -> None:
        if self._stdin is not None:
            await write_all(self._stdin, data)

    async def close_stdin(self) -> None:
        """End standard input. A terminal gets its end-of-file character."""
        if self._tty:
            await self.write(b"\x04")
        elif self._stdin is not None:
            os.close(self._stdin)
            self._stdin = None

    def resize(self, width: int, height: int) -> None:
        if self._tty and not self._closed:
            fcntl.ioctl(self._out, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    async def wait(self) -> int:
        return (await self._process.wait()).code

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._process.kill()
        try:
            await self._process.wait()
        finally:
            # Also when cancelled: a second call would do nothing.
            _close((self._stdin, self._out, self._err))
            self._stdin = None


async def write_all(descriptor: int, data: bytes) -> None:
    """Write to a descriptor that does not block; waits while nobody reads. Returns early if nobody ever will."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            await _until(descriptor, writing=True)
        except OSError:  # EPIPE: the process no longer reads; EIO from a terminal
            return


async def open_session(start: Starter, *, stdin: bool, tty: bool) -> ProcessSession:
    """Make the streams and start the process. Raises what `start` raises."""
    ours, theirs = _terminal() if tty else _pipes(stdin=stdin)
    try:
        process = await start(theirs, tty)
    except BaseException:
        _close(ours)
        raise
    finally:
        _close(theirs)
    for descriptor in ours:
        if descriptor is not None:
            os.set_blocking(descriptor, False)
    return ProcessSession(process, *ours, tty=tty)


def _terminal() -> tuple[Streams, tuple[int, int, int]]:
    ours, theirs = pty.openpty()
    return (ours, ours, None), (theirs, theirs, theirs)


def _pipes(*, stdin: bool) -> tuple[Streams, tuple[int, int, int]]:
    theirs_in, ours_in = os.pipe() if stdin else (subprocess.DEVNULL, None)
    (ours_out, theirs_out), (ours_err, theirs_err) = os.pipe(), os.pipe()
    return (ours_in, ours_out, ours_err), (theirs_in, theirs_out, theirs_err)


def _close(descriptors: Sequence[int | None]) -> None:
    for descriptor in {one for one in descriptors if one is not None and one >= 0}:
        os.close(descriptor)


async def _read(descriptor: int) -> AsyncIterator[bytes]:
    while True:
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            await _until(descriptor, writing=False)
            continue
        except OSError:  # EIO: the other side of the terminal is closed
            return
        if not data:
            return
        yield data


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield


async def _until(descriptor: int, *, writing: bool) -> None:
    """Wait until a descriptor can be read or written."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    (loop.add_writer if writing else loop.add_reader)(descriptor, wake)
    try:
        await ready
    finally:
        with contextlib.suppress(ValueError):  # it was closed meanwhile
            (loop.remove_writer if writing else loop.remove_reader)(descriptor)
