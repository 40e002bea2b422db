# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: ARG002 - hooks have the parameters of the contract
"""When the TrainJob controller writes and looks again, on a clock that jumps and against a script of an API server."""

import asyncio
import datetime as dt
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from trainwright.api.base import Resource
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.times import Now, format_time
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, TrainingRuntime, TrainJob
from trainwright.controller.runtime import NO_SERVERS, Cache, Manager, ProcessSettings
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.testing.clock import jumping, settle
from trainwright.controller.runtime.testing.objects import build
from trainwright.controller.runtime.testing.scripted import LiveStream, ScriptedTransport, frame, is_list, listing
from trainwright.controller.runtime.testing.scripted import status_body as failure
from trainwright.controller.trainer.build.kinds import CachedFacts, WatchedKinds
from trainwright.controller.trainer.build.runtimes import Snapshots
from trainwright.controller.trainer.controller import TrainJobController
from trainwright.controller.trainer.job.events import JobEvents
from trainwright.controller.trainer.job.obstacles import Defects
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.plugins.contract import Info
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, Selection

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
FOREVER = float("inf")
SILENT_WATCHES = 5
"""Each is given up after two and a half minutes."""
OWNER = build(TrainJob.RESOURCE, "job", version="1")
RUNTIME = build(
    ClusterTrainingRuntime.RESOURCE,
    "runtime",
    version="1",
    spec={
        "mlPolicy": {"numNodes": 1},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {"spec": {"template": {"spec": {"containers": [{"name": "node", "image": "i"}]}}}},
                    }
                ]
            }
        },
    },
)
SNAPSHOT = build(
    ConfigMap.RESOURCE,
    "job-runtime-snapshot",
    version="1",
    owner=OWNER,
    data={"runtime": msgspec.json.encode(RUNTIME).decode()},
)


class Script(ScriptedTransport):
    """Streams are kept by path, and a status that is patched is answered as merged into the job."""

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__()
        self.job = job
        self.streams: dict[str, LiveStream] = {}
        self.manager: Manager | None = None
        self.refuses = False
        """Whether no status is taken."""
        self.gone = False
        """Whether the job is gone."""
        self.patches: list[tuple[float, dict[str, Any]]] = []
        """When each status was written, and with what."""
        self.events: list[tuple[float, str]] = []
        """When each event was recorded, and its note."""
        self.snapshots: list[tuple[float, str]] = []
        """When each snapshot was taken, and the image in it."""

    def holds(self, resource: Resource, *items: dict[str, Any]) -> None:
        """A list of the kind, and a watch that stays open."""
        group = f"/apis/{resource.group}" if resource.group else "/api"
        path = f"{group}/{resource.version}/{resource.plural}"
        self.answer(lambda r: r.path == path and is_list(r), listing("10", *items), times=FOREVER)
        self.streams[resource.plural], *_ = [
            self.stream(lambda r: r.path == path and "watch" in r.query) for _ in range(SILENT_WATCHES)
        ]

    async def send(self, request: Request) -> Response:
        if request.path.endswith("/trainjobs/job/status"):
            patch = msgspec.json.decode(request.body or b"")
            self.patches.append((round(asyncio.get_running_loop().time(), 3), patch["status"]))
            if self.refuses:
                return Response(500, {}, msgspec.json.encode(failure(500, "InternalError", "no")))
            if self.gone:
                return Response(404, {}, msgspec.json.encode(failure(404, "NotFound", "no")))
            # Later than the lists.
            metadata = {**self.job["metadata"], "resourceVersion": str(1000 + len(self.patches))}
            self.job = {**self.job, "metadata": metadata, "status": {**self.job.get("status", {}), **patch["status"]}}
            return Response(200, {}, msgspec.json.encode(self.job))
        if request.method == "POST" and request.path.endswith("/configmaps"):
            made = msgspec.json.decode(request.body or b"")
            (image,) = re.findall(r"image: (\S+)", made["data"]["runtime"])
            self.snapshots.append((round(asyncio.get_running_loop().time(), 3), image))
            made["metadata"] |= {"uid": "next", "resourceVersion": "2000"}
            return Response(201, {}, msgspec.json.encode(made))
        if request.method == "POST" and request.path.endswith("/events"):
            note = msgspec.json.decode(request.body or b"")["message"]
            self.events.append((asyncio.get_running_loop().time(), note))
        return await super().send(request)

    def jobset(self, version: int, *, active: int = 0, ready: int = 0, **condition: str) -> None:
        """The JobSet controller writes a status."""
        counts = {"name": "node", "active": active, "ready": ready, "succeeded": 0, "failed": 0, "suspended": 0}
        status: dict[str, Any] = {"replicatedJobsStatus": [counts], "restarts": 0}
        if condition:
            status["conditions"] = [
                {"lastTransitionTime": format_time(START), "reason": "R", "message": "m", **condition}
            ]
        self.streams["jobsets"].send(frame("MODIFIED", jobset(str(version), status=status)))


