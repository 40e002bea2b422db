# SPDX-License-Identifier: Apache-2.0
"""Log files of containers: their entries, and what of them a reader asked for.

An entry is `<time> <stream> <F or P> <text>`, as the guard writes it and as container runtimes do. P marks a part of a
line that goes on in the next entry of the same stream.
"""

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_TAIL_BYTES = 256 * 1024


class Entry(NamedTuple):
    """One line, or a part of one."""

    time: bytes
    """RFC 3339 with nanoseconds, in UTC; sorts as text."""
    stream: bytes
    partial: bool
    text: bytes
    """Without the end of the line."""


def parse(line: bytes) -> Entry | None:
    """Read one line of a log file; None if it is no entry (a write was cut off by a crash)."""
    parts = line.split(b" ", 3)
    if len(parts) != 4 or parts[2] not in {b"F", b"P"}:
        return None
    return Entry(parts[0], parts[1], parts[2] == b"P", parts[3])


def rendered(entry: Entry, *, timestamps: bool) -> bytes:
    """An entry as a reader gets it."""
    end = b"" if entry.partial else b"\n"
    return entry.time + b" " + entry.text + end if timestamps else entry.text + end


def last_lines(path: Path, lines: int, limit: int) -> bytes:
    """The text of the last lines of a file, at most `limit` bytes from their end."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        data = file.read()
    kept = deque(_entries(data), maxlen=lines)
    return b"".join(rendered(entry, timestamps=False) for entry in kept)[-limit:]


def _entries(data: bytes) -> Iterable[Entry]:
    for line in data.split(b"\n"):
        if entry := parse(line):
            yield entry
