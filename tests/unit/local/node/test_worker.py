# SPDX-License-Identifier: Apache-2.0
"""The life of one pod: its files follow their sources, and nothing of it stays."""

import asyncio
import threading
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.local.node.pods import Document, container, pod
from trainwright.api.times import wall_clock
from trainwright.controller.local.node import pod as module
from trainwright.controller.local.node import volumes
from trainwright.controller.local.node.document import ConfigError
from trainwright.controller.local.node.node import STOPPED
from trainwright.controller.local.node.pod import PodWorker
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.runtime.testing.waiting import equals, eventually


class Files:
    """Volumes that show a number. Each time they are written, they wait for the test."""

    renew_after: float | None = None

    def __init__(self) -> None:
        self.source, self.shown, self.writes = 1, 0, 0
        self.go_on = asyncio.Semaphore(0)

    async def refresh(self, _: Document) -> None:
        found = self.source
        self.writes += 1
        await self.go_on.acquire()
        self.shown = found

    prepare = refresh


@pytest.fixture(autouse=True)
def _short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "SHORT", tmp_path)


@pytest.fixture
def hosting(tmp_path: Path) -> Any:
    """What the node offers; also what it is told, and how long the machine has slept."""

    async def plan(*_: Any) -> None:
        raise ConfigError("configmap not found")

    return SimpleNamespace(
        settings=NodeSettings(name="n", folder=tmp_path / "state"),
        sources=None,
        event=lambda *_: None,
        plan=plan,
        release=lambda _: None,
        told=lambda: None,
        slept=timedelta(0),
    )


@pytest.fixture
def worker(hosting: Any) -> PodWorker:
    """The worker of a pod whose container waits for a ConfigMap."""
    one = pod(container(), volumes=[{"name": "v", "configMap": {"name": "c"}}])

    def changed() -> None:
        hosting.told()

    return PodWorker(one, hosting, changed=changed, now=lambda: wall_clock() + hosting.slept)


async def test_a_change_while_files_are_written_is_shown(worker: PodWorker) -> None:
    files = Files()
    worker.volumes = files  # type: ignore[assignment]
    running = asyncio.create_task(worker.run())
    # The first time they are made, then they are brought up to date.
    for writes in (1, 2, 3):
        await eventually(lambda: files.writes, equals(writes))
        files.source += 1
        worker.notice_source("c")
        files.go_on.release()
    files.go_on.release()
    await eventually(lambda: files.shown, equals(4))
    worker.end(grace=0.0)
    await running


async def test_a_pod_that_has_ended_is_not_stopped_by_the_node(worker: PodWorker) -> None:
    worker.volumes = Files()  # type: ignore[assignment]
    worker.end()
    await worker.run()
    worker.end(verdict=STOPPED)
    assert worker.state.verdict is None


async def test_files_are_renewed_and_a_deadline_counts_after_a_sleep_of_the_machine(
    worker: PodWorker, hosting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Timers stand still while it sleeps: the clocks are looked at again meanwhile."""
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    files = Files()
    files.renew_after = 3600.0
    worker.volumes = files  # type: ignore[assignment]
    worker.pod["spec"]["activeDeadlineSeconds"] = 3600
    monkeypatch.setattr(worker, "event", lambda *_: None)
    running = asyncio.create_task(worker.run())
    files.go_on.release()
    await eventually(lambda: files.shown, equals(1))
    files.renew_after = -1.0
    await eventually(lambda: files.writes, equals(2))
    hosting.slept = timedelta(hours=8)
    await running
    assert worker.state.verdict == module.EXPIRED


async def test_a_folder_that_is_made_while_the_worker_is_cancelled_is_removed(
    worker: PodWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = threading.Event(), threading.Event()
    made: list[Path] = []

    def slow(uid: str) -> Path:
        began.set()
        go_on.wait()
        made.append(volumes.make_temporary(uid))
        return made[0]

    monkeypatch.setattr(module, "make_temporary", slow)
    running = asyncio.create_task(worker.run())
    await eventually(began.is_set)
    running.cancel()
    await asyncio.wait({running}, timeout=0.05)
    go_on.set()
    await asyncio.wait({running})
    # The thread removes it, a moment after it was made.
    await eventually(lambda: [one.exists() for one in made], equals([False]))