def jobset(version: str, **more: Any) -> dict[str, Any]:
    return build(JobSet.RESOURCE, "job", version=version, owner=OWNER, spec={"replicatedJobs": []}, **more)


def train_job(**spec: Any) -> dict[str, Any]:
    about = {"creationTimestamp": format_time(START), "generation": 1}
    return build(
        TrainJob.RESOURCE, "job", version="1", metadata=about, spec={"runtimeRef": {"name": "runtime"}, **spec}
    )


@asynccontextmanager
async def running(
    script: "Script",
    *jobsets: dict[str, Any],
    created_condition: bool = False,
    broken: Any = None,
    now: Now | None = None,
) -> AsyncIterator["Script"]:
    """The controller, with one job that has its snapshot. `broken`: one more plugin. `now`: the wall clock."""
    registry = Registry.load(Selection.of(None))
    if broken is not None:
        registry = Registry.of(*(entry.plugin for entry in registry), broken)
    watches = registry.watches()
    kinds = WatchedKinds(watches, absent=frozenset(watch.resource for watch in watches if watch.optional))
    script.holds(TrainJob.RESOURCE, script.job)
    script.holds(TrainingRuntime.RESOURCE)
    script.holds(ClusterTrainingRuntime.RESOURCE, RUNTIME)
    script.holds(JobSet.RESOURCE, *jobsets)
    script.holds(ConfigMap.RESOURCE, SNAPSHOT)
    script.holds(Resource(group="", version="v1", kind="Secret", plural="secrets", namespaced=True))
    script.answer(lambda r: r.path.endswith("/configmaps/job-runtime-snapshot"), SNAPSHOT, times=FOREVER)
    script.answer(lambda r: r.path.endswith("/events"), {}, status=201, times=FOREVER)
    loop = asyncio.get_running_loop()
    config = ClusterConfig(server="http://script")
    script.manager = manager = Manager(
        config,
        transport=script,
        field_manager="trainer",
        servers=NO_SERVERS,
        process=ProcessSettings(streaming_lists=False),
    )
    cache: Cache = manager.cache
    records = JobRecords()
    records.watch(cache)
    TrainJobController(
        manager,
        Pipeline(registry),
        CachedFacts(manager.client, cache, kinds),
        Snapshots(manager.client, cache),
        JobEvents(manager, Defects(manager.metrics.registry)),
        records,
        created_condition=created_condition,
        now=now or (lambda: START + dt.timedelta(seconds=loop.time())),
    )
    task = asyncio.ensure_future(manager.run())
    await settle()
    try:
        yield script
    finally:
        manager.stop()
        await task


def counts(status: dict[str, Any]) -> tuple[int, int]:
    (entry,) = status["jobsStatus"]
    return entry["active"], entry["ready"]


@jumping
async def test_counters_wait_for_company() -> None:
    async with running(Script(train_job()), jobset("1")) as script:
        await asyncio.sleep(10)
        script.jobset(2, active=1)
        await asyncio.sleep(0.1)
        script.jobset(3, active=2)
        await asyncio.sleep(0.1)
        script.jobset(4, active=2, ready=1)
        await asyncio.sleep(10)
        assert [(when, counts(status)) for when, status in script.patches] == [(11.7, (2, 1))]
        script.jobset(5, active=2, ready=2)
        await asyncio.sleep(10)
        assert [(when, counts(status)) for when, status in script.patches[1:]] == [(21.9, (2, 2))]
        assert all(status.keys() == {"jobsStatus"} for _, status in script.patches)


