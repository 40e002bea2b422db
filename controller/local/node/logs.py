# SPDX-License-Identifier: Apache-2.0
"""Log files of containers: their entries, reading and following them, and termination messages."""

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, NamedTuple

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.controller.local.node.files import read_end
from trainwright.controller.local.node.process.supervision import Exit
from trainwright.controller.local.podaccess import LogRequest, UnavailableError

# ---------------------------------------------------------------------- entries
#
# An entry is `<time> <stream> <F or P> <text>`, as the guard writes it and as container runtimes do. P marks a part of
# a line that goes on in the next entry of the same stream.

_TAIL_BYTES = 256 * 1024


class LogEntry(NamedTuple):
    time: bytes
    """RFC 3339 with nanoseconds, in UTC; sorts as text."""
    stream: bytes
    partial: bool
    text: bytes
    """Without the end of the line."""


def parse(line: bytes) -> LogEntry | None:
    """Read one line of a log file; None if it is no entry (a write was cut off by a crash)."""
    parts = line.split(b" ", 3)
    if len(parts) != 4 or parts[2] not in {b"F", b"P"}:
        return None
    return LogEntry(parts[0], parts[1], parts[2] == b"P", parts[3])


class LogSelection:
    """Turns entries into what a reader asked for: since a time, with times, up to a limit."""

    def __init__(self, options: LogRequest, now: datetime) -> None:
        self._timestamps = options.timestamps
        self._left = options.limit_bytes
        since = options.since_time
        if options.since_seconds is not None:
            since = now - timedelta(seconds=options.since_seconds)
        # Times of entries are UTC in a fixed form, so they compare as text.
        self._since = b"" if since is None else times.format_micro_time(since)[:-1].encode()
        self._at_start = True

    @property
    def exhausted(self) -> bool:
        return self._left is not None and self._left <= 0

    def render(self, entries: Iterable[LogEntry]) -> bytes:
        parts = []
        for entry in entries:
            if entry.time < self._since:
                continue
            # The parts of a long line are joined: only the first shows a time.
            if self._timestamps and self._at_start:
                parts.append(entry.time + b" ")
            parts.append(entry.text if entry.partial else entry.text + b"\n")
            self._at_start = not entry.partial
        data = b"".join(parts)
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        return data


def run_to_show(pod: str, container: str, status: Document, *, previous: bool) -> int:
    """The run whose log a reader gets; runs count from 0, and the id of a container ends with the number.

    Raises UnavailableError with the kubelet's text if there is none.
    """
    listed = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    found = next((one for one in listed if one.get("name") == container), None)
    named = f'container "{container}" in pod "{pod}"'
    if found is None:
        raise UnavailableError(f"{named} is not available")
    state, last = found.get("state") or {}, (found.get("lastState") or {}).get("terminated")
    if previous:
        if not last:
            raise UnavailableError(f"previous terminated {named} not found")
        return _run_of(last)
    if "running" in state:
        return _run_of(found)
    if "terminated" in state:
        return _run_of(state["terminated"])
    if last:
        return _run_of(last)
    reason = (state.get("waiting") or {}).get("reason")
    raise UnavailableError(f"{named} is waiting to start: {reason or 'no logs yet'}")


def _run_of(state: Document) -> int:
    number = str(state.get("containerID") or "").rpartition("/")[2]
    return int(number) if number.isdecimal() else 0


def last_lines(path: Path, lines: int, limit: int) -> bytes:
    """The text of the last lines of a run in its newest file, at most `limit` bytes from their end."""
    try:
        data = read_end(part_of(path, max(parts_of(path), default=0)), _TAIL_BYTES)
    except OSError:  # there is none, or it cannot be read
        return b""
    kept = deque(entries_of(data), maxlen=lines)
    return b"".join(entry.text if entry.partial else entry.text + b"\n" for entry in kept)[-limit:]


