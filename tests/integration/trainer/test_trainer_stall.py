# SPDX-License-Identifier: Apache-2.0
"""The condition `Stalled` and the events about progress, over the local API server."""

import asyncio
from pathlib import Path
from typing import Any, cast

from tests.findings import declare_writer
from tests.integration.trainer.reporting import definitions
from trainwright.api.conditions import find
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.local.cluster import api_server, install
from trainwright.controller.runtime import Client, Manager
from trainwright.controller.runtime.manager.manager import ServerSettings
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.waiting import equals, eventually
from trainwright.controller.trainer.job.events import JobEvents
from trainwright.controller.trainer.job.findings import JobFindings
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.controller.trainer.progress.stall import StallController

STALL_SECONDS = 0.5
RUNNING = [{"name": "node", "active": 1, "ready": 1, "succeeded": 0, "failed": 0, "suspended": 0}]


class Told:
    """Keeps the events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def warn(self, job: TrainJob, event: str, note: str) -> None:  # noqa: ARG002 - the protocol's
        self.events.append((job.name, event))

    def of(self, name: str) -> list[str]:
        return [reason for job, reason in self.events if job == name]


class NoReports:
    """Reports came to other replicas."""

    def arrivals(self, uid: str) -> None:
        """None is known."""


async def no_runtime(_: TrainJob) -> None:
    """The jobs here have none."""


async def test_a_job_stalls_recovers_and_finishes(tmp_path: Path) -> None:
    async with api_server(tmp_path, memory=True) as api, TaskScope("test") as tasks:
        client, told = Client(api.transport(), user_agent="user"), Told()
        await install(client, definitions(), owner="test")
        servers = ServerSettings(metrics=None, probes=None)
        manager = Manager(api.config, field_manager="test", servers=servers, transport=api.transport())
        records = JobRecords()
        records.watch(manager.cache)
        findings = JobFindings(records)
        StallController(manager, cast("JobEvents", told), no_runtime, STALL_SECONDS, records, findings)
        declare_writer(manager, findings)
        running = tasks.start("manager", manager.run())
        await manager.wait_ready()

        async def job(name: str) -> None:
            document = {
                "apiVersion": "trainer.kubeflow.org/v1alpha1",
                "kind": "TrainJob",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"runtimeRef": {"name": "none"}},
            }
            await client.create(document, kind=TrainJob.RESOURCE)
            await set_status(name, jobsStatus=RUNNING)

        async def set_status(name: str, **status: Any) -> None:
            await client.patch(TrainJob.RESOURCE, name, "default", {"status": status}, subresource="status")

        async def report(name: str, second: int, percent: int, *metrics: tuple[str, str]) -> None:
            said = [{"name": key, "value": value} for key, value in metrics]
            reported = {
                "progressPercentage": percent,
                "lastUpdatedTime": f"2026-01-01T00:00:{second:02}Z",
                "metrics": said,
            }
            await set_status(name, trainerStatus=reported)

        async def stalled(name: str) -> str:
            found = await client.get(TrainJob, name, "default")
            condition = find(found.status.conditions if found.status is not None else None, "Stalled")
            return condition.reason if condition is not None else ""

        await job("silent")
        await report("silent", 0, 5)
        await eventually(lambda: stalled("silent"), equals("NoReport"))
        await job("a")
        await report("a", 0, 5)
        await eventually(lambda: stalled("a"), equals("NoReport"))
        await report("a", 1, 10, ("loss", "0.5"))
        await eventually(lambda: stalled("a"), equals(""))
        await eventually(lambda: stalled("a"), equals("NoReport"))
        await report("a", 2, 20, ("train_loss", "nan"), ("loss", "0.4"))
        await eventually(lambda: "LossNotFinite" in told.of("a"))
        await report("a", 3, 100, ("loss", "0.4"))
        await set_status("a", jobsStatus=[{**RUNNING[0], "active": 0, "ready": 0, "succeeded": 1}])
        await eventually(lambda: stalled("a"), equals(""))
        assert [event for event in told.of("a") if event != "Stalled"] == ["LossNotFinite"]
        assert told.of("silent") == ["Stalled"]
        manager.stop()
        await asyncio.wait({running})
