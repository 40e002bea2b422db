# SPDX-License-Identifier: Apache-2.0
"""The list of jobs and its stream: what changes, who reads slowly, a server that is lost, missing rights."""

import asyncio
import re
from contextlib import ExitStack
from typing import Any

import pytest

from tests.dashboards import dashboard
from tests.integration.local.dashboard.world import World
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Namespace
from trainwright.api.objects import Key
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.dashboard import connection, contract, reader, server
from trainwright.controller.dashboard.reader import list_events
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.views.explanation import ReferenceView
from trainwright.controller.views.watch import WatchedJobs

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_list_is_a_snapshot_and_then_the_rows_that_change(world: World) -> None:
    await world.create("bert", progressPercentage=42, metrics={"loss": "0.5"})
    await world.create("quiet")
    async with dashboard(world.transport, world.space) as (browser, _), browser.stream("/api/v1/jobs/stream") as events:
        name, first = await events.next()
        assert name == "snapshot"
        rows = {row.name: row for row in first.jobs}
        while rows.keys() != {"bert", "quiet"}:
            _, more = await events.next("rows")
            rows |= {row.name: row for row in more.changed}
        assert (rows["bert"].percentage, rows["bert"].state) == (42, "Running")
        assert rows["bert"].loss is not None
        assert rows["bert"].loss.value == "0.5"
        await world.report("bert", progressPercentage=43, metrics={"loss": "0.4"})
        found = await events.until("rows", lambda rows: any(row.percentage == 43 for row in rows.changed))
        assert [row.name for row in found.changed] == ["bert"]
        await world.client.delete(TrainJob.RESOURCE, "quiet", world.space)
        gone = await events.until("rows", lambda rows: bool(rows.deleted))
        assert gone.deleted == [ReferenceView(kind="TrainJob", namespace=world.space, name="quiet")]


async def test_attempts_count_on_over_jobsets_wherever_they_are_shown(world: World) -> None:
    """The second start of a JobSet that came after four attempts of others is the sixth attempt."""
    job = await world.create("again", progressPercentage=42)
    marks = {"metadata": {"annotations": {"trainwright.dev/attempt-base": "4"}}}
    pod = {**marks, "spec": {"containers": [{"name": "node", "image": "train"}]}}
    replicated = {"name": "node", "template": {"spec": {"template": pod}}}
    await world.add(JobSet.RESOURCE, "again", job, spec={"replicatedJobs": [replicated]}, status={"restarts": 1})
    async with dashboard(world.transport, world.space) as (browser, _), browser.stream("/api/v1/jobs/stream") as events:
        _, first = await events.next()
        if [row.attempt for row in first.jobs] != [6]:
            await events.until("rows", lambda rows: [row.attempt for row in rows.changed] == [6])
        shown = (await browser.get(f"/api/v1/jobs/{world.space}/again")).as_(contract.Job)
    assert (shown.attempt, shown.row.attempt) == (6, 6)
    watched = WatchedJobs(world.client, world.space)
    await watched.read()
    assert [view.attempt for view in watched.views()] == [6]


async def test_a_job_that_is_deleted_before_the_watch_begins_is_followed_to_its_end(world: World) -> None:
    await world.create("bert")
    watched = WatchedJobs(world.client, world.space, "bert")
    news = watched.subscribe()
    await watched.read()
    news.take()
    await world.client.delete(TrainJob.RESOURCE, "bert", world.space)
    async with TaskScope("test") as tasks:
        running = tasks.start("watched", watched.run())
        await news.woken(None)
        running.cancel()
    assert (watched.views(), news.take()) == ([], (set(), {Key(world.space, "bert")}))


async def test_a_page_that_reads_slowly_is_sent_the_last_state_only(world: World) -> None:
    await world.create("bert", progressPercentage=1)
    async with dashboard(world.transport, world.space) as (_, site):
        events = list_events(site.watched)
        name, _ = await anext(events)
        assert name == "snapshot"
        for done in range(2, 30):
            await world.report("bert", progressPercentage=done)

        async def held() -> int | None:
            jobs = site.jobs().jobs
            return jobs[0].percentage if jobs else None

        await eventually(held, lambda found: found == 29)
        name, rows = await anext(events)
        while name != "rows":
            name, rows = await anext(events)
        assert isinstance(rows, contract.Rows)
        assert [row.percentage for row in rows.changed] == [29]
        await events.aclose()