def entries_of(data: bytes) -> Iterable[LogEntry]:
    """The entries in a piece of a log file. Torn lines are left out."""
    for line in data.split(b"\n"):
        if entry := parse(line):
            yield entry


# ---------------------------------------------------------------------- reading

CHUNK = 256 * 1024
POLL_SECONDS = 0.1


class FileChain:
    """The files of one run in order of age: `<n>.log`, `<n>.log.1`, `<n>.log.2` and so on.

    The writer begins a new file when one is full, and removes the oldest.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = -1
        self._file: BinaryIO | None = None
        self._rest = b""
        self._lock = threading.Lock()
        self._is_closed = False

    def begin(self, tail: int | None) -> None:
        """Go to the start, or to the last `tail` lines."""
        with self._lock:
            for part in reversed([] if tail is None or self._is_closed else parts_of(self._path)):
                if not self._open(part):
                    continue
                assert self._file is not None
                lines = self._file.readlines() if tail else []
                skipped = max(0, len(lines) - (tail or 0))
                self._file.seek(sum(map(len, lines[:skipped])), os.SEEK_SET if tail else os.SEEK_END)
                tail = (tail or 0) - (len(lines) - skipped)
                if not tail:
                    break

    def read(self) -> bytes:
        """The next whole lines; empty at the end of what is written so far, and once it is closed."""
        with self._lock:
            return b"" if self._is_closed else self._read()

    def close(self) -> None:
        """Close the file, after a read that still runs in a thread."""
        with self._lock:
            self._is_closed = True
            if self._file is not None:
                self._file.close()

    def _read(self) -> bytes:
        while True:
            while self._file is not None and (data := self._file.read(CHUNK)):
                lines, newline, self._rest = (self._rest + data).rpartition(b"\n")
                if newline:
                    return lines + newline
            later = [part for part in parts_of(self._path) if part > self._part]
            if not later:
                return b""
            # The writer may have added lines between the read and the beginning of the next file.
            more = b"" if self._file is None else self._file.read()
            lines = self._rest + more
            self._open(later[0])
            if more:
                return lines

    def _open(self, part: int) -> bool:
        """Read on at the beginning of a file; False if it was removed meanwhile."""
        try:
            file = part_of(self._path, part).open("rb")
        except FileNotFoundError:
            return False
        if self._file is not None:
            self._file.close()
        self._file, self._part, self._rest = file, part, b""
        return True


def part_of(path: Path, part: int) -> Path:
    return path if part == 0 else path.with_name(f"{path.name}.{part}")


def parts_of(path: Path) -> list[int]:
    """The numbers of the files that a run has now, the oldest first."""
    numbers = (file.suffix[1:] for file in path.parent.glob(f"{path.name}.*"))
    return ([0] if path.exists() else []) + sorted(int(number) for number in numbers if number.isdecimal())


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


# ---------------------------------------------------------------------- termination messages
#
# https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/

MESSAGE_BYTES = 4096
LOG_BYTES = 2048
LOG_LINES = 80


def message(container: Document, file: Path, log: Path, *, code: int) -> str:
    """The message of a run that ended with `code`: 4 KiB of the end of its file, or 80 lines or 2 KiB of its log."""
    try:
        # Like a kubelet: what a container appends counts, however much it wrote before.
        text = read_end(file, MESSAGE_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        text = ""
    except OSError as error:
        return f"Error on reading termination log {file}: {error.strerror or error}"
    if not text and code != 0 and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
        text = last_lines(log, LOG_LINES, LOG_BYTES).decode("utf-8", "replace")
    return text


def of_kernel(exited: Exit) -> str:
    """What the kernel says of a process that was killed; empty if it says nothing."""
    if exited.out_of_memory:
        return "the kernel killed it for lack of memory"
    if exited.killed_nearby > 0:
        number = f"{exited.killed_nearby} process{'es' if exited.killed_nearby > 1 else ''}"
        return f"the kernel killed {number} of this cluster for lack of memory meanwhile, and does not say which"
    return ""