@jumping
async def test_a_deleted_snapshot_is_taken_at_once_and_written_after_a_second() -> None:
    """A runtime that changes meanwhile does not slip in, whatever brings the key within the second."""
    script = Script(train_job())
    one = "/namespaces/default/trainjobs"
    script.answer(lambda r: r.path.endswith(one), listing("10", script.job), times=FOREVER)
    for image in ("i", "other"):
        text = msgspec.json.encode(RUNTIME).replace(b'"image":"i"', f'"image":"{image}"'.encode())
        script.answer(lambda r: r.path.endswith("/clustertrainingruntimes/runtime"), text)
    async with running(script, jobset("1")):
        await asyncio.sleep(10)
        script.streams["configmaps"].send(frame("DELETED", SNAPSHOT))
        await asyncio.sleep(0.3)
        changed = {
            **train_job(),
            "metadata": {**train_job()["metadata"], "resourceVersion": "20", "labels": {"a": "b"}},
        }
        script.streams["trainjobs"].send(frame("MODIFIED", changed))
        await asyncio.sleep(0.6)
        assert script.snapshots == []
        await asyncio.sleep(10)
        assert script.snapshots == [(11.0, "i")]


@jumping
async def test_counters_that_are_as_before_again_are_not_written() -> None:
    async with running(Script(train_job()), jobset("1")) as script:
        script.jobset(2, active=1)
        await asyncio.sleep(10)
        script.jobset(3, active=2)
        await asyncio.sleep(0.2)
        script.jobset(4, active=1)
        await asyncio.sleep(10)
        assert len(script.patches) == 1
        script.jobset(5, active=3)
        await asyncio.sleep(10)
        assert [(when, counts(status)) for when, status in script.patches[1:]] == [(21.9, (3, 0))]


@jumping
async def test_a_condition_is_written_at_once_and_takes_the_counters_along() -> None:
    async with running(Script(train_job()), jobset("1")) as script:
        await asyncio.sleep(10)
        script.jobset(2, active=1)
        await asyncio.sleep(0.1)
        script.jobset(3, type="Completed", status="True")
        await asyncio.sleep(10)
        ((when, status),) = script.patches
        assert when == 10.1
        assert counts(status) == (0, 0)
        assert [condition["type"] for condition in status["conditions"]] == ["Complete"]


@jumping
async def test_what_waited_when_the_process_ended_is_written_by_the_next() -> None:
    counted = {"name": "node", "active": 1, "ready": 0, "succeeded": 0, "failed": 0, "suspended": 0}
    async with running(
        Script(train_job()), jobset("1", status={"replicatedJobsStatus": [counted], "restarts": 0})
    ) as script:
        await asyncio.sleep(0.1)
        assert script.patches == []
    async with running(
        Script(train_job()), jobset("1", status={"replicatedJobsStatus": [counted], "restarts": 0})
    ) as script:
        await asyncio.sleep(10)
        assert [counts(status) for _, status in script.patches] == [(1, 0)]


@jumping
async def test_counters_that_are_not_taken_are_tried_less_and_less_often() -> None:
    script = Script(train_job())
    async with running(script, jobset("1")):
        await asyncio.sleep(10)
        script.refuses = True
        script.jobset(2, active=1)
        await asyncio.sleep(120)  # less than after which a silent watch is given up
        tries = [when for when, _ in script.patches]
        assert tries[0] == 11.7
        # The delay doubles each time, from 5 ms on: nothing in between begins it anew.
        assert len(tries) < 20
        assert tries[-1] - tries[-2] > 40
        script.refuses = False
        script.jobset(3, active=2)
        await asyncio.sleep(60)
        assert [counts(status) for _, status in script.patches[len(tries) :]] == [(2, 0)]
        script.jobset(4, active=3)
        await asyncio.sleep(10)
        assert counts(script.patches[-1][1]) == (3, 0)
        assert len(script.patches) == len(tries) + 2


def refuse(script: Script, code: int, reason: str, *, until: float = FOREVER) -> list[float]:
    """Refuse JobSets, up to a moment; the list grows with the times of the attempts."""
    times: list[float] = []

    def attempt(request: Request) -> bool:
        matches = request.method == "PATCH" and request.path.endswith("/jobsets/job")
        matches = matches and asyncio.get_running_loop().time() < until
        if matches:
            times.append(asyncio.get_running_loop().time())
        return matches

    script.answer(attempt, failure(code, reason, "exceeded quota"), status=code, times=FOREVER)
    script.answer(
        lambda r: r.method == "GET" and r.path.endswith("/jobsets/job"),
        failure(404, "NotFound"),
        status=404,
        times=FOREVER,
    )
    return times


