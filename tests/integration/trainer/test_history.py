# SPDX-License-Identifier: Apache-2.0
"""The ConfigMaps with the history of progress, written by a whole manager over the local API server."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.builders import condition, train_job
from tests.integration.trainer.reporting import SPACE, World, running
from tests.reports import TIME, progress
from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import wire
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import NotFound
from trainwright.controller.runtime.testing.waiting import equals, eventually
from trainwright.controller.trainer.assembly.parts import parts_of
from trainwright.controller.trainer.assembly.settings import settings_of
from trainwright.controller.trainer.progress.ring import KEY, belongs, config_map_name, read

pytestmark = pytest.mark.asyncio(loop_scope="module")
COMPLETE = condition("Complete", at=TIME)
HOSTILE = "<img onerror=alert(1)>\x1b[2J"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with running(tmp_path_factory.mktemp("world"), progress={"history": True, "interval": "2s"}) as found:
        yield found


@pytest.fixture
def world(shared: World) -> World:
    """One manager for all tests; each has TrainJobs of its own."""
    shared.tests += 1
    return shared


async def own_job(world: World, name: str) -> TrainJob:
    """A TrainJob of this manager, which waits for its runtime."""
    await world.client.create(wire(train_job(world.own(name), SPACE, uid="")), kind=TrainJob.RESOURCE)
    return await world.client.get(TrainJob, world.own(name), SPACE)


async def stored(world: World, name: str) -> list[int | None]:
    try:
        found = await world.client.get(ConfigMap, config_map_name(world.own(name)), SPACE)
    except NotFound:
        return []
    return [point.percentage for point in read(found.data).samples()]


async def test_the_history_is_there_when_the_job_has_ended(world: World) -> None:
    job = await own_job(world, "a")
    for percentage in (10, 20, 100):
        metrics = [{"name": "loss", "value": f"{1 / percentage:g}"}, {"name": HOSTILE, "value": "1"}]
        await world.report("a", progress(percentage, metrics=metrics))
        await world.settled("a", percentage)
    assert await stored(world, "a") == []
    await world.set_status("a", conditions=[COMPLETE])
    await eventually(lambda: stored(world, "a"), equals([10, 20, 100]))

    found = await world.client.get(ConfigMap, config_map_name(world.own("a")), SPACE)
    assert belongs(found, job)
    ring = read(found.data)
    assert (ring.curve("loss"), ring.curve(HOSTILE)) == ([0.1, 0.05, 0.01], [1.0, 1.0, 1.0])
    # Garbage collection deletes it with the job; the manager does not watch it as an object of the job.
    assert found.metadata is not None
    (owner,) = found.metadata.owner_references or []
    assert (owner.kind, owner.uid, owner.controller) == ("TrainJob", job.metadata and job.metadata.uid, False)


async def test_a_step_that_falls_is_stored_and_begins_a_segment(world: World) -> None:
    """Scenario 71 of progress."""
    await own_job(world, "a")
    for percentage in (40, 50, 20):
        metrics = [{"name": "loss", "value": "0.5"}, {"name": "current_step", "value": str(percentage)}]
        await world.report("a", progress(percentage, metrics=metrics))
        await world.settled("a", percentage)
    await world.set_status("a", conditions=[COMPLETE])
    await eventually(lambda: stored(world, "a"), equals([40, 50, 20]))
    found = await world.client.get(ConfigMap, config_map_name(world.own("a")), SPACE)
    assert [point.segment for point in read(found.data).samples()] == [0, 0, 1]


async def test_a_config_map_of_somebody_else_is_not_touched(world: World) -> None:
    name = config_map_name(world.own("a"))
    mine = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": SPACE}, "data": {KEY: "x"}}
    made = await world.client.create(mine, kind=ConfigMap.RESOURCE)
    await own_job(world, "a")
    await world.report("a", progress(10))
    await world.settled("a", 10)
    await world.set_status("a", conditions=[COMPLETE])
    registry = world.managers[0].metrics.registry
    await eventually(
        lambda: registry.get_sample_value("trainer_progress_history_writes_total", {"result": "foreign"}), equals(1.0)
    )
    assert await world.client.get(ConfigMap.RESOURCE, name, SPACE) == made


async def test_the_part_is_off_unless_it_is_asked_for() -> None:
    def is_on(**configuration: Any) -> bool:
        return any(
            part.name == "history" for part in parts_of(settings_of(msgspec.convert(configuration, Configuration)))
        )

    gate = {"featureGates": {"TrainJobStatus": True}}
    wanted = {"progress": {"history": True}}
    assert is_on(**gate, **wanted)
    assert is_on(featureGates={"ProgressPull": True}, **wanted)
    assert not any((is_on(), is_on(**gate), is_on(**wanted)))