async def test_the_stream_of_a_job_follows_it_through_its_deletion(world: World) -> None:
    path = f"{world.path('bert')}/stream"
    async with dashboard(world.transport, world.space) as (browser, _), browser.stream(path) as events:
        name, gone = await events.next()
        assert (name, gone.name) == ("gone", "bert")
        await world.create("bert", progressPercentage=1, metrics={"loss": "4"})
        await events.until("job", lambda job: job.row.percentage == 1)
        await world.report("bert", progressPercentage=2, metrics={"loss": "nan", "acc": "0.5"})
        points = await events.until("points", lambda points: 2.0 in points.percentages)
        curves = {curve.name: curve for curve in points.curves}
        assert curves["acc"].values[-1] == 0.5
        assert curves["loss"].values[-1] is None
        assert curves["loss"].not_finite == [len(points.times) - 1]
        await world.client.delete(TrainJob.RESOURCE, "bert", world.space)
        await events.next("gone")
        await world.create("bert", progressPercentage=50)
        again = await events.until("job", lambda job: job.row.percentage == 50)
        assert again.row.uid != points.uid


async def test_the_server_is_lost_and_found(world: World) -> None:
    await world.create("bert", progressPercentage=1)
    async with dashboard(world.transport, world.space) as (browser, _), browser.stream("/api/v1/jobs/stream") as events:
        await events.until("connection", lambda found: found.state == "live")
        world.transport.lost = True
        lost = await events.until("connection", lambda found: found.state == "lost")
        assert "does not answer" in lost.message
        assert lost.last_contact is not None
        jobs = (await browser.get("/api/v1/jobs")).as_(contract.JobList)
        assert [row.name for row in jobs.jobs] == ["bert"]
        assert jobs.connection.state == "lost"
        one = (await browser.get(world.path("bert"))).as_(contract.Job)
        assert (one.row.percentage, [unread.part for unread in one.unread]) == (1, ["job"])
        await world.report("bert", progressPercentage=2)
        world.transport.lost = False
        await events.until("connection", lambda found: found.state == "live")

        async def percentage() -> int | None:
            return (await browser.get("/api/v1/jobs")).as_(contract.JobList).jobs[0].percentage

        await eventually(percentage, lambda found: found == 2)


@pytest.mark.parametrize(
    ("fault", "state", "words"),
    [("forbidden", "forbidden", "no right to list and watch trainjobs"), ("refused", "unauthorized", "log in again")],
)
async def test_why_there_are_no_jobs_is_said(world: World, fault: str, state: str, words: str) -> None:
    if fault == "forbidden":
        world.transport.forbidden = {"trainjobs"}
    else:
        world.transport.refused = True
    async with dashboard(world.transport, world.space) as (browser, _), browser.stream("/api/v1/jobs/stream") as events:
        told = await events.until("connection", lambda found: found.state == state)
        assert words in told.message
        world.transport.forbidden, world.transport.refused = set(), False
        await events.until("connection", lambda found: found.state == "live")


async def test_a_dashboard_of_one_namespace_shows_no_other(world: World) -> None:
    await world.create("bert")
    async with dashboard(world.transport, "default") as (browser, _):
        assert (await browser.get("/api/v1/jobs")).as_(contract.JobList).jobs == []
        problem = (await browser.get(world.path("bert"))).problem
        assert (problem.code, f"--namespace {world.space}" in problem.message) == (404, True)


