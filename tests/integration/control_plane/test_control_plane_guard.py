# SPDX-License-Identifier: Apache-2.0
"""The guard: a program ends with the process that started it, however that process ends."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import alive
from trainwright.controller.runtime.testing.component import Components, ControlPlaneComponent
from trainwright.controller.runtime.testing.tools import ControlPlaneError, PortTakenError
from trainwright.controller.runtime.testing.waiting import eventually_sync, is_empty

# What a process of its own runs to start one under a guard.
PARENT = """
import sys, time
from pathlib import Path
from trainwright.controller.runtime.testing.component import ControlPlaneComponent
folder = Path(sys.argv[1])
started = ControlPlaneComponent("program", [sys.executable, "-c", sys.argv[2]], log=folder / "log", remove=folder)
time.sleep(600)
"""
# Prints its process id, then waits; SIGTERM ends it unless told otherwise.
PROGRAM = "import os, signal, sys, time; {before}; print(os.getpid(), flush=True); time.sleep(600)"


def ends_the_line(text: str) -> bool:
    return text.endswith("\n")


def component(tmp_path: Path, *, before: str = "pass") -> tuple[ControlPlaneComponent, int]:
    log = tmp_path / "program.log"
    started = ControlPlaneComponent("program", [sys.executable, "-c", PROGRAM.format(before=before)], log=log)
    eventually_sync(log.read_text, ends_the_line)
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
    eventually_sync(log.read_text, ends_the_line, ignore=(FileNotFoundError,))
    pid = int(log.read_text())
    parent.kill()
    parent.wait()
    eventually_sync(lambda: alive(pid), is_empty)
    eventually_sync(folder.exists, is_empty)


@pytest.mark.only_where(sys.platform == "linux", "only Linux tells a child of its parent's death")
def test_the_death_of_the_guard_ends_the_program(tmp_path: Path) -> None:
    started, pid = component(tmp_path)
    os.kill(started.pid, signal.SIGKILL)
    eventually_sync(lambda: alive(pid), is_empty)
    started.stop()


def test_a_program_that_ends_is_explained_with_its_last_lines(tmp_path: Path) -> None:
    started = ControlPlaneComponent(
        "etcd", [sys.executable, "-c", "print('no space'); raise SystemExit(3)"], log=tmp_path / "log"
    )
    with pytest.raises(ControlPlaneError, match=r"(?s)etcd ended with code 3 while starting.*no space"):
        started.wait_until(lambda: False, seconds=20)
    started.stop()


def test_a_program_that_never_gets_ready_is_explained(tmp_path: Path) -> None:
    started, _ = component(tmp_path)
    with pytest.raises(ControlPlaneError, match="program was not ready after 0 s"):
        started.wait_until(lambda: False, seconds=0)
    started.stop()


# Starts another process, prints the ids of both, and waits for the other.
FAMILY = "sleep 600 & echo $! $$; wait"


def family(tmp_path: Path, script: str = FAMILY) -> tuple[ControlPlaneComponent, list[int]]:
    log = tmp_path / "family.log"
    started = ControlPlaneComponent("family", ["sh", "-c", script], log=log)
    eventually_sync(log.read_text, ends_the_line)
    return started, [int(pid) for pid in log.read_text().split()]


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_what_a_program_started_ends_with_it(tmp_path: Path, way: str) -> None:
    started, pids = family(tmp_path)
    assert all(alive(pid) for pid in pids)
    getattr(started, way)()
    eventually_sync(lambda: [pid for pid in pids if alive(pid)], is_empty)


def test_what_ignores_sigterm_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    started, pids = family(tmp_path, f"(trap '' TERM; exec sleep 600) & {FAMILY.partition('& ')[2]}")
    started.stop()
    eventually_sync(lambda: [pid for pid in pids if alive(pid)], is_empty)


def test_what_a_program_left_behind_ends_with_it(tmp_path: Path) -> None:
    started, (pid, _) = family(tmp_path, "sleep 600 & echo $! $$")
    eventually_sync(lambda: started.running, is_empty)
    eventually_sync(lambda: alive(pid), is_empty)
    started.stop()


def test_a_program_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    started = ControlPlaneComponent("nothing", [str(tmp_path / "nothing")], log=tmp_path / "log")
    eventually_sync(lambda: started.running, is_empty)
    with pytest.raises(ControlPlaneError, match=r"(?s)ended with code 127.*cannot run .*nothing: No such file"):
        started.must_run()
    started.stop()


@pytest.fixture
def components(tmp_path: Path) -> Iterator[Components]:
    running = Components(tmp_path)
    yield running
    running.stop()


def test_one_that_ended_is_told_though_something_answered_for_it(components: Components) -> None:
    components.launch("etcd", ["sh", "-c", "echo bind: address already in use; exit 1"], lambda: True)
    # The second is ready when the first has certainly ended.
    components.launch("other", ["sleep", "600"], lambda: not components.by_name["etcd"].running)
    with pytest.raises(PortTakenError, match="etcd ended with code 1") as taken:
        components.wait()
    assert taken.value.program == "etcd"


def test_one_whose_port_is_taken_need_not_say_so(components: Components) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ports = [server.getsockname()[1]]
        components.launch("jobset-manager", ["sh", "-c", "echo stopping; exit 1"], lambda: False, ports=ports)
        with pytest.raises(PortTakenError, match="another program listens on its port"):
            components.wait()


def test_one_that_waits_for_another_does_not_outwait_its_end(components: Components) -> None:
    components.launch("etcd", ["sh", "-c", "exit 1"], lambda: True)
    components.launch("kube-apiserver", ["sleep", "600"], lambda: False)
    with pytest.raises(ControlPlaneError, match="etcd ended with code 1"):
        components.wait()


def test_an_earlier_start_explains_nothing_about_a_later_one(components: Components) -> None:
    components.launch("etcd", ["sh", "-c", "echo bind: address already in use; exit 1"], lambda: False)
    with pytest.raises(PortTakenError):
        components.wait("etcd")
    components.stop_one("etcd", kill=False)
    components.launch("etcd", ["sh", "-c", "echo no space left; exit 1"], lambda: False)
    with pytest.raises(ControlPlaneError, match="no space left") as error:
        components.wait("etcd")
    assert "address already in use" not in str(error.value)
    assert not isinstance(error.value, PortTakenError)


def test_a_name_in_use_is_refused_and_its_program_goes_on(components: Components) -> None:
    components.launch("etcd", ["sleep", "600"], lambda: True)
    with pytest.raises(ControlPlaneError, match="a program named etcd is already running"):
        components.launch("etcd", ["sleep", "600"], lambda: True)
    assert components.by_name["etcd"].running


def test_an_unknown_name_is_refused_with_the_known_ones(components: Components) -> None:
    with pytest.raises(ControlPlaneError, match="no program named etdc; running are none"):
        components.stop_one("etdc", kill=False)
    components.launch("etcd", ["sleep", "600"], lambda: True)
    with pytest.raises(ControlPlaneError, match="no program named etdc; running are etcd"):
        components.restart("etdc", kill=True)
