# SPDX-License-Identifier: Apache-2.0
"""Log files of containers: their entries, and what of them a reader asked for.

An entry is `<time> <stream> <F or P> <text>`, as the guard writes it and as container runtimes do. P marks a part of a
line that goes on in the next entry of the same stream.
"""

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.controller.local.node.files import read_end
from trainwright.controller.local.podaccess import LogRequest, UnavailableError

_TAIL_BYTES = 256 * 1024


class LogEntry(NamedTuple):
    """One line, or a part of one."""

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
        """Whether the limit is used up."""
        return self._left is not None and self._left <= 0

    def render(self, entries: Iterable[LogEntry]) -> bytes:
        """The bytes for these entries."""
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
    """The text of the last lines of a file, at most `limit` bytes from their end."""
    try:
        data = read_end(path, _TAIL_BYTES)
    except OSError:  # there is none, or it cannot be read
        return b""
    kept = deque(entries_of(data), maxlen=lines)
    return b"".join(entry.text if entry.partial else entry.text + b"\n" for entry in kept)[-limit:]


def entries_of(data: bytes) -> Iterable[LogEntry]:
    """The entries in a piece of a log file. Torn lines are left out."""
    for line in data.split(b"\n"):
        if entry := parse(line):
            yield entry
