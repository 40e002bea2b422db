# SPDX-License-Identifier: Apache-2.0
"""Curves of a job: what the dashboard has seen, and what a manager recorded."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tests.dashboards import Faulty, dashboard
from tests.integration.local.dashboard.world import World
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.times import wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.dashboard import contract, curves
from trainwright.controller.runtime.client.transport import Request, Stream
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.progress.curve import Sample
from trainwright.controller.trainer.progress.ring import Ring, document_of
from trainwright.controller.views.reports import KeptReports
from trainwright.progress import CURVE, CurveWriter

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_series_holds_what_was_seen(world: World) -> None:
    await world.create("bert", progressPercentage=50, metrics={"loss": "1", "current_step": "5"})
    async with dashboard(world.transport, world.space) as (browser, site):
        await site.watched.informer.wait_synced()
        await world.report("bert", progressPercentage=40, metrics={"loss": "2", "current_step": "4"})

        async def series() -> curves.JobSeries:
            return (await browser.get(world.path("bert", "series"))).as_(curves.JobSeries)

        found = await eventually(series, lambda found: len(found.points.times) == 2)
        assert found.points.steps == [5.0, 4.0]
        assert found.points.percentages == [50.0, 40.0]
        assert [(curve.name, curve.values) for curve in found.points.curves] == [("loss", [1.0, 2.0])]
        assert [(mark.index, mark.segment) for mark in found.points.marks] == [(0, 0), (1, 1)]
        assert (await browser.get(world.path("none", "series"))).problem.reason == "NotFound"


async def test_a_point_has_the_extremes_that_were_passed_since_the_one_before(world: World) -> None:
    """A report says those of its whole attempt."""
    await world.create("bert", metrics={"loss": "2", "loss.max": "9.0 at step 3", "current_step": "5"})
    async with dashboard(world.transport, world.space, reports=KeptReports()) as (browser, site):
        await site.watched.informer.wait_synced()
        for step, more in ((10, {"loss.min": "0.5 at step 7"}), (15, {"loss.min": "0.5 at step 7"})):
            told = {"loss": "1", "current_step": str(step), "loss.max": "9.0 at step 3", **more}
            await world.report("bert", metrics=told)

        async def series() -> curves.JobSeries:
            return (await browser.get(world.path("bert", "series"))).as_(curves.JobSeries)

        found = await eventually(series, lambda found: len(found.points.times) == 3)
        (loss,) = found.points.curves
        assert (loss.name, loss.values) == ("loss", [2.0, 1.0, 1.0])
        assert (loss.lows, loss.highs) == ([2.0, 0.5, 1.0], [9.0, 1.0, 1.0])
        # They are no metrics of their own: the last values are without them.
        job = (await browser.get(world.path("bert"))).as_(contract.Job)
        assert [(one.name, one.number) for one in job.metrics] == [("loss", 1.0), ("current_step", 15.0)]


async def test_300_steps_of_a_local_job_are_300_points_and_new_ones_are_told(world: World, tmp_path: Path) -> None:
    """From the file that its training writes, though the manager has written two reports."""
    await world.create("bert", metrics={"loss": "1", "current_step": "300"})
    file = CurveWriter(str(tmp_path / CURVE))
    now, begin = wall_clock().timestamp() + 60, {"attempt": 1, "total": 400, "epochs": None}

    def passed(*steps: int) -> list[dict[str, object]]:
        return [{"time": now + n, "step": n, "metrics": {"loss": 9.0 if n == 150 else 1.0}} for n in steps]

    file.add(passed(*range(1, 301)), begin, last=True)
    async with dashboard(world.transport, world.space, reports=KeptReports(), output_of=lambda _: tmp_path) as (
        browser,
        site,
    ):
        await site.watched.informer.wait_synced()
        async with browser.stream(f"{world.path('bert')}/stream") as events:
            await events.next("job")
            series = (await browser.get(world.path("bert", "series"))).as_(curves.JobSeries)
            (loss,) = series.points.curves
            assert (series.joined, series.points.steps) == (1, [float(n) for n in range(1, 301)])
            assert [n for n, value in enumerate(loss.values, 1) if value == 9.0] == [150]
            assert (series.points.percentages[-1], series.points.number) == (75, 300)
            file.add(passed(301, 302), begin, last=True)
            await world.report("bert", metrics={"loss": "1", "current_step": "302"})
            points = (await events.next("points"))[1]
            assert (points.steps, points.number, points.replace) == ([301, 302], 302, False)


async def test_reports_are_told_apart_by_their_numbers(world: World) -> None:
    """Their times are whole seconds, and the clock of a training may be set back."""
    await world.create("bert", progressPercentage=98, metrics={"loss": "3", "current_step": "1"})
    async with dashboard(world.transport, world.space) as (browser, site):
        # A stream from before the first list tells the page to read the series again, in place of the reports.
        await site.watched.informer.wait_synced()
        async with browser.stream(f"{world.path('bert')}/stream") as events:
            await events.next("job")

            async def series() -> curves.Points:
                return (await browser.get(world.path("bert", "series"))).as_(curves.JobSeries).points

            first = (await series()).number
            for step, percentage in ((2, 99), (3, 99), (3, 100)):
                metrics = {"loss": "2", "current_step": str(step)}
                await world.report("bert", progressPercentage=percentage, metrics=metrics)
            points = await events.until("points", lambda points: 100 in points.percentages)
            whole = await series()
        assert points.number == whole.number == first + 3
        assert whole.percentages == [98, 99, 99, 100]


async def test_what_the_manager_recorded_comes_first(world: World) -> None:
    job = await world.create("bert")
    ring = Ring()
    begin = wall_clock().timestamp() - 3600
    for step in range(3):
        values = {"loss": 9.0 - step, "current_step": float(step)}
        ring.add(Sample(at=begin + 60 * step, percentage=step, values=values, attempt=1))
    recorded = document_of(msgspec.convert(job, TrainJob), ring.encode())
    await world.client.create(recorded, kind=ConfigMap.RESOURCE)
    async with dashboard(world.transport, world.space) as (browser, site):
        await site.watched.informer.wait_synced()
        async with browser.stream(f"{world.path('bert')}/stream") as events:
            await events.next("job")
            await world.report("bert", progressPercentage=1, metrics={"loss": "NaN", "current_step": "1"})
            await events.next("points")
            series = (await browser.get(world.path("bert", "series"))).as_(curves.JobSeries)
            assert (series.recorded, series.unread) == (True, "")
            assert series.points.steps == [0.0, 1.0, 2.0, 1.0]
            (loss,) = series.points.curves
            assert (loss.values, loss.not_finite) == ([9.0, 8.0, 7.0, None], [3])
            assert [mark.index for mark in series.points.marks] == [0, 3]
            # Pages that have begun without the record begin again.
            await events.until("points", lambda points: points.replace)
        world.transport.forbidden = {"configmaps"}
    async with dashboard(world.transport, world.space) as (browser, _):
        series = (await browser.get(world.path("bert", "series"))).as_(curves.JobSeries)
        assert (series.recorded, len(series.points.times)) == (False, 1)
        assert series.unread.startswith(f"no right to get configmaps in namespace {world.space}: reports from before")


async def test_a_page_that_was_faster_than_the_first_list_begins_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was reported between the two is in no event of its own."""
    await world.create("bert")
    open_now, listed = Faulty.open, asyncio.Event()

    @asynccontextmanager
    async def later(transport: Faulty, request: Request) -> AsyncIterator[Stream]:
        await listed.wait()
        async with open_now(transport, request) as stream:
            yield stream

    monkeypatch.setattr(Faulty, "open", later)
    async with (
        dashboard(world.transport, world.space) as (browser, site),
        browser.stream(f"{world.path('bert')}/stream") as events,
    ):
        await events.next("job")
        await world.report("bert", progressPercentage=1, metrics={"loss": "2", "current_step": "1"})
        assert not site.watched.informer.synced
        listed.set()
        assert (await events.next("points"))[1].replace
        series = (await browser.get(world.path("bert", "series"))).as_(curves.JobSeries)
        assert series.points.steps == [1.0]


@pytest.mark.parametrize("damage", ["{", "[]", '{"version": 7}'])
async def test_a_damaged_record_is_said(world: World, damage: str) -> None:
    job = await world.create("bert", progressPercentage=5)
    recorded = document_of(msgspec.convert(job, TrainJob), damage)
    await world.client.create(recorded, kind=ConfigMap.RESOURCE)
    async with dashboard(world.transport, world.space) as (browser, _):
        series = (await browser.get(world.path("bert", "series"))).as_(curves.JobSeries)
    assert (series.recorded, series.points.percentages) == (False, [5])
    assert "ConfigMap bert-progress is damaged" in series.unread
