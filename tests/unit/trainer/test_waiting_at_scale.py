# SPDX-License-Identifier: Apache-2.0
"""The condition `Waiting` of hundreds of jobs, on a clock that jumps: it goes at once, and reads keep their budget."""

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tests.builders import counts, jobset, train_job
from trainwright.api.base import Resource
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import Key, wire
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import NO_SERVERS, Backoff, Done, KubernetesError, Manager, ProcessSettings, Result
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.errors import TransportError
from trainwright.controller.runtime.testing.clock import JumpingLoop, jumping, settle
from trainwright.controller.runtime.testing.scripted import LiveStream, ScriptedTransport, frame, is_list, listing
from trainwright.controller.runtime.testing.scripted import status_body as failure
from trainwright.controller.trainer.job.pods import declare_pods
from trainwright.controller.trainer.job.records import JobFindings, JobRecords
from trainwright.controller.trainer.job.status import status_patch, wanted_status
from trainwright.controller.trainer.why import Explanation, waiting
from trainwright.controller.trainer.why.reader import Reader
from trainwright.plugins.contract import JobState
from trainwright.plugins.contract.picture import Cause, Severity

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
FOREVER = float("inf")
SILENT_WATCHES = 20
"""Each is given up after two and a half minutes."""
MANY = 500


