# SPDX-License-Identifier: Apache-2.0
"""The guard: a program ends with whoever wanted it, in whatever way that ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright.controller.runtime.testing.component import Component
from trainwright.controller.runtime.testing.errors import ControlPlaneError

# What a process of its own runs to start one under a guard.
PARENT = """
import sys, time
from pathlib import Path
from trainwright.controller.runtime.testing.component import Component
folder = Path(sys.argv[1])
started = Component("program", [sys.executable, "-c", sys.argv[2]], log=folder / "log", remove=folder)
time.sleep(600)
"""
# Prints its process id, then waits; SIGTERM ends it unless told otherwise.
PROGRAM = "import os, signal, sys, time; {before}; print(os.getpid(), flush=True); time.sleep(600)"


def alive(pid: int) -> bool:
    try:
        # A process that ended but was not waited for yet does nothing any more.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def eventually(condition: Callable[[], bool], *, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def component(tmp_path: Path, *, before: str = "pass") -> tuple[Component, int]:
    log = tmp_path / "program.log"
    started = Component("program", [sys.executable, "-c", PROGRAM.format(before=before)], log=log)
    eventually(lambda: log.read_text().endswith("\n"))
    return started, int(log.read_text())


def test_stop_ends_the_program_and_may_be_repeated(tmp_path: Path) -> None:
    started, pid = component(tmp_path)
    assert alive(pid)
    started.stop()
    assert not alive(pid)
    started.stop()


def test_a_program_that_ignores_sigterm_can_be_killed(tmp_path: Path) -> None:
    started, pid = component(tmp_path, before="signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    started.kill()
    assert not alive(pid)


def test_the_death_of_the_parent_ends_the_program_and_deletes_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(folder), PROGRAM.format(before="pass")])
    log = folder / "log"
    eventually(lambda: log.exists() and log.read_text().endswith("\n"))
    pid = int(log.read_text())
    parent.kill()
    parent.wait()
    eventually(lambda: not alive(pid))
    eventually(lambda: not folder.exists())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_the_death_of_the_guard_ends_the_program(tmp_path: Path) -> None:
    started, pid = component(tmp_path)
    os.kill(started.pid, signal.SIGKILL)
    eventually(lambda: not alive(pid))
    started.stop()


def test_a_program_that_ends_is_explained_with_its_last_lines(tmp_path: Path) -> None:
    started = Component("etcd", [sys.executable, "-c", "print('no space'); raise SystemExit(3)"], log=tmp_path / "log")
    with pytest.raises(ControlPlaneError, match=r"(?s)etcd ended with code 3 while starting.*no space"):
        started.wait_until(lambda: False, seconds=20)
    started.stop()


def test_a_program_that_never_gets_ready_is_explained(tmp_path: Path) -> None:
    started, _ = component(tmp_path)
    with pytest.raises(ControlPlaneError, match="program was not ready after 0 s"):
        started.wait_until(lambda: False, seconds=0)
    started.stop()
