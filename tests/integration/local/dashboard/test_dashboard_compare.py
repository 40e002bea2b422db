# SPDX-License-Identifier: Apache-2.0
"""Jobs beside each other, as the page and the spreadsheet get them."""

import csv
import io
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.dashboards import dashboard
from tests.integration.local.dashboard.world import World
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import TrainingRuntime
from trainwright.api.trainer.v1alpha1.constants import LABEL_ANCESTOR_STEP
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.views.comparison import JobComparison

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def created(world: World, name: str, rate: str, **metrics: str) -> Any:
    env = {"HF_TOKEN": f"word-of-{name}", "RATE": rate}
    return await world.create(name, env=env, progressPercentage=50, metrics={**metrics, "current_step": "5"})


def asked(space: str, *names: str, **more: list[str]) -> str:
    return urlencode({"job": [f"{space}/{name}" for name in names], **more}, doseq=True)


async def test_what_differs_and_what_it_came_to(world: World) -> None:
    first = await created(world, "a", "0.1", loss="2")
    await created(world, "b", "=1+1", loss="3", accuracy="0.5")
    container = {"name": "node", "image": "torch:2"}
    template = {"spec": {"parallelism": 2, "template": {"spec": {"containers": [container]}}}}
    template["metadata"] = {"labels": {LABEL_ANCESTOR_STEP: "trainer"}}
    await world.add(JobSet.RESOURCE, "a", first, spec={"replicatedJobs": [{"name": "node", "template": template}]})
    async with dashboard(world.transport, world.space) as (browser, site):
        await site.watched.informer.wait_synced()
        await world.report("a", progressPercentage=60, metrics={"loss": "1.5", "current_step": "6"})
        await world.report("a", progressPercentage=70, metrics={"loss": "NaN", "current_step": "7"})

        async def compared() -> JobComparison:
            answer = await browser.get(f"/api/v1/compare?{asked(world.space, 'a', 'b', 'none')}")
            return answer.as_(JobComparison)

        def is_told(found: JobComparison) -> bool:
            measure = found.jobs[0].measures[0]
            return measure is not None and measure.last == "NaN"

        found = await eventually(compared, is_told)
        values = {one.name: [job.parameters[at] for job in found.jobs] for at, one in enumerate(found.parameters)}
        assert values == {"image": ["torch:2", None], "RATE": ["0.1", "=1+1"]}
        assert "HF_TOKEN" in {one.name for one in found.same}
        assert [(one.name, one.best) for one in found.metrics] == [("loss", "low"), ("accuracy", "high")]
        loss = found.jobs[0].measures[0]
        assert loss is not None
        assert (loss.lowest, loss.lowest_step, found.jobs[0].measures[1]) == (1.5, 6, None)
        assert [(one.name, one.message) for one in found.missing] == [
            ("none", f"there is no TrainJob none in namespace {world.space}")
        ]

        answer = await browser.get(f"/api/v1/compare/csv?{asked(world.space, 'a', 'b', high=['loss'])}")
        assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
        assert answer.headers["Content-Disposition"] == 'attachment; filename="jobs.csv"'
        text = answer.body.decode("utf-8-sig")
        head, *rows = csv.reader(io.StringIO(text))
        assert [dict(zip(head, row, strict=True))["env RATE"] for row in rows] == ["0.1", "'=1+1"]
        assert [dict(zip(head, row, strict=True))["loss best"] for row in rows] == ["2", "3"]
        assert "word-of" not in text


async def test_the_image_of_a_job_that_has_ended_is_known_although_its_jobset_is_gone(world: World) -> None:
    container = {"name": "node", "image": "torch:3"}
    part: Document = {"name": "node", "template": {"spec": {"template": {"spec": {"containers": [container]}}}}}
    part["template"]["metadata"] = {"labels": {LABEL_ANCESTOR_STEP: "trainer"}}
    await world.add(TrainingRuntime.RESOURCE, "torch", spec={"template": {"spec": {"replicatedJobs": [part]}}})
    await created(world, "a", "0.1")
    await world.report("a", condition="Complete")
    async with dashboard(world.transport, world.space) as (browser, _):
        found = (await browser.get(f"/api/v1/compare?{asked(world.space, 'a')}")).as_(JobComparison)
    assert {one.name: one.value for one in found.same}["image"] == "torch:3"


async def test_a_refused_question(world: World) -> None:
    async with dashboard(world.transport, world.space) as (browser, _):
        for query, message in (
            ("", "name 1 to 24 jobs"),
            (asked(world.space, *(f"j{index}" for index in range(25))), "name 1 to 24 jobs"),
            ("job=a/B_C", "job is namespace/name"),
        ):
            problem = (await browser.get(f"/api/v1/compare?{query}")).problem
            assert (problem.code, problem.reason) == (400, "BadRequest")
            assert message in problem.message
        found = (await browser.get("/api/v1/compare?job=elsewhere/a")).as_(JobComparison)
        assert found.jobs == []
        assert "this dashboard shows namespace" in found.missing[0].message


async def test_jobs_that_may_not_be_listed_are_not_said_to_be_missing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await created(world, "a", "0.1", loss="2")
    monkeypatch.setattr("trainwright.controller.dashboard.service.SYNC_SECONDS", 0.2)
    world.transport.forbidden = {"trainjobs"}
    async with dashboard(world.transport, world.space) as (browser, site):
        await eventually(lambda: site.watched.connection.state, lambda state: state == "forbidden")
        found = (await browser.get(f"/api/v1/compare?{asked(world.space, 'a')}")).as_(JobComparison)
    assert found.missing[0].message.startswith(f"TrainJob a in namespace {world.space} has not been read: no right to")


async def test_jobs_that_may_be_listed_are_compared_without_other_rights(world: World) -> None:
    await created(world, "a", "0.1", loss="2")
    await created(world, "b", "0.2", loss="3")
    world.transport.forbidden = {"jobsets", "configmaps"}
    async with dashboard(world.transport, world.space) as (browser, _):
        found = (await browser.get(f"/api/v1/compare?{asked(world.space, 'a', 'b')}")).as_(JobComparison)
    assert [one.name for one in found.parameters] == ["RATE"]
