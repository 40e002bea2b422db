# SPDX-License-Identifier: Apache-2.0
"""Reads the log of one run from its files, across rotations, and follows it while the container runs.

`FileChain` blocks and is used from a thread; `read_log` is for the event loop.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from trainwright.controller.local.node.interface import LogOptions
from trainwright.controller.local.node.logs import Selection, entries_of

CHUNK = 256 * 1024
POLL_SECONDS = 0.1


class FileChain:
    """The files of one run in order of age: `<n>.log.4` … `<n>.log.1`, `<n>.log`. The writer may rotate meanwhile.

    Files are told apart by their number on the disk, since a rotation renames them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""
        self._lock = threading.Lock()
        self._is_closed = False

    def begin(self, tail: int | None) -> None:
        """Go to the start, or to the last `tail` lines."""
        with self._lock:
            if not self._is_closed:
                self._begin(tail)

    def read(self) -> bytes:
        """The next whole lines; empty at the end of what is written so far, and once it is closed."""
        with self._lock:
            return b"" if self._is_closed else self._read()

    def close(self) -> None:
        """Close the file, after a read that still runs in a thread."""
        with self._lock:
            self._is_closed = True
            self._let_go()

    def _begin(self, tail: int | None) -> None:
        files = self._newest_first()
        if tail is None:
            self._open(files[-1] if files else self._path, 0)
            return
        self._open(self._path, None)
        left = tail
        for path in files:
            if left == 0:
                return
            try:
                lines = path.read_bytes().splitlines(keepends=True)
            except FileNotFoundError:
                return
            skipped = max(0, len(lines) - left)
            self._open(path, sum(map(len, lines[:skipped])))
            left -= len(lines) - skipped

    def _read(self) -> bytes:
        while True:
            if self._file is None:
                self._open(self._path, 0)
                if self._file is None:
                    return b""
            data = self._file.read(CHUNK)
            if data:
                lines, newline, self._rest = (self._rest + data).rpartition(b"\n")
                if newline:
                    return lines + newline
                continue
            newer = self._newer()
            if newer is None:
                return b""
            # The writer may have added lines between the read and its rotation.
            if more := self._file.read():
                lines = self._rest + more
                self._rest = b""
                self._open(newer, 0)
                return lines
            self._open(newer, 0)

    def _let_go(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, path: Path, offset: int | None) -> None:
        """Open a file at an offset; None: at its end."""
        self._let_go()
        self._rest = b""
        try:
            self._file = path.open("rb")
        except FileNotFoundError:
            return
        if offset is None:
            self._file.seek(0, os.SEEK_END)
        else:
            self._file.seek(offset)

    def _newest_first(self) -> list[Path]:
        found = [self._path] if self._path.exists() else []
        rotated = [path for path in self._path.parent.glob(f"{self._path.name}.*") if path.suffix[1:].isdigit()]
        return found + sorted(rotated, key=lambda path: int(path.suffix[1:]))

    def _newer(self) -> Path | None:
        """The file that was begun after the open one; None if the open one is the newest."""
        assert self._file is not None
        here = os.fstat(self._file.fileno())
        newer: Path | None = None
        for path in self._newest_first():
            try:
                other = path.stat()
            except FileNotFoundError:
                continue
            if (other.st_dev, other.st_ino) == (here.st_dev, here.st_ino):
                return newer
            newer = path
        # The open file was deleted as the oldest: go on with what is the oldest now.
        return newer


async def read_log(
    path: Path, options: LogOptions, *, ended: Callable[[], bool], now: datetime
) -> AsyncGenerator[bytes, None]:
    """The log of a run. With `follow` until `ended` says that the run is over and everything is read."""
    selection = Selection(options, now)
    chain = FileChain(path)
    try:
        await asyncio.to_thread(chain.begin, options.tail_lines)
        while not selection.exhausted:
            # Asked before the read: what was written before the end of the run is then read for sure.
            over = not options.follow or ended()
            lines = await asyncio.to_thread(chain.read)
            if lines:
                if data := selection.render(entries_of(lines)):
                    yield data
            elif over:
                return
            else:
                await asyncio.sleep(POLL_SECONDS)
    finally:
        chain.close()
