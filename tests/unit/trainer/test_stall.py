# SPDX-License-Identifier: Apache-2.0
"""The condition `Stalled`, for each state of a job and each source of its time (progress P-91)."""

from collections.abc import Callable, Collection, Hashable
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, cast

import msgspec
import pytest

from tests import builders
from tests.builders import RUNNING, condition
from tests.virtual_trainer import SPACE, VirtualTrainer
from trainwright.api.conditions import find
from trainwright.api.config.v1alpha1 import Progress
from trainwright.api.objects import Key
from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainingRuntime, TrainJob
from trainwright.controller.runtime import Done, Manager, NotSynced, RetryAfter
from trainwright.controller.runtime.errors import TransportError
from trainwright.controller.trainer.job.events import JobEvents
from trainwright.controller.trainer.job.findings import JobFindings, with_finding
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.controller.trainer.job.stall import StalledAttempt
from trainwright.controller.trainer.progress.report import Allowance, JobReports, checked
from trainwright.controller.trainer.progress.stall import StallController

ANNOTATION = "trainwright.dev/progress-stall-after"
T = "2026-01-01T00:00:00Z"
DAY = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of day when the clock says 0."""
BEGIN = 100_000.0
"""The clock when a manager looks first: it counts since the machine was started, not since the manager was."""


STATES: dict[str, dict[str, Any]] = {
    "running": {},
    "pending": {"jobsStatus": []},
    "not ready": {"jobsStatus": [{**RUNNING, "ready": 0}]},
    "initializing": {"jobsStatus": [{**RUNNING, "name": "dataset-initializer"}, {**RUNNING, "ready": 0}]},
    "pods ended": {"jobsStatus": [{**RUNNING, "active": 0, "ready": 0, "succeeded": 1}]},
    "suspended": {"conditions": [condition("Suspended")]},
    "blocked": {"conditions": [condition("Blocked")]},
    "complete": {"conditions": [condition("Complete")]},
    "failed": {"conditions": [condition("Failed")]},
    "another manager's": {"managedBy": "kueue.x-k8s.io/multikueue"},
    "being deleted": {"deletionTimestamp": T},
}
"""What differs from a job whose pods are ready."""


class World:
    """One job, and what a manager has."""

    def __init__(self, default: float | None, runtime: dict[str, str] | None = None, *, is_alone: bool = False) -> None:
        self.now = 0.0
        self.job: TrainJob | None = None
        self.events: list[tuple[str, str]] = []
        self.pods: list[dict[str, Any]] = []
        self.attempt = 0
        self.not_synced = False
        self._runtime = runtime
        self.records = JobRecords()
        self.findings = JobFindings(self.records)
        manager = cast("Manager", self)
        self.stall = StallController(
            manager,
            cast("JobEvents", self),
            self._runtime_of,
            default,
            self.records,
            self.findings,
            pods_of=lambda _: self.pods,
            attempt_of=self._attempt_of,
            is_alone=is_alone,
            now=lambda: DAY + timedelta(seconds=self.now),
            monotonic=lambda: self.now,
        )

    # What StallController uses of a manager, its cache and the builder of its controller.

    @property
    def cache(self) -> "World":
        return self

    def controller(self, _: str) -> "World":
        return self

    def for_(self, _: type) -> "World":
        return self

    def watches(self, *_: Any, **__: Any) -> None:
        """Pods wake it."""

    def reconcile(self, _: Callable[..., Any]) -> None:
        """The test calls it."""

    def get(self, _: type, name: str, namespace: str) -> TrainJob | None:
        assert (name, namespace) == ("j", "n")
        return self.job

    def warn(self, job: TrainJob, event: str, note: str) -> None:
        assert job.name == "j"
        self.events.append((event, note))

    def arrived(
        self, pods: dict[str, float], last: float, *, is_stuck: bool = False, again: Collection[str] = ()
    ) -> None:
        """Reports came to this process."""
        reports = JobReports(Key("n", "j"), "u", Allowance(1, 0.0), Allowance(1, 0.0))
        reports.pods, reports.last_push, reports.last_report, reports.again = pods, last, last, set(again)
        if is_stuck:
            reports.failures = 1
            reports.pending = checked(reports.key, TrainerStatus(last_updated_time=T))
        self.records.of(reports.key, reports.uid).keep(reports)

    def _attempt_of(self, _: TrainJob) -> int:
        if self.not_synced:
            raise NotSynced("jobsets: the first list has not arrived")
        return self.attempt

    async def _runtime_of(self, _: TrainJob) -> TrainingRuntime | None:
        if self._runtime is None:
            return None
        return msgspec.convert({"metadata": {"annotations": self._runtime}}, TrainingRuntime)

    @property
    def finds(self) -> list[tuple[Hashable, str]]:
        """What this process has found, for those that act on it: of which attempt, and the reason."""
        return [(one.attempt, one.stall.reason) for one in self.records.each(StalledAttempt)]

    # What the test does.

    def put(self, state: str = "running", *, annotation: str | None = None, reported: str = "", step: int = 0) -> None:
        change = dict(STATES[state])
        held = (self.job.status.conditions if self.job is not None and self.job.status is not None else None) or []
        kept = [msgspec.to_builtins(one) for one in held if one.type == "Stalled"]
        metadata: dict[str, Any] = {"name": "j", "namespace": "n", "uid": "u", "resourceVersion": "1"}
        metadata["annotations"] = {ANNOTATION: annotation} if annotation is not None else {}
        if deleted := change.pop("deletionTimestamp", None):
            metadata["deletionTimestamp"] = deleted
        spec = {"runtimeRef": {"name": "r"}, "managedBy": change.pop("managedBy", None)}
        status: dict[str, Any] = {"jobsStatus": [RUNNING], **change}
        status["conditions"] = [*status.get("conditions", ()), *kept]
        if reported:
            metrics = [{"name": "current_step", "value": str(step)}]
            status["trainerStatus"] = {"lastUpdatedTime": reported, "metrics": metrics}
        self.job = msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, TrainJob)

    async def look(self, now: float) -> str:
        """Reconcile at a time, and write what is found; the reason of the condition, or nothing."""
        self.now = now
        result = await self.stall.reconcile(Key("n", "j"))
        assert isinstance(result, Done | RetryAfter)
        for finding in self.findings.of(self.job) if self.job is not None else ():
            assert self.job is not None
            assert self.job.status is not None
            time = DAY + timedelta(seconds=now)
            self.job.status.conditions = with_finding(self.job.status.conditions or (), finding, lambda: time)  # noqa: B023
        conditions = self.job.status.conditions if self.job is not None and self.job.status is not None else None
        found = find(conditions, "Stalled")
        assert found is None or found.status == "True"
        return found.reason if found is not None else ""

    async def stalls_after(self, state: str, annotation: str | None, *, limit: float = 1200.0) -> float | None:
        """Seconds of silence after which the condition appears; None: it does not within the limit."""
        self.put(state, annotation=annotation)
        for now in range(0, int(limit) + 1, 60):
            if await self.look(BEGIN + now):
                return float(now)
        return None


ANNOTATIONS: dict[str | None, float | None] = {None: None, "5m": 300.0, "1m": None, "soon": None}
"""What they stand for; None: the next source counts."""
RUNTIMES: list[tuple[dict[str, str] | None, float | None]] = [(None, None), ({}, None), ({ANNOTATION: "10m"}, 600.0)]
CONFIGURATIONS = (None, 900.0)


@pytest.mark.parametrize("state", STATES)
async def test_the_table_of_states_and_sources(state: str) -> None:
    for (annotation, own), (runtime, theirs), default in product(ANNOTATIONS.items(), RUNTIMES, CONFIGURATIONS):
        world = World(default, runtime)
        # Who says how long a job may be silent says that it reports; a Configuration does not know that.
        wanted = (own or theirs) if state == "running" else None
        found = await world.stalls_after(state, annotation)
        assert found == wanted, (state, annotation, runtime, default)
        assert len(world.events) == (found is not None)


@pytest.mark.parametrize("state", sorted(STATES.keys() - {"running", "being deleted"}))
async def test_the_condition_is_removed_when_the_job_leaves_its_pods(state: str) -> None:
    world = World(None)
    assert await world.stalls_after("running", "5m") == 300
    world.put(state)
    assert await world.look(BEGIN + 360) == ("NeverReported" if state == "another manager's" else "")


async def test_silence_counts_from_the_start_of_this_leader_and_ends_with_a_report() -> None:
    """Scenario 70 of progress."""
    world = World(300.0)
    world.put(reported="2020-01-01T00:00:00Z", step=1)
    assert [await world.look(now) for now in (10_000, 10_299)] == ["", ""]
    assert await world.look(10_300) == "NoReport"
    assert await world.look(20_000) == "NoReport"
    world.put(reported=T, step=2)
    assert [await world.look(now) for now in (20_001, 20_300)] == ["", ""]
    assert await world.look(20_301) == "NoReport"
    assert [reason for reason, _ in world.events] == ["Stalled", "Stalled"]


async def test_a_job_without_a_report_is_not_blamed_by_a_leader_that_begins() -> None:
    world = World(None)
    world.put(annotation="5m")
    assert [await world.look(BEGIN + seconds) for seconds in (0, 299)] == ["", ""]
    assert await world.look(BEGIN + 300) == "NeverReported"
    assert [reason for reason, _ in world.events] == ["Stalled"]


async def test_a_manager_that_was_away_during_a_standstill_counts_anew() -> None:
    """Scenario 34: the condition of the manager before goes, and comes again once the time has passed."""
    one = World(300.0)
    one.put(reported=T, step=50)
    assert [await one.look(now) for now in (0, 300)] == ["", "NoReport"]
    assert one.finds
    other = World(300.0)
    other.job = one.job
    assert [await other.look(now) for now in (1000, 1299)] == ["", ""]
    assert not other.finds
    assert await other.look(1300) == "NoReport"
    assert other.finds == [(0, "NoReport")]


async def test_it_looks_again_once_the_cache_has_the_first_lists() -> None:
    world = World(300.0)
    world.put(reported=T, step=50)
    world.not_synced = True
    result = await world.stall.reconcile(Key("n", "j"))
    assert isinstance(result, RetryAfter)
    assert not world.finds


async def test_ranks_that_are_restarted_have_all_the_time_again() -> None:
    """Also if they were restarted so quickly that the job never showed that none ran."""
    world = World(300.0)
    world.put(reported=T, step=50)
    assert [await world.look(now) for now in (0, 299, 300)] == ["", "", "NoReport"]
    world.attempt = 1
    assert [await world.look(now) for now in (302, 601, 602)] == ["", "", "NoReport"]


async def test_a_job_that_never_reports_is_not_blamed_by_a_limit_for_all_jobs() -> None:
    world = World(300.0)
    world.put()
    assert [await world.look(BEGIN + 300 * number) for number in range(9)] == [""] * 9
    world.put(reported=T, step=1)
    assert [await world.look(BEGIN + seconds) for seconds in (3000, 3299, 3300)] == ["", "", "NoReport"]


def pod(rank: int, *, ended: float | None = None, attempt: int = 0) -> dict[str, Any]:
    state = None if ended is None else builders.ended(at=DAY + timedelta(seconds=ended))
    return builders.pod(rank, state, name=f"j-node-0-{rank}-{attempt}", attempt=attempt)


async def test_a_rank_that_ends_while_others_go_on_is_named() -> None:
    world = World(300.0)
    world.pods = [pod(0), pod(1, ended=100)]
    for number in range(6):
        # The other one reports and advances.
        world.put(reported=f"2026-01-01T00:0{number}:00Z", step=number)
        assert await world.look(60.0 * number + 99) == ""
    assert await world.look(400) == "RankEnded"
    text = (
        "rank 1 ended with exit code 0 at 2026-01-01T00:01:40Z, and 1 other runs on; "
        "look at their logs, they may wait for it"
    )
    assert world.events == [("Stalled", text)]
    world.pods = [pod(0, attempt=1), pod(1, attempt=1)]
    assert await world.look(401) == ""


async def test_a_job_that_does_not_go_on_without_the_rank_that_ended_stands_still_itself() -> None:
    """Only then are its ranks restarted, where it asks for that; the rank that ended is named all the same."""
    world = World(300.0)
    world.pods = [pod(0), pod(1, ended=100)]
    world.put(reported=T, step=5)
    assert [await world.look(now) for now in (100, 399, 400)] == ["", "", "NoReport"]
    (_, text), *_ = world.events
    assert text == (
        f"no report of progress for 5 min, the last at {T}; rank 1 ended with exit code 0 at 2026-01-01T00:01:40Z, "
        "and 1 other runs on; look at their logs, they may wait for it"
    )


async def test_the_next_look_is_when_a_rank_has_been_gone_for_so_long() -> None:
    world = World(300.0)
    world.pods = [pod(0), pod(1, ended=100)]
    world.put()
    world.now = 150
    result = await world.stall.reconcile(Key("n", "j"))
    assert isinstance(result, RetryAfter)
    assert result.seconds == 250


async def test_a_rank_that_stops_to_report_while_others_go_on_is_named() -> None:
    world = World(300.0, is_alone=True)
    world.pods = [pod(0), pod(1), pod(2)]
    names = [one["metadata"]["name"] for one in world.pods]

    async def look(now: float, *ranks: float, again: tuple[int, ...] = (0, 1)) -> str:
        world.put(reported=format_time(DAY + timedelta(seconds=now)), step=int(now))
        known = dict(zip(names, ranks, strict=False))
        world.arrived(known, now, again=frozenset(names[one] for one in again))
        return await world.look(now)

    assert await look(100, 100, 100) == ""
    assert await look(399, 399, 100) == ""
    # A rank that has reported once never said that it would again.
    assert await look(400, 400, 100, again=(0,)) == ""
    assert await look(400, 400, 100) == "RankSilent"
    assert await look(430, 425, 100) == "RankSilent"
    text = "rank 1 has sent no report since 2026-01-01T00:01:40Z, and 1 other reports on; look at its log, it may hang"
    assert world.events == [("Stalled", text)]
    assert await look(440, 440, 440) == ""
    # Its pod was made again: the one before it is silent for good.
    world.pods = [pod(0, attempt=1), pod(1, attempt=1), pod(2, attempt=1)]
    assert await look(900, 440, 440) == ""


async def test_of_several_managers_none_knows_which_rank_is_silent() -> None:
    world = World(300.0)
    world.pods = [pod(0), pod(1)]
    names = [one["metadata"]["name"] for one in world.pods]
    world.put(reported=T, step=1)
    await world.look(0)
    world.arrived(dict(zip(names, (400.0, 0.0), strict=True)), 400.0, again=frozenset(names))
    world.put(reported="2026-01-01T00:06:40Z", step=2)
    assert await world.look(400) == ""


async def test_a_rank_that_says_that_it_is_done_is_not_said_to_hang() -> None:
    world = World(300.0)
    world.put(reported=T, step=9)
    assert world.job is not None
    assert world.job.status is not None
    assert world.job.status.trainer_status is not None
    world.job.status.trainer_status.progress_percentage = 100
    assert [await world.look(now) for now in (0, 299, 300)] == ["", "", "NoReport"]
    ((_, note),) = world.events
    assert note.startswith("the rank that reports said more than 5 min ago that it is done, and the job runs on;")
    assert "100" not in note


async def test_silent_pods_are_named_as_far_as_they_are_known() -> None:
    world = World(300.0)
    world.put(reported=T, step=1)
    await world.look(0)
    world.arrived({f"j-node-0-{number}": 1.0 for number in range(7)}, 1.0)
    assert await world.look(301) == "NoReport"
    ((_, note),) = world.events
    names = ", ".join(f"j-node-0-{number}" for number in range(5))
    assert f"the last at {T} from pods {names} and 2 more; look at its logs" in note
    assert len(note) <= 300


async def test_long_names_leave_room_for_the_advice() -> None:
    world = World(300.0)
    world.put(reported=T, step=1)
    await world.look(0)
    world.arrived({f"{'long-name-' * 6}{number}": 1.0 for number in range(64)}, 1.0)
    assert await world.look(301) == "NoReport"
    ((_, note),) = world.events
    assert "and 62 more; look at its logs, it may hang" in note
    assert len(note) <= 300


async def test_while_writes_fail_no_job_is_blamed() -> None:
    world = World(300.0)
    world.put(reported=T, step=1)
    # Reports come, and the API server refuses to store them: the job shows the same for half an hour.
    for now in range(0, 1800, 60):
        world.arrived({"p": now}, now, is_stuck=True)
        assert await world.look(now) == ""
    # They end, and the last one is stored.
    world.arrived({"p": 1740.0}, 1740.0)
    assert await world.look(2030) == ""
    assert await world.look(2040) in {"NoReport", "NoAdvance"}


async def test_a_report_that_is_on_its_way_counts() -> None:
    world = World(300.0)
    world.put(reported=T, step=1)
    await world.look(0)
    world.arrived({}, 200.0)
    assert await world.look(299) == ""


async def test_a_job_without_a_time_is_not_looked_at_again_and_forgotten_when_gone() -> None:
    world = World(None, {})
    world.put()
    assert isinstance(await world.stall.reconcile(Key("n", "j")), Done)
    world.job = None
    assert isinstance(await world.stall.reconcile(Key("n", "j")), Done)
    assert not len(world.records)


async def test_a_job_whose_runtime_cannot_be_read_is_looked_at_again() -> None:
    world = World(None)
    world.put()
    world.now = BEGIN
    assert isinstance(await world.stall.reconcile(Key("n", "j")), RetryAfter)
    world._runtime = {ANNOTATION: "5m"}
    assert [await world.look(BEGIN + seconds) for seconds in (60, 300)] == ["", "NeverReported"]
    world._runtime = None
    world.put("complete")
    world.now = BEGIN + 400
    assert isinstance(await world.stall.reconcile(Key("n", "j")), Done)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "nan", "-inf"])
async def test_a_loss_that_is_not_finite_is_one_event_in_an_attempt(value: str) -> None:
    """Scenario 69 of progress."""
    world = World(None)

    async def report(percent: int, name: str, text: str) -> None:
        world.put()
        assert world.job is not None
        assert world.job.status is not None
        status = {"progressPercentage": percent, "lastUpdatedTime": T, "metrics": [{"name": name, "value": text}]}
        whole = msgspec.to_builtins(world.job)
        whole["status"]["trainerStatus"] = status
        world.job = msgspec.convert(whole, TrainJob)
        await world.look(0)

    await report(1, "loss", "0.5")
    await report(2, "gain", value)
    assert world.events == []
    for percent in (3, 4):
        await report(percent, "eval_loss", value)
    assert [reason for reason, _ in world.events] == ["LossNotFinite"]
    await report(1, "loss", "0.5")
    await report(2, "loss", value)
    assert [reason for reason, _ in world.events] == ["LossNotFinite"] * 2


async def test_a_job_that_does_not_run_loses_it_without_a_look_at_its_runtime() -> None:
    for state in ("not ready", "suspended", "blocked", "complete"):
        world = World(None, {ANNOTATION: "10m"})
        world.put()
        await world.look(BEGIN)
        assert await world.look(BEGIN + 601) == "NeverReported"

        async def away(_: TrainJob) -> TrainingRuntime | None:
            raise TransportError("no answer")

        world.stall._runtime_of = away
        world.put(state)
        assert await world.look(BEGIN + 602) == "", state


def test_a_job_stalls_recovers_and_finishes(trainer: VirtualTrainer) -> None:
    """The whole manager, on an API server."""
    trainer.start(feature_gates={"ProgressPull": True}, progress=Progress(stall_after="2m"))
    trainer.job()
    trainer.advance(10)
    trainer.counted(active=1, ready=1)
    trainer.report(5)
    trainer.advance(119)
    assert trainer.conditions == []
    trainer.advance(10)
    assert [shown for _, shown in trainer.conditions] == [[("Stalled", "True", "NoReport")]]
    trainer.report(10, loss="0.5")
    trainer.advance(5)
    trainer.report(20, train_loss="nan", loss="0.4")
    trainer.advance(200)
    trainer.report(100, loss="0.4")
    trainer.ended("Completed")
    trainer.advance(600)
    stalled = [("Stalled", "True", "NoReport")]
    (done,) = trainer.conditions[-1][1]
    assert [shown for _, shown in trainer.conditions[:-1]] in ([stalled, [], stalled], [stalled, [], stalled, []])
    assert done[:2] == ("Complete", "True")
    assert [reason for _, reason, _ in trainer.events] == ["Stalled", "LossNotFinite", "Stalled"]


def test_a_stall_that_another_client_overwrites_is_written_again_beside_its_condition(trainer: VirtualTrainer) -> None:
    trainer.start(feature_gates={"ProgressPull": True}, progress=Progress(stall_after="2m"))
    trainer.job()
    trainer.advance(10)
    trainer.counted(active=1, ready=1)
    trainer.report(5)
    trainer.advance(130)
    foreign = {"status": {"conditions": [condition("Foreign", reason="R")]}}
    trainer.stored.patch("trainjob", "job", foreign, SPACE, subresource="status")
    trainer.advance(30)
    stalled, other = ("Stalled", "True", "NoReport"), ("Foreign", "True", "R")
    assert [shown for _, shown in trainer.conditions] == [[stalled], [other], [other, stalled]]
    assert [reason for _, reason, _ in trainer.events] == ["Stalled"]