class World(ScriptedTransport):
    """TrainJobs with their JobSets. Each job is read in a moment, and waits for a node."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.version = 1000
        self.jobs = {name: self.job(name, "1") for name in names}
        self.streams: dict[str, list[LiveStream]] = {}
        self.removed: dict[str, float] = {}
        """When each job lost the condition."""
        self.read: list[tuple[float, str]] = []
        """When a read of which job began."""
        self.reading = 0
        self.most_at_once = 0
        self.answer_of: Callable[[str], Any] = lambda _: None
        """What the read of a job waits for."""
        self.conflicts = 0
        for resource, items in (
            (TrainJob.RESOURCE, list(self.jobs.values())),
            (JobSet.RESOURCE, [self.jobset(name, "1") for name in names]),
            (Pod.RESOURCE, []),
        ):
            self._hold(resource, items)

    def _hold(self, resource: Resource, items: list[dict[str, Any]]) -> None:
        group = f"/apis/{resource.group}" if resource.group else "/api"
        path = f"{group}/{resource.version}/{resource.plural}"
        self.answer(lambda r: r.path == path and is_list(r), listing("10", *items), times=FOREVER)
        self.streams[resource.plural] = [
            self.stream(lambda r: r.path == path and "watch" in r.query) for _ in range(SILENT_WATCHES)
        ]

    def show(self, resource: Resource, kind: str, document: dict[str, Any]) -> None:
        """The watch shows a change."""
        live = [one for one in self.streams[resource.plural] if one.opened.is_set() and not one.closed.is_set()]
        live[0].send(frame(kind, document))

    def next_version(self) -> str:
        self.version += 1
        return str(self.version)

    def job(self, name: str, version: str) -> dict[str, Any]:
        return wire(train_job(name, uid=f"uid-{name}", version=version))

    def jobset(self, name: str, version: str, ready: int = 0) -> dict[str, Any]:
        node, counted = {"name": "node", "replicas": 1, "template": {}}, [counts(active=1, ready=ready)]
        return wire(jobset(node, name=name, uid=f"set-{name}", version=version, owner=self.jobs[name], counted=counted))

    def trains(self, name: str, ready: int = 1) -> None:
        """The pods of the job become ready, or are not any more."""
        self.show(JobSet.RESOURCE, "MODIFIED", self.jobset(name, self.next_version(), ready))

    def appears(self, name: str) -> None:
        """A job is created, and its JobSet."""
        self.jobs[name] = self.job(name, self.next_version())
        self.show(TrainJob.RESOURCE, "ADDED", self.jobs[name])
        self.show(JobSet.RESOURCE, "ADDED", self.jobset(name, self.next_version()))

    def changed_by_others(self, name: str) -> None:
        """The job has a new version, which the watch shows in a tenth of a second."""
        job = self.jobs[name]
        self.jobs[name] = job = {**job, "metadata": {**job["metadata"], "resourceVersion": self.next_version()}}
        asyncio.get_running_loop().call_later(0.1, self.show, TrainJob.RESOURCE, "MODIFIED", job)

    def waits(self, name: str) -> str:
        """The reason of the condition; empty without one."""
        conditions = (self.jobs[name].get("status") or {}).get("conditions") or ()
        return next((one["reason"] for one in conditions if one["type"] == "Waiting"), "")

    async def send(self, request: Request) -> Response:
        if request.method != "PATCH":
            return await super().send(request)
        name = request.path.split("/")[-2]
        patch, job = msgspec.json.decode(request.body or b""), self.jobs[name]
        await asyncio.sleep(0.005)
        if patch["metadata"]["resourceVersion"] != job["metadata"]["resourceVersion"]:
            self.conflicts += 1
            return Response(409, {}, msgspec.json.encode(failure(409, "Conflict", "no")))
        if self.waits(name) and not (patch["status"] or {}).get("conditions"):
            self.removed[name] = asyncio.get_running_loop().time()
        metadata = {**job["metadata"], "resourceVersion": self.next_version()}
        self.jobs[name] = job = {**job, "metadata": metadata, "status": patch["status"] or {}}
        self.show(TrainJob.RESOURCE, "MODIFIED", job)
        return Response(200, {}, msgspec.json.encode(job))

    async def explain(self, namespace: str, name: str) -> Explanation:
        """Instead of `Reader.explain`."""
        self.read.append((asyncio.get_running_loop().time(), name))
        self.reading += 1
        self.most_at_once = max(self.most_at_once, self.reading)
        try:
            await asyncio.sleep(0.2)
            if (pending := self.answer_of(name)) is not None:
                await pending
        finally:
            self.reading -= 1
        cause = Cause(reason="NoFreeNode", message="m", severity=Severity.TEMPORARY)
        return Explanation(namespace=namespace, name=name, outcome=JobState.WAITING, cause=cause)


@asynccontextmanager
async def running(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(Reader, "explain", lambda _, namespace, name: world.explain(namespace, name))
    loop = asyncio.get_running_loop()
    manager = Manager(
        ClusterConfig(server="http://script"),
        transport=world,
        servers=NO_SERVERS,
        process=ProcessSettings(streaming_lists=False),
    )
    declare_pods(manager.cache)
    records = JobRecords()
    records.watch(manager.cache)
    findings = JobFindings(records)

    def now() -> dt.datetime:
        return START + dt.timedelta(seconds=loop.time())

    async def write(key: Key) -> Result:
        """In place of the TrainJob's controller, which would make the JobSets too."""
        job = manager.cache.get(TrainJob, key.name, key.namespace)
        if job is None:
            return Done()
        wanted = wanted_status(job, None, None, settled=False, findings=findings.of(job), now=now)
        if (patch := status_patch(job, wanted)) is None:
            return Done()
        try:
            await manager.client.patch(TrainJob, key.name, key.namespace, patch, type="merge", subresource="status")
        except KubernetesError as error:
            return Backoff("not written", error=error)
        return Done()

    waiting.WaitingConditions(manager, JobSet, (), records, findings, now=now)
    manager.controller("writer").for_(TrainJob).source(findings.changed).reconcile(write, workers=16)
    task = asyncio.ensure_future(manager.run())
    await settle()
    try:
        yield world
    finally:
        manager.stop()
        await task


def names(count: int) -> list[str]:
    return [f"j{n}" for n in range(count)]


def since(world: World, moment: float) -> list[str]:
    return [name for when, name in world.read if when >= moment]


@jumping
async def test_a_job_that_trains_loses_it_at_once_however_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(World(names(MANY)), monkeypatch) as world:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(10 + MANY / (waiting.RATE * 3 / 4) + 5)  # a quarter of the turns is for reading again
        assert all(world.waits(name) for name in names(MANY))
        # All of them are to be read again, for minutes, and one begins to train in the midst of it.
        await asyncio.sleep(40)
        moments = {}
        for name in ("j7", "j250", "j499"):
            moments[name] = loop.time()
            world.trains(name)
            await asyncio.sleep(1)
        assert {name: round(when - moments[name], 2) <= 0.1 for name, when in world.removed.items()} == dict.fromkeys(
            moments, True
        )
        # Then all the others at once.
        moment = loop.time()
        for name in names(MANY):
            if name not in moments:
                world.trains(name)
        await asyncio.sleep(5)
        assert not any(world.waits(name) for name in names(MANY))
        assert since(world, moment + 2) == []


