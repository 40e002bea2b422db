# SPDX-License-Identifier: Apache-2.0
"""What of a log a reader gets: entries selected, files read across rotations, runs chosen."""

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from trainwright.controller.local.node.logs import (
    MESSAGE_BYTES,
    FileChain,
    last_lines,
    message,
    parse,
    part_of,
    read_log,
    run_to_show,
)
from trainwright.controller.local.podaccess import LogRequest, UnavailableError
from trainwright.controller.runtime.testing.waiting import eventually

NOW = datetime(2026, 11, 22, 10, 0, 30, tzinfo=UTC)


def at(second: int, text: str, *, partial: bool = False, stream: str = "stdout") -> bytes:
    return f"2026-11-22T10:00:{second:02d}.000000000Z {stream} {'P' if partial else 'F'} {text}\n".encode()


LOG = at(1, "one") + at(2, "two", stream="stderr") + at(3, "thr", partial=True) + at(3, "ee") + at(20, "four")


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, "one\ntwo\nthree\nfour\n"),
        ({"tail_lines": 0}, ""),
        ({"tail_lines": 1}, "four\n"),
        ({"tail_lines": 2}, "ee\nfour\n"),  # parts count as lines, as with the kubelet
        ({"tail_lines": 100}, "one\ntwo\nthree\nfour\n"),
        ({"since_seconds": 15}, "four\n"),
        ({"since_time": datetime(2026, 11, 22, 10, 0, 2, tzinfo=UTC)}, "two\nthree\nfour\n"),
        ({"since_time": datetime(2026, 11, 22, 10, 0, 2, 1, tzinfo=UTC)}, "three\nfour\n"),
        ({"limit_bytes": 5}, "one\nt"),
        ({"limit_bytes": 4}, "one\n"),
        ({"tail_lines": 1, "timestamps": True}, "2026-11-22T10:00:20.000000000Z four\n"),
        (
            {"since_seconds": 27, "timestamps": True, "limit_bytes": 37},
            "2026-11-22T10:00:03.000000000Z three\n",
        ),
    ],
)
async def test_options(tmp_path: Path, options: dict[str, Any], wanted: str) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(LOG)
    assert await read(path, LogRequest(**options)) == wanted


async def read(path: Path, options: LogRequest) -> str:
    chunks = [chunk async for chunk in read_log(path, options, ended=lambda: True, now=NOW)]
    return b"".join(chunks).decode()


@pytest.mark.parametrize(("tail", "wanted"), [(None, "abcdef"), (1, "f"), (3, "def"), (5, "bcdef"), (9, "abcdef")])
async def test_rotated_files_are_read_in_order(tmp_path: Path, tail: int | None, wanted: str) -> None:
    for name, texts in (("0.log.9", "ab"), ("0.log.10", "cd"), ("0.log.11", "ef")):
        (tmp_path / name).write_bytes(b"".join(at(1, text) for text in texts))
    found = await read(tmp_path / "0.log", LogRequest(tail_lines=tail))
    assert found.split() == list(wanted)


async def test_following_ends_with_the_run_and_misses_no_rotation(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(at(1, "a"))
    found: list[bytes] = []
    over = False

    async def follow() -> None:
        async for chunk in read_log(path, LogRequest(follow=True), ended=lambda: over, now=NOW):
            found.append(chunk)  # noqa: PERF401 - as they come

    task = asyncio.create_task(follow())
    await eventually(lambda: b"".join(found) == b"a\n")
    # The last line of a file comes after the reader's last look, and two files in one go.
    for part, text in enumerate("bcd"):
        with part_of(path, part).open("ab") as file:
            file.write(at(2, text) + at(2, text.upper()))
    part_of(path, 3).write_bytes(at(3, "e"))
    await eventually(lambda: b"".join(found).split()[-1:] == [b"e"])
    with part_of(path, 3).open("ab") as file:
        file.write(at(4, "last"))
    over = True
    await task
    assert b"".join(found).decode().split() == ["a", "b", "B", "c", "C", "d", "D", "e", "last"]


def test_a_reader_that_was_left_opens_nothing_more(tmp_path: Path) -> None:
    """A thread may come to it after its task was cancelled."""
    path = tmp_path / "0.log"
    path.write_bytes(at(1, "a"))
    before = descriptors()
    left = FileChain(path)
    left.close()
    left.begin(1)
    assert left.read() == b""
    assert descriptors() == before


@pytest.mark.parametrize("moment", range(5))
@pytest.mark.parametrize("tail", [None, 0, 1, 3])
def test_files_that_come_and_go_while_they_are_opened_lose_nothing_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail: int | None, moment: int
) -> None:
    """The writer keeps two files."""
    path, opened, opens, lines = tmp_path / "0.log", Path.open, 0, 0

    def next_part() -> None:
        nonlocal lines
        part = lines // 2
        with opened(part_of(path, part), "ab") as file:
            file.write(at(1, str(lines)) + at(1, str(lines + 1)))
        part_of(path, part - 2).unlink(missing_ok=True)
        lines += 2

    def open_later(self: Path, *arguments: Any, **named: Any) -> Any:
        nonlocal opens
        opens += 1
        if opens == moment + 1:
            next_part()
        return opened(self, *arguments, **named)

    next_part()
    next_part()
    before = descriptors()
    monkeypatch.setattr(Path, "open", open_later)
    chain = FileChain(path)
    chain.begin(tail)
    found = numbers_in(chain)
    next_part()
    found += numbers_in(chain)
    assert descriptors() == before + 1
    chain.close()
    assert descriptors() == before
    assert found == list(range(found[0], lines))
    assert found[0] in ({0, 2} if tail is None else {4 - tail, 2, 4})