def times_of(script: Script) -> list[float]:
    """When JobSets were accepted; what `refuse` refuses goes first."""
    times: list[float] = []

    def accept(request: Request) -> bool:
        matches = request.method == "PATCH" and request.path.endswith("/jobsets/job")
        if matches:
            times.append(asyncio.get_running_loop().time())
        return matches

    script.answer(accept, jobset("5"), status=201, times=FOREVER)
    return times


def found(status: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(c["type"], c["status"], c["reason"]) for c in status["conditions"]]


BLOCKED = ("Blocked", "True", "ApplyRefused")
EXCEEDED = ("Failed", "True", "DeadlineExceeded")


@jumping
async def test_a_deadline_is_noticed_in_time_however_long_the_job_has_been_refused() -> None:
    script = Script(train_job(activeDeadlineSeconds=300))
    refuse(script, 403, "Forbidden")
    async with running(script):
        await asyncio.sleep(400)
    assert [(when, found(status)) for when, status in script.patches] == [(5, [BLOCKED]), (300, [EXCEEDED])]


@jumping
async def test_a_deadline_is_noticed_in_time_when_nothing_is_to_be_shown() -> None:
    script = Script(train_job(activeDeadlineSeconds=300))
    refuse(script, 409, "Conflict")
    async with running(script):
        await asyncio.sleep(400)
    assert [(when, found(status)) for when, status in script.patches] == [(300, [EXCEEDED])]


@jumping
async def test_a_refusal_is_shown_after_five_seconds_and_tried_again_each_minute() -> None:
    script = Script(train_job())
    times = refuse(script, 403, "Forbidden")
    async with running(script):
        await asyncio.sleep(400)
    assert [(when, found(status)) for when, status in script.patches] == [(5, [BLOCKED])]
    assert times[1] < 0.01
    assert times[-1] - times[-2] == 60


@jumping
async def test_a_cause_that_goes_within_five_seconds_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    script = Script(train_job())
    times = refuse(script, 403, "Forbidden", until=4)
    accepted = times_of(script)
    async with running(script):
        await asyncio.sleep(60)
    assert times
    assert 4 <= accepted[0] <= 5
    assert script.patches == []
    assert script.events == []
    assert [record for record in caplog.records if "exceeded quota" in record.getMessage()] == []


@jumping
async def test_a_cause_that_lasts_is_reported_once_with_the_condition() -> None:
    script = Script(train_job())
    refuse(script, 403, "Forbidden")
    async with running(script):
        await asyncio.sleep(300)
    ((when, note),) = script.events
    assert when >= 5
    assert "exceeded quota" in note


class Broken:
    """A plugin with a defect."""

    name = "Broken"

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        raise KeyError("gone")


@jumping
async def test_a_defect_of_a_plugin_is_counted_and_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async with running(Script(train_job()), jobset("1"), broken=Broken()) as script:
        await asyncio.sleep(300)
    assert [found(status) for _, status in script.patches] == [[("Blocked", "True", "BuildFailed")]]
    assert script.manager is not None
    counted = {
        during: script.manager.metrics.registry.get_sample_value("trainer_trainjob_defects_total", {"during": during})
        for during in ("reconcile", "admission")
    }
    assert counted == {"reconcile": 1, "admission": 0}
    (record,) = [record for record in caplog.records if "enforce_ml_policy failed" in record.getMessage()]
    assert record.exc_info is not None


@jumping
async def test_a_webhook_that_does_not_answer_is_shown() -> None:
    script = Script(train_job())
    refuse(script, 500, "InternalError")
    async with running(script):
        await asyncio.sleep(60)
    assert [found(status) for _, status in script.patches] == [[BLOCKED]]


@jumping
async def test_created_is_written_only_where_it_is_wanted() -> None:
    async with running(Script(train_job()), jobset("1")) as script:
        await asyncio.sleep(10)
        assert script.patches == []
    async with running(Script(train_job()), jobset("1"), created_condition=True) as script:
        await asyncio.sleep(10)
        assert [(when, found(status)) for when, status in script.patches] == [
            (10, [("Created", "True", "JobsCreationSucceeded")])
        ]
    script = Script(train_job())
    refuse(script, 403, "Forbidden")
    async with running(script, created_condition=True):
        await asyncio.sleep(10)
    assert [found(status) for _, status in script.patches] == [[BLOCKED]]