@jumping
async def test_reads_keep_their_budget_and_every_job_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(World(names(MANY)), monkeypatch) as world:
        await asyncio.sleep(600)
        times = [when for when, _ in world.read]
        for index, when in enumerate(times):
            within = sum(1 for other in times[index : index + 10] if other < when + 1)
            assert within <= waiting.RATE + 1
        assert len(times) >= 0.95 * waiting.RATE * 590
        assert {sum(1 for _, name in world.read if name == one) for one in names(MANY)} <= {3, 4, 5}


@jumping
async def test_reads_give_way_where_the_event_loop_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(World(names(MANY)), monkeypatch) as world:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        await asyncio.sleep(60)
        begun = loop.time()
        while loop.time() < begun + 60:
            loop.spend(0.1)
            await asyncio.sleep(0.001)
        assert 20 <= len(since(world, begun)) <= waiting.RATE * 60 / 2
        calm = loop.time()
        await asyncio.sleep(60)
        assert len(since(world, calm + 5)) >= 0.95 * waiting.RATE * 55


@jumping
async def test_a_stop_does_not_wait_for_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    async with running(World(names(MANY)), monkeypatch):
        await asyncio.sleep(20)
        loop.spend(100)
        await settle()
        stopped = loop.time()
    assert loop.time() - stopped < 1


@jumping
async def test_jobs_that_wait_for_long_do_not_hide_why_a_new_one_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(World(names(MANY)), monkeypatch) as world:
        await asyncio.sleep(300)
        world.appears("new")
        await asyncio.sleep(11.5)
        assert world.waits("new") == "NoFreeNode"


@jumping
async def test_many_new_jobs_do_not_end_the_reads_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(World(["old"]), monkeypatch) as world:
        await asyncio.sleep(20)
        begun = asyncio.get_running_loop().time()
        for n in range(MANY):
            world.appears(f"new{n}")
        await asyncio.sleep(60)
        assert since(world, begun).count("old") >= 1


@jumping
async def test_a_read_that_hangs_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(names(20))
    hung = {"j0", "j1", "j2"}
    world.answer_of = lambda name: asyncio.Event().wait() if name in hung else None
    async with running(world, monkeypatch):
        await asyncio.sleep(20)
        assert {name for name in names(20) if not world.waits(name)} == hung
        assert world.most_at_once <= waiting.AT_ONCE
        # A job trains while its read hangs.
        world.trains("j1")
        hung.clear()
        await asyncio.sleep(waiting.READ_SECONDS + waiting.AGAIN_SECONDS + 10)
        assert [world.waits(name) for name in ("j0", "j1", "j2")] == ["NoFreeNode", "", "NoFreeNode"]


@jumping
async def test_what_is_read_while_the_pods_become_ready_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(World(["j"]), monkeypatch) as world:
        await asyncio.sleep(10.1)
        assert world.reading == 1
        world.trains("j")
        await asyncio.sleep(60)
        assert world.waits("j") == ""
        assert len(world.read) == 1


@jumping
async def test_what_changes_during_a_read_is_read_ten_seconds_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(World(["j"]), monkeypatch) as world:
        await asyncio.sleep(10.1)
        assert world.reading == 1
        world.trains("j", ready=0)
        await asyncio.sleep(35)
        # The first change, a change during the first read, and the pause without any change.
        assert [round(when) for when, _ in world.read] == [10, 20]
        await asyncio.sleep(10)
        assert [round(when) for when, _ in world.read] == [10, 20, 50]


@jumping
async def test_a_conflict_does_not_lose_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(World(["j"]), monkeypatch) as world:
        await asyncio.sleep(10.15)
        world.changed_by_others("j")
        await asyncio.sleep(2)
        assert world.conflicts > 0
        assert (world.waits("j"), len(world.read)) == ("NoFreeNode", 1)


@pytest.mark.parametrize("error", [TransportError("away"), RuntimeError("a defect")])
def test_a_read_that_fails_is_made_again(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    @jumping
    async def fails_once() -> None:
        world = World(["j"])

        async def fail() -> None:
            world.answer_of = lambda _: None
            raise error

        world.answer_of = lambda _: fail()
        async with running(world, monkeypatch):
            await asyncio.sleep(15)
            assert world.waits("j") == ""
            await asyncio.sleep(waiting.AGAIN_SECONDS + 1)
            assert world.waits("j") == "NoFreeNode"

    fails_once()