async def test_streams_end_when_the_dashboard_does(world: World) -> None:
    await world.create("bert")
    async with (
        dashboard(world.transport, world.space) as (browser, site),
        browser.stream("/api/v1/jobs/stream") as one,
        browser.stream(f"{world.path('bert')}/stream") as two,
    ):
        await one.next("snapshot")
        await two.next("job")
        site.close()
        assert [name for name, _ in await asyncio.gather(one.next("bye"), two.next("bye"))] == ["bye", "bye"]
    assert site.watched.streams == 0


async def test_a_thousand_jobs(world: World) -> None:
    names = [f"job-{number:04}" for number in range(1000)]
    for part in range(0, 1000, 50):
        await asyncio.gather(*(world.create(name, reported=False) for name in names[part : part + 50]))
    async with dashboard(world.transport, world.space) as (browser, site):
        await eventually(lambda: len(site.jobs().jobs) == 1000)
        async with browser.stream("/api/v1/jobs/stream") as events:
            _, first = await events.next("snapshot")
            assert sorted(row.name for row in first.jobs) == names
            await world.report("job-0500", progressPercentage=50)
            rows = await events.until("rows", lambda rows: any(row.percentage == 50 for row in rows.changed))
            assert [row.name for row in rows.changed] == ["job-0500"]


async def test_a_client_that_never_reads_holds_up_no_other(world: World) -> None:
    """When its socket is full, only the names of jobs that changed wait for it."""
    names = {f"job-{number}" for number in range(20)}
    await asyncio.gather(*(world.create(name, reported=False) for name in names))
    async with dashboard(world.transport, world.space) as (browser, site):
        with browser.unread("/api/v1/jobs/stream"):
            await eventually(lambda: site.watched.streams == 1)
            (slow,) = site.watched._subscribers
            async with browser.stream("/api/v1/jobs/stream") as events:
                done = 0

                async def is_full() -> bool:
                    nonlocal done
                    done += 1
                    told: dict[str, Any] = {"condition": "Failed", "message": "x" * 32_000}
                    await asyncio.gather(*(world.report(name, progressPercentage=done % 100, **told) for name in names))
                    found: dict[str, int | None] = {}
                    while found != dict.fromkeys(names, done % 100):
                        _, rows = await events.next("rows")
                        found.update({row.name: row.percentage for row in rows.changed})
                    return slow.changed == {Key(world.space, name) for name in names}

                await eventually(is_full)
                # The kernel may take some more yet, since it lets buffers grow. Names are all that waits then, too.
                await eventually(is_full)
        await eventually(lambda: site.watched.streams == 0)


async def test_a_dashboard_ends_though_a_client_never_reads(world: World) -> None:
    await world.create("bert", metrics={"loss": "1"})
    with ExitStack() as clients:
        async with dashboard(world.transport, world.space) as (browser, site):
            for path in ("/api/v1/jobs/stream", f"{world.path('bert')}/stream"):
                clients.enter_context(browser.unread(path))
            await eventually(lambda: site.watched.streams == 2)
        assert site.watched.streams == 0


