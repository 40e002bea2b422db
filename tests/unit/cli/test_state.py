# SPDX-License-Identifier: Apache-2.0
"""Who holds the folder of a local cluster, and who only looks."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest

from trainwright.controller.cli import state


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lock").touch()
    return tmp_path


@pytest.fixture
def look(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The file of another process in the middle of its look: whatever lock a look takes, nobody lets it go."""
    real = fcntl.flock
    with (folder / "lock").open("a+") as lock:
        with monkeypatch.context() as patch:
            patch.setattr(fcntl, "flock", lambda _, how: real(lock, how))
            assert not state.is_held(folder)
        yield lock.fileno()


def test_a_folder_is_held_by_one(folder: Path) -> None:
    assert not state.is_held(folder)
    with state.held(folder):
        assert state.is_held(folder)
        with pytest.raises(state.InUseError, match="already: it is starting or ending, or belongs to a `run`"):
            state.held(folder).__enter__()
        assert state.is_held(folder)
    assert not state.is_held(folder)


@pytest.mark.usefixtures("look")
def test_who_looks_does_not_hold_it(folder: Path) -> None:
    assert not state.is_held(folder)


def test_a_look_does_not_refuse_a_start(folder: Path, look: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real, refused = fcntl.flock, list[int]()

    def flock(file: IO[str], how: int) -> None:
        try:
            real(file, how)
        except BlockingIOError:
            refused.append(how)
            raise
        if refused and how != fcntl.LOCK_UN:
            real(look, fcntl.LOCK_UN)  # the look ends

    monkeypatch.setattr(fcntl, "flock", flock)
    with state.held(folder):
        assert refused == [fcntl.LOCK_EX | fcntl.LOCK_NB]
        assert state.is_held(folder)


RUN = state.ClusterRun("default", 1, "https://127.0.0.1:1", "1", "rewrite", "2026-11-25T09:00:00Z")


def test_a_cluster_whose_lock_outlives_its_connections_has_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state.write(folder, RUN)
    with ExitStack() as dying:
        dying.enter_context(state.held(folder))
        monkeypatch.setattr(time, "sleep", lambda _: dying.close())  # the kernel goes on meanwhile
        assert state.has_ended(folder)


def test_a_cluster_that_keeps_its_lock_has_not_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_DYING_SECONDS", 0.0)
    state.write(folder, RUN)
    with state.held(folder):
        assert not state.has_ended(folder)
    assert state.has_ended(folder)