def numbers_in(chain: FileChain) -> list[int]:
    """The numbers in all that can be read now."""
    return [int(line.split()[-1]) for data in iter(chain.read, b"") for line in data.splitlines()]


def descriptors() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_line_that_is_being_written_is_not_torn(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    whole = at(1, "a") + at(2, "x" * 100)
    path.write_bytes(whole[:-50])
    found: list[bytes] = []
    over = False

    async def follow() -> None:
        async for chunk in read_log(path, LogRequest(follow=True), ended=lambda: over, now=NOW):
            found.append(chunk)  # noqa: PERF401 - as they come

    task = asyncio.create_task(follow())
    await eventually(lambda: b"".join(found) == b"a\n")
    # Not the whole anew: a reader in between would see a file without its first line.
    with path.open("ab") as file:
        file.write(whole[-50:])
    await eventually(lambda: len(b"".join(found)) == 103)
    over = True
    await task


@pytest.mark.parametrize("line", [b"", b"text", b"time stdout X text", b"time stdout"])
def test_what_is_no_entry(line: bytes) -> None:
    assert parse(line) is None


def test_the_last_lines_of_a_log(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    assert last_lines(path, 80, 2048) == b""
    path.write_bytes(b"".join(at(1, str(number)) for number in range(100)))
    assert last_lines(path, 3, 2048) == b"97\n98\n99\n"
    assert last_lines(path, 80, 4) == b"\n99\n"
    part_of(path, 1).write_bytes(at(2, "newest"))
    assert last_lines(path, 3, 2048) == b"newest\n"


RUNNING = {"name": "c", "state": {"running": {}}, "containerID": "local://uid/c/2"}
ENDED = {"exitCode": 1, "containerID": "local://uid/c/1"}


@pytest.mark.parametrize(
    ("container", "previous", "wanted"),
    [
        (RUNNING, False, 2),
        (RUNNING | {"lastState": {"terminated": ENDED}}, True, 1),
        (RUNNING, True, 'previous terminated container "c" in pod "p" not found'),
        ({"name": "c", "state": {"terminated": ENDED}}, False, 1),
        ({"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ENDED}}, 0, 1),
        (
            {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}},
            False,
            'container "c" in pod "p" is waiting to start: ContainerCreating',
        ),
        ({"name": "other"}, False, 'container "c" in pod "p" is not available'),
    ],
)
def test_the_run_that_is_shown(container: dict[str, Any], previous: bool, wanted: int | str) -> None:
    status = {"containerStatuses": [container]}
    if isinstance(wanted, int):
        assert run_to_show("p", "c", status, previous=previous) == wanted
        return
    with pytest.raises(UnavailableError) as raised:
        run_to_show("p", "c", status, previous=previous)
    assert str(raised.value) == wanted


# ---------------------------------------------------------------------- termination messages


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"x" * 9000 + b"the last line\n", "x" * (MESSAGE_BYTES - 14) + "the last line\n"),
        (b"not UTF-8: \xff", "not UTF-8: \N{REPLACEMENT CHARACTER}"),
    ],
)
def test_the_end_of_the_file(tmp_path: Path, written: bytes, shown: str) -> None:
    file, log = tmp_path / "termination-log", tmp_path / "log"
    file.write_bytes(written)
    log.write_bytes(b"")
    assert message({}, file, log, code=1) == shown


def link(file: Path) -> None:
    file.symlink_to("x" * 300)


def link_to_a_secret(file: Path) -> None:
    secret = file.with_name("secret")
    secret.write_text("password")
    file.symlink_to(secret)


@pytest.mark.parametrize("make", [link, link_to_a_secret, os.mkfifo, Path.mkdir])
def test_what_a_container_put_in_the_place_of_the_file_is_not_read(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    file, log = tmp_path / "main" / "termination-log", tmp_path / "log"
    file.parent.mkdir()
    make(file)
    assert message({}, file, log, code=1).startswith(f"Error on reading termination log {file}: ")
