# SPDX-License-Identifier: Apache-2.0
"""Reads the log of one run from its files, across rotations, and follows it while the container runs.

`FileChain` blocks and is used from a thread; `read_log` is for the event loop.
"""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from trainwright.controller.local.node.streams.logs import LogSelection, entries_of
from trainwright.controller.local.podaccess import LogRequest

CHUNK = 256 * 1024
POLL_SECONDS = 0.1


class FileChain:
    """The files of one run in order of age: `<n>.log.4` … `<n>.log.1`, `<n>.log`. The writer may rotate meanwhile.

    A rotation renames files: they are told apart by their number on the disk, and stay open once they were found.
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
        with self._all() as files:
            if files:
                self._go_to(files[-1] if tail is None else _before_last(tail, files))

    def _read(self) -> bytes:
        while True:
            if self._file is None:
                self._begin(None)
                if self._file is None:
                    return b""
            data = self._file.read(CHUNK)
            if data:
                lines, newline, self._rest = (self._rest + data).rpartition(b"\n")
                if newline:
                    return lines + newline
                continue
            if self._is_newest(self._file):
                return b""
            with self._all() as files:
                newer = _newer(self._file, files)
                if newer is None:
                    return b""
                # The writer may have added lines between the read and its rotation.
                more = self._file.read()
                lines = self._rest + more
                self._go_to(newer)
            if more:
                return lines

    def _go_to(self, file: BinaryIO) -> None:
        """Read on in another file, from where it is."""
        self._let_go()
        self._file = file
        self._rest = b""

    def _let_go(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _is_newest(self, file: BinaryIO) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(file.fileno()))
        except FileNotFoundError:  # it is just being rotated
            return False

    @contextmanager
    def _all(self) -> Iterator[list[BinaryIO]]:
        """All files, open, the newest first. In the end they are closed, except the one that is read on in."""
        opened: list[BinaryIO] = []
        try:
            files: list[BinaryIO] = []
            for path in self._paths():
                try:
                    file = path.open("rb")
                except FileNotFoundError:
                    continue
                opened.append(file)
                if not any(os.path.sameopenfile(file.fileno(), other.fileno()) for other in files):
                    files.append(file)
            yield files
        finally:
            for one in opened:
                if one is not self._file:
                    one.close()

    def _paths(self) -> list[Path]:
        """Where files may be, the newest first, also if a rotation begins now.

        Rotations make numbers higher. Whoever opens them in this order may meet a file twice, and misses none.
        """
        names = self._path.parent.glob(f"{self._path.name}.*")
        numbers = [0, *(int(name.suffix[1:]) for name in names if name.suffix[1:].isdecimal())]
        after = sorted({*numbers, *(number + 1 for number in numbers)} - {0})
        return [self._path, *(self._path.with_name(f"{self._path.name}.{number}") for number in after)]


def _before_last(tail: int, files: list[BinaryIO]) -> BinaryIO:
    """The file in which the last lines begin, at the place where they do. The newest file is the first one."""
    chosen, left = files[0], tail
    chosen.seek(0, os.SEEK_END)
    for file in files:
        if left == 0:
            break
        chosen = file
        chosen.seek(0)
        lines = chosen.readlines()
        skipped = max(0, len(lines) - left)
        chosen.seek(sum(map(len, lines[:skipped])))
        left -= len(lines) - skipped
    return chosen


def _newer(file: BinaryIO, files: list[BinaryIO]) -> BinaryIO | None:
    """Which of the files was begun after the open one; None if that is the newest."""
    newer: BinaryIO | None = None
    for other in files:
        if os.path.sameopenfile(other.fileno(), file.fileno()):
            return newer
        newer = other
    # The open file was deleted as the oldest: go on with what is the oldest now.
    return newer


async def read_log(
    path: Path, options: LogRequest, *, ended: Callable[[], bool], now: datetime
) -> AsyncGenerator[bytes, None]:
    """The log of a run. With `follow` until `ended` says that the run is over and everything is read."""
    selection = LogSelection(options, now)
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
