# SPDX-License-Identifier: Apache-2.0
"""A manager that starts beside jobs that run and have reported writes nothing (scenario 80 of the page on progress)."""

from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tests.builders import RUNNING
from tests.integration.trainer.conftest import TEMPLATE
from tests.integration.trainer.reporting import SPACE, World, running
from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import name_of, resource_version_of
from trainwright.api.times import format_time, wall_clock
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainJob
from trainwright.controller.runtime import Manager
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.waiting import equals, eventually
from trainwright.controller.trainer.assembly.manager import make_manager
from trainwright.controller.trainer.assembly.settings import settings_of

JOBS = [f"job-{number:02}" for number in range(30)]
ALL: dict[str, Any] = {
    "featureGates": {"ProgressPull": True},
    "progress": {"history": True, "jobMetrics": True, "stallAfter": "2m"},
}


async def versions(world: World) -> dict[str, str]:
    """Of all that a manager writes."""
    found = {}
    for kind in (TrainJob, JobSet, ConfigMap):
        for one in (await world.client.list(kind, SPACE)).items:
            found[f"{kind.__name__}/{name_of(one)}"] = resource_version_of(one)
    return found


def reconciles(manager: Manager, controller: str) -> float:
    labels = {"controller": controller}
    results = ("success", "requeue_after", "requeue", "error")
    values = (
        manager.metrics.registry.get_sample_value("controller_runtime_reconcile_total", {**labels, "result": result})
        for result in results
    )
    return sum(value or 0 for value in values)


def methods(manager: Manager) -> set[str]:
    """Of the requests that it sent."""
    families = manager.metrics.registry.collect()
    samples = [one for family in families for one in family.samples if one.name == "rest_client_requests_total"]
    return {one.labels["method"] for one in samples if one.value}


async def test_a_manager_that_starts_beside_jobs_that_reported_writes_nothing(tmp_path: Path) -> None:
    """Scenario 80 of progress."""
    async with running(tmp_path, **ALL) as world:
        await create(world, ClusterTrainingRuntime, "plain", {"mlPolicy": {"numNodes": 1}, "template": TEMPLATE})
        for name in JOBS:
            await create(world, TrainJob, name, {"runtimeRef": {"name": "plain"}}, namespace=SPACE)

        async def jobsets() -> int:
            return len((await world.client.list(JobSet, SPACE)).items)

        await eventually(jobsets, equals(len(JOBS)))
        metrics = [{"name": "loss", "value": "NaN"}, {"name": "current_step", "value": "7"}]
        told = {"progressPercentage": 7, "lastUpdatedTime": format_time(wall_clock()), "metrics": metrics}
        for name in JOBS:
            counts = {"status": {"replicatedJobsStatus": [RUNNING]}}
            await world.client.patch(JobSet.RESOURCE, name, SPACE, counts, subresource="status")
            status = {"status": {"trainerStatus": told}}
            await world.client.patch(TrainJob.RESOURCE, name, SPACE, status, subresource="status")

        async def counted() -> int:
            found = (await world.client.list(TrainJob, SPACE)).items
            return sum(bool(job.status is not None and job.status.jobs_status) for job in found)

        await eventually(counted, equals(len(JOBS)))
        world.managers[0].stop()

        async def histories() -> int:
            return len([name for name in await versions(world) if name.endswith("-progress")])

        # The first manager writes them at its end.
        await eventually(histories, equals(len(JOBS)))
        before = await versions(world)

        async with TaskScope("next") as tasks:
            raw = {"health": {"healthProbeBindAddress": "0"}, "webhook": {"host": "127.0.0.1"}, **ALL}
            settings = settings_of(msgspec.convert(raw, Configuration))
            manager = await make_manager(world.api.config, settings, user_agent="next", transport=world.api.transport())
            task = tasks.start("next manager", manager.run())
            await manager.wait_ready()
            for controller in ("trainjob_controller", "stall_controller"):
                await eventually(partial(reconciles, manager, controller), lambda found: found >= len(JOBS))
            manager.stop()
            await task
            assert methods(manager) == {"GET"}
        assert await versions(world) == before


async def create(world: World, kind: Any, name: str, spec: dict[str, Any], **metadata: str) -> None:
    document = {"apiVersion": kind.RESOURCE.api_version, "kind": kind.RESOURCE.kind, "spec": spec}
    await world.client.create({**document, "metadata": {"name": name, **metadata}}, kind=kind.RESOURCE)
