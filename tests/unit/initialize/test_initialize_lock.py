# SPDX-License-Identifier: Apache-2.0
"""Two initializers and one folder."""

import asyncio
import errno
import fcntl
import os
from pathlib import Path

import pytest

from tests.unit.initialize.runs import initialize, tree
from trainwright.controller.initialize import folder as folders
from trainwright.controller.initialize.contract import InitializeError
from trainwright.controller.initialize.folder import GONE_SECONDS, LOCK, Folder, locked
from trainwright.controller.runtime.testing.waiting import eventually


class Waiting:
    """A clock that goes on when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[str] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


async def test_the_second_waits_and_finds_the_work_done(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(50):
        (source / str(number)).write_bytes(b"x" * number)
    both = await asyncio.gather(*(initialize(f"file://{source}", tmp_path / "t", "dataset") for _ in range(2)))
    assert [outcome.error for outcome in both] == [None, None]
    # Threads of both are on the way to the lock: either may come first.
    first, second = sorted(both, key=lambda outcome: outcome.said("another initializer works on"))
    assert [outcome.said("another initializer works on") for outcome in (first, second)] == [False, True]
    assert second.said("the other initializer completed")
    assert tree(tmp_path / "t") == tree(source)


async def test_a_lock_without_a_beat_is_taken(tmp_path: Path) -> None:
    waiting = Waiting()
    with Folder(tmp_path, create=True) as folder:
        gone = folder.open(LOCK, os.O_RDWR | os.O_CREAT, create=True)
        fcntl.flock(gone, fcntl.LOCK_EX)
        async with locked(folder, waiting.lines.append, clock=waiting.clock, sleep=waiting.sleep) as waited:
            assert waited
        os.close(gone)
    assert waiting.now >= GONE_SECONDS
    assert "has given no sign" in waiting.lines[-1]


async def test_a_beating_lock_is_not_taken(tmp_path: Path) -> None:
    waiting = Waiting()
    with Folder(tmp_path, create=True) as folder:
        other = folder.open(LOCK, os.O_RDWR | os.O_CREAT, create=True)
        fcntl.flock(other, fcntl.LOCK_EX)

        async def sleep(seconds: float) -> None:
            await waiting.sleep(seconds)
            os.utime(other, ns=(0, int(waiting.now * 1e9)))
            if waiting.now > 3 * GONE_SECONDS:
                fcntl.flock(other, fcntl.LOCK_UN)

        async with locked(folder, waiting.lines.append, clock=waiting.clock, sleep=sleep) as waited:
            assert waited
        os.close(other)
    assert len(waiting.lines) == 1


async def test_the_owner_beats_and_ends_when_its_lock_was_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "BEAT_SECONDS", 0.0)

    async def lose(folder: Folder) -> None:
        async with locked(folder, Waiting().lines.append):
            os.utime(tmp_path / LOCK, (0, 0))
            await eventually(lambda: (tmp_path / LOCK).stat().st_mtime, bool)
            folder.remove(LOCK)
            await asyncio.Event().wait()

    with Folder(tmp_path, create=True) as folder, pytest.raises(InitializeError, match="another process took the lock"):
        await lose(folder)


async def test_a_file_system_without_locks_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    (tmp_path / "source").mkdir()
    (tmp_path / "source/x").write_text("x")
    outcome = await initialize(f"file://{tmp_path}/source", tmp_path / "t", "dataset")
    assert (outcome.error, outcome.said("has no locks")) == (None, True)
