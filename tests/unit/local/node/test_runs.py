# SPDX-License-Identifier: Apache-2.0
"""The runs of a container, and what is started beside them."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.local.node.pods import container, pod
from trainwright.controller.local.node.container import ContainerRunner
from trainwright.controller.local.node.plan import ContainerPlan, Folders
from trainwright.controller.local.node.process.supervision import Exit
from trainwright.controller.local.node.sessions import open_session
from trainwright.controller.local.node.status import ContainerState, Running, Waiting
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.waiting import eventually, has_length

NOW = datetime(2026, 11, 22, tzinfo=UTC)
PLAN = ContainerPlan(
    command=["run"],
    environment={},
    folder="/",
    image_id="",
    mounts=(),
    rewriter=None,
    warnings=(),
)


class Process:
    """A process that ends when the test, or a kill, says so."""

    started_at = NOW

    def __init__(self) -> None:
        self.end: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self.killed = self.ends_by_itself = False

    @property
    def ended(self) -> bool:
        return self.end.done()

    async def wait(self) -> Exit:
        return await asyncio.shield(self.end)

    def program_ended(self) -> bool:
        return self.ends_by_itself

    def terminate(self) -> None:
        self.end.set_result(Exit(1, NOW))

    def kill(self) -> None:
        self.killed = True


class Host:
    """Starts processes at once, except those beside another one: they wait for the test."""

    pod = pod(restartPolicy="Always")
    volumes = None

    def __init__(self) -> None:
        self.runs: list[Process] = []
        self.beside: list[Process] = []
        self.go_on = asyncio.Event()

    def goes_on_without(self, _: str) -> bool:
        return False

    def changed(self) -> None:
        """Nobody is told."""

    def event(self, kind: str, reason: str, note: str) -> None:
        """Not kept."""

    async def plan(self, *_: Any) -> ContainerPlan:
        return PLAN

    async def start(self, *_: Any, join: Any) -> Any:
        (self.runs if join is None else self.beside).append(Process())
        if join is None:
            return self.runs[-1]
        await self.go_on.wait()
        return self.beside[-1]


async def test_a_run_does_not_empty_what_the_one_before_linked(tmp_path: Path) -> None:
    """A container may have replaced its termination message by a link to a file of the user."""
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "termination-log").symlink_to(precious)
    host: Any = Host()
    folders = Folders(tmp_path, tmp_path / "logs", tmp_path / "tmp")
    async with TaskScope("test") as tasks:
        runner = ContainerRunner(container(), ContainerState(Waiting("")), folders, host, host, tasks, lambda: NOW)
        tasks.start("run", runner.run())
        await eventually(lambda: host.runs, has_length(1))
        assert precious.read_text() == "precious"
        host.runs[0].end.set_result(Exit(1, NOW))


async def test_the_logs_of_the_first_run_and_the_last_five_are_kept(tmp_path: Path) -> None:
    host: Any = Host()
    for name in ("0.log", "2.log", "2.log.1", "3.log", "22.log"):
        (tmp_path / name).touch()
    state = ContainerState(Waiting(""), restarts=7)
    async with TaskScope("test") as tasks:
        folders = Folders(tmp_path / "main", tmp_path, tmp_path / "tmp")
        runner = ContainerRunner(container(), state, folders, host, host, tasks, lambda: NOW)
        tasks.start("run", runner.run())
        await eventually(lambda: host.runs, has_length(1))
        host.runs[0].end.set_result(Exit(0, NOW))
    assert sorted(await asyncio.to_thread(os.listdir, tmp_path)) == ["0.log", "22.log", "3.log", "main", "tmp"]


async def test_what_was_starting_when_its_run_ended_does_not_join_the_next(tmp_path: Path) -> None:
    host: Any = Host()
    state = ContainerState(Waiting("ContainerCreating"))
    folders = Folders(tmp_path, tmp_path / "logs", tmp_path / "tmp")
    async with TaskScope("test") as tasks:
        runner = ContainerRunner(container(), state, folders, host, host, tasks, lambda: NOW)
        tasks.start("run", runner.run())
        await eventually(lambda: state.state, lambda found: isinstance(found, Running))
        opening = asyncio.create_task(runner.exec(["sleep"], stdin=False, tty=False))
        await eventually(lambda: host.beside, has_length(1))
        host.runs[0].end.set_result(Exit(1, NOW))
        await eventually(lambda: host.runs, has_length(2))
        await eventually(lambda: state.state, lambda found: isinstance(found, Running))
        host.go_on.set()
        session = await opening
        assert host.beside[0].killed
        host.beside[0].end.set_result(Exit(137, NOW))
        await session.close()


@pytest.mark.parametrize("ended", [False, True])
async def test_a_program_that_had_ended_before_the_stop_was_not_stopped(tmp_path: Path, ended: bool) -> None:
    """What it started still ran. Its failure is a cause, and not a consequence."""
    host: Any = Host()
    state = ContainerState(Waiting("ContainerCreating"))
    folders = Folders(tmp_path, tmp_path / "logs", tmp_path / "tmp")
    async with TaskScope("test") as tasks:
        runner = ContainerRunner(container(), state, folders, host, host, tasks, lambda: NOW)
        running = tasks.start("run", runner.run())
        await eventually(lambda: state.state, lambda found: isinstance(found, Running))
        running.cancel()
        host.runs[0].ends_by_itself = ended
        await runner.stop(asyncio.Event().wait)
    assert [(one.exit_code, one.stopped) for one in state.failures] == [(1, not ended)]


class Stubborn:
    """A process that is killed and does not end."""

    def kill(self) -> None:
        """It takes its time."""

    async def wait(self) -> None:
        await asyncio.get_running_loop().create_future()


def descriptors() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_session_whose_end_is_cancelled_keeps_no_descriptor() -> None:
    async def start(stdio: tuple[int, int, int], terminal: bool) -> Any:
        return Stubborn()

    before = descriptors()
    for terminal in (False, True):
        session = await open_session(start, stdin=True, tty=terminal)
        closing = asyncio.create_task(session.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait({closing})
        # Whoever tries it again has nothing left to do.
        await session.close()
    assert descriptors() == before