class WallClock:
    """Goes with the loop, and is set by hand."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> dt.datetime:
        return START + dt.timedelta(seconds=asyncio.get_running_loop().time() + self.ahead)


@jumping
@pytest.mark.parametrize(
    ("jumps", "fires"),
    [
        # Two replicas' clocks are set in turn: each sees the time that the other has left behind.
        ([(30, 2.0), (40, -4.3), (50, 4.3)], (58, 60)),
        ([(30, -1800.0), (100, 3600.0)], (100, 160)),
        ([(30, 3600.0)], (30, 91)),
        ([(30, -180.0)], (240, 241)),
        ([(30, -7200.0), (200, 5400.0), (300, 3600.0)], (300, 360)),
    ],
)
async def test_a_deadline_is_noticed_although_the_wall_clock_jumps(
    jumps: list[tuple[float, float]], fires: tuple[float, float]
) -> None:
    clock, loop = WallClock(), asyncio.get_running_loop()
    script = Script(train_job(activeDeadlineSeconds=60))
    script.answer(lambda r: r.method == "DELETE" and r.path.endswith("/jobsets/job"), {}, times=FOREVER)
    async with running(script, jobset("1"), now=clock):
        for when, seconds in jumps:
            await asyncio.sleep(when - loop.time())
            clock.ahead += seconds
        await asyncio.sleep(fires[1] + 120 - loop.time())
    ((when, status),) = script.patches
    assert found(status) == [EXCEEDED]
    assert fires[0] <= when <= fires[1]


def writes_of(script: Script, path: str) -> list[float]:
    """When objects of this path were created or applied; the creations of a job that is gone succeed."""
    times: list[float] = []

    def accept(request: Request) -> bool:
        matches = request.method in {"POST", "PATCH"} and path in request.path and "/status" not in request.path
        if matches:
            times.append(asyncio.get_running_loop().time())
        return matches

    script.answer(accept, jobset("2000"), status=201, times=FOREVER)
    return times


@jumping
@pytest.mark.parametrize("first", ["configmaps", "jobsets"])
async def test_objects_of_a_deleted_job_are_not_made_again_and_again(first: str) -> None:
    # A job is labelled and deleted in one moment, while it is built: the watch shows the label, and the deletion late.
    script = Script(train_job())
    script.answer(lambda r: r.query.get("fieldSelector") == "metadata.name=job", listing("20"), times=FOREVER)
    script.answer(lambda r: r.path.endswith("/clustertrainingruntimes/runtime"), RUNTIME, times=FOREVER)
    async with running(script, jobset("1")):
        snapshots, jobsets = writes_of(script, "/configmaps"), writes_of(script, "/jobsets")
        await asyncio.sleep(1)
        labelled = {**script.job, "metadata": {**script.job["metadata"], "resourceVersion": "11", "labels": {"l": "1"}}}
        script.streams["trainjobs"].send(frame("MODIFIED", labelled))
        gone = {"configmaps": SNAPSHOT, "jobsets": jobset("1")}
        for version in range(12, 60, 2):
            # The garbage collector deletes them as often as they are made.
            for plural in sorted(gone, key=lambda plural: plural != first):
                metadata = {**gone[plural]["metadata"], "resourceVersion": str(version)}
                script.streams[plural].send(frame("DELETED", {**gone[plural], "metadata": metadata}))
            await asyncio.sleep(1)
        assert (snapshots, jobsets) == ([], [])
        last = {**labelled, "metadata": {**labelled["metadata"], "resourceVersion": "100"}}
        script.streams["trainjobs"].send(frame("DELETED", last))
        await asyncio.sleep(300)
        assert (snapshots, jobsets) == ([], [])


@jumping
async def test_a_status_of_a_job_that_is_gone_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    script = Script(train_job())
    async with running(script, jobset("1")):
        script.gone = True
        script.jobset(2, type="Completed", status="True")
        await asyncio.sleep(20)
    assert script.patches
    assert [record.getMessage() for record in caplog.records if record.levelname in {"WARNING", "ERROR"}] == []