async def test_too_many_pages_are_refused_and_one_fewer_is_not(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_STREAMS", 1)
    path = "/api/v1/jobs/stream"
    async with dashboard(world.transport, world.space) as (browser, site):
        async with browser.stream(path):
            problem = (await browser.get(path)).problem
            assert (problem.code, problem.reason) == (503, "TooManyStreams")
        await eventually(lambda: site.watched.streams == 0)
        async with browser.stream(path) as events:
            await events.next("snapshot")


async def test_a_server_that_hangs_silences_no_stream(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.create("bert", progressPercentage=1)
    monkeypatch.setattr(contract, "HEARTBEAT_SECONDS", 0.3)
    monkeypatch.setattr(connection, "PROBE_SECONDS", 0.1)
    monkeypatch.setattr(connection, "PROBE_LIMIT_SECONDS", 0.1)
    async with (
        dashboard(world.transport, world.space) as (browser, _),
        browser.stream(f"{world.path('bert')}/stream") as events,
    ):
        await events.until("job", lambda job: job.connection.state == "live")
        world.transport.answers.clear()
        lost = await events.until("connection", lambda found: found.state == "lost")
        assert "no answer within" in lost.message
        for _ in range(3):
            await events.next("heartbeat")
        # One job is told from what is known of it, rather than after minutes.
        monkeypatch.setattr(reader, "READ_SECONDS", 0.1)
        asked = asyncio.ensure_future(browser.get(world.path("other")))
        assert (await asked).problem.reason == "Unavailable"
        world.transport.answers.set()
        await events.until("connection", lambda found: found.state == "live")
        await world.report("bert", progressPercentage=2)
        await events.until("job", lambda job: job.row.percentage == 2 and not job.unread)


async def test_who_may_list_and_not_watch_is_told_so(world: World) -> None:
    world.transport.unwatchable = True
    async with dashboard(world.transport, world.space) as (browser, _), browser.stream("/api/v1/jobs/stream") as events:
        told = await events.until("connection", lambda found: found.state == "forbidden")
        assert told.message == (
            f"no right to list and watch trainjobs.trainer.kubeflow.org in namespace {world.space}; "
            "ask its administrator for it"
        )


async def test_all_namespaces_in_one_list(world: World) -> None:
    await world.create("bert")
    other = await world.client.create({"metadata": {"generateName": "test-"}}, kind=Namespace.RESOURCE)
    await World(world.server, other["metadata"]["name"]).create("bert")
    async with dashboard(world.transport) as (_, site):
        spaces = {world.space, other["metadata"]["name"]}
        await eventually(lambda: {row.namespace for row in site.jobs().jobs} >= spaces)


async def test_no_right_to_all_namespaces_names_the_way_out(world: World) -> None:
    world.transport.forbidden = {"trainjobs"}
    async with dashboard(world.transport) as (_, site):
        told = await eventually(lambda: site.jobs().connection, lambda found: found.state == "forbidden")
    assert told.message.endswith("in all namespaces; start the dashboard with --namespace")


async def test_what_was_read_of_a_job_stays_while_the_server_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(reader, "OVER_SECONDS", 0.1)
    monkeypatch.setattr(reader, "KEPT_SECONDS", 0.0)  # of jobs that no page asks for
    await world.failed_job()
    async with (
        dashboard(world.transport, world.space) as (browser, _),
        browser.stream(f"{world.path('bert')}/stream") as events,
    ):
        before = await events.until("job", lambda job: job.connection.state == "live")
        assert (len(before.pods), before.unread) == (1, [])
        world.transport.lost = True
        lost = await events.until("job", lambda job: bool(job.unread))
        assert (lost.pods, lost.timeline, lost.attempts) == (before.pods, before.timeline, before.attempts)
        (unread,) = lost.unread
        assert unread.part == "job"
        assert re.fullmatch(
            r".*connection refused; pods, events and reasons are as of \d\d:\d\d:\d\d UTC", unread.message
        )
        world.transport.lost = False
        await events.until("job", lambda job: not job.unread)
        # A right that is withdrawn takes with it what it gave.
        world.transport.forbidden = {"bert"}
        bare = await events.until("job", lambda job: bool(job.unread))
        assert (bare.row.state, bare.pods, bare.timeline) == ("Failed", [], [])


async def test_a_page_that_is_closed_ends_its_reads_of_a_server_that_hangs(world: World) -> None:
    await world.create("bert")
    async with dashboard(world.transport, world.space) as (browser, site):
        await site.watched.informer.wait_synced()
        async with browser.stream(f"{world.path('bert')}/stream") as events:
            await events.next("job")
            world.transport.answers.clear()
            before = len(world.transport.asked)
            await world.report("bert", progressPercentage=1)
            await eventually(lambda: len(world.transport.asked) > before)
        await eventually(lambda: site.watched.streams == 0)
        # Another page is not kept waiting by a read that nobody wants any more.
        world.transport.answers.set()

        async def job() -> contract.Job:
            return (await browser.get(world.path("bert"))).as_(contract.Job)

        assert (await job()).unread == []
        await eventually(job, lambda found: found.row.percentage == 1)
    assert not [task for task in asyncio.all_tasks() if "_Told._read" in repr(task)]
