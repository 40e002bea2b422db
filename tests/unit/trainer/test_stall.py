# SPDX-License-Identifier: Apache-2.0
"""What reports that come to one manager say of a standstill, beside what the job shows; stall.yaml has the rest."""

from collections.abc import Collection
from typing import Any

import msgspec
import pytest

from tests.builders import RUNNING, counts, jobset, pod, progress, train_job
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import Key, wire
from trainwright.api.surroundings import present
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.controller.runtime import NO_SERVERS, Manager
from trainwright.controller.runtime.workqueue.limiters import TokenBucket
from trainwright.controller.simulation.virtual import VirtualCluster
from trainwright.controller.simulation.world import CONFIG, PROCESS, Process
from trainwright.controller.trainer.job.events import JobEvents
from trainwright.controller.trainer.job.obstacles import Defects
from trainwright.controller.trainer.job.pods import declare_pods, pods_of
from trainwright.controller.trainer.job.records import JobFindings, JobRecords
from trainwright.controller.trainer.job.stall import is_running
from trainwright.controller.trainer.progress.report import JobReports, checked
from trainwright.controller.trainer.progress.stall import StallController

SPACE = "default"


class Reports:
    """A job with three ranks, and a manager that looks whether it stands still: after 300 s without a report."""

    def __init__(self, cluster: VirtualCluster, *, is_alone: bool = True) -> None:
        self._cluster, self._stored, self.advance = cluster, cluster.stored, cluster.stored.advance
        self._events = cluster.changes("events")
        self._records: JobRecords
        self._findings: JobFindings
        self.job = self._stored.create(wire(train_job("job", SPACE, uid="")))
        owner = self.job
        self._stored.create(wire(jobset(name="job", namespace=SPACE, uid="", owner=owner)))
        self.make_pods(0)
        self._show({"jobsStatus": [RUNNING]})

        async def boot(process: Process) -> Manager:
            manager = Manager(
                CONFIG, user_agent=process.name, servers=NO_SERVERS, process=PROCESS, transport=process.network
            )
            self._records = records = JobRecords()
            records.watch(manager.cache)
            manager.cache.informer(JobSet)
            declare_pods(manager.cache)
            self._findings = findings = JobFindings(records)

            async def no_runtime(_: object) -> None:
                return None

            StallController(
                manager,
                JobEvents(manager, Defects(manager.metrics.registry)),
                no_runtime,
                300.0,
                records,
                findings,
                pods_of=lambda job: pods_of(manager.cache, job),
                is_alone=is_alone,
                now=present().now,
            )
            return manager

        cluster.run(boot)
        self.advance(1)

    def make_pods(self, attempt: int) -> None:
        uid = self._stored.wait("jobset", "job", namespace=SPACE)["metadata"]["uid"]
        for rank in range(3):
            made = pod(rank, job="job", namespace=SPACE, attempt=attempt, jobset_uid=uid)
            if attempt:
                self._cluster.call(self._cluster.world.admin.delete(Pod, f"job-node-0-{rank}", SPACE, grace_period=0))
            self._stored.create({key: value for key, value in made.items() if key != "status"})
            self._stored.patch("pod", f"job-node-0-{rank}", {"status": made["status"]}, SPACE, subresource="status")

    def _show(self, status: dict[str, Any]) -> None:
        self._stored.patch("trainjob", "job", {"status": status}, SPACE, subresource="status")

    def delete(self) -> None:
        """The job is being deleted, and something keeps it."""
        self._stored.patch("trainjob", "job", {"metadata": {"finalizers": ["example.com/kept"]}}, SPACE)
        self._stored.delete("trainjob", "job", SPACE, wait=False)

    def stores(self, step: int) -> None:
        """The job shows a report."""
        self._show({"trainerStatus": progress(at=self._cluster.now, metrics={"current_step": str(step)})})

    def come(self, ranks: dict[str, float], *, again: Collection[str] = (), is_stuck: bool = False) -> None:
        """Reports of pods came to this process, so many seconds ago."""
        now = self._cluster.seconds
        bucket = TokenBucket(1.0, 1, time=float)
        reports = JobReports(Key(SPACE, "job"), self.job["metadata"]["uid"], bucket, bucket)
        reports.pods = {name: now - ago for name, ago in ranks.items()}
        reports.last_push = reports.last_report = now - min(ranks.values(), default=0.0)
        reports.again = set(again)
        if is_stuck:
            reports.failures = 1
            told = TrainerStatus(last_updated_time="2026-01-01T00:00:00Z")
            reports.pending = checked(reports.key, told)
        self._records.of(reports.key, reports.uid).keep(reports)

    @property
    def reason(self) -> str:
        """Of the condition that the job is to have; empty: none. No controller writes it here."""
        job = msgspec.convert(self._stored.wait("trainjob", "job", namespace=SPACE), TrainJob)
        found = [one.condition for one in self._findings.of(job) if one.condition is not None]
        return found[0].reason if found else ""

    @property
    def notes(self) -> list[str]:
        return [one.object["message"] for one in self._events if one.type == "ADDED"]


@pytest.fixture
def alone(virtual_cluster: VirtualCluster) -> Reports:
    return Reports(virtual_cluster)


NAMES = [f"job-node-0-{rank}" for rank in range(3)]


def reports_on(reports: Reports, seconds: int, silent: float, *, again: Collection[str]) -> None:
    """Rank 0 reports every minute, and rank 1 has not for so long."""
    for passed in range(0, seconds, 60):
        reports.stores(int(silent) + passed)
        reports.come({NAMES[0]: 0.0, NAMES[1]: silent + passed}, again=again)
        reports.advance(60)


def test_a_rank_that_stops_to_report_while_others_go_on_is_named(alone: Reports) -> None:
    reports_on(alone, 240, 0, again=NAMES[:2])
    assert alone.reason == ""
    reports_on(alone, 120, 240, again=NAMES[:2])
    assert alone.reason == "RankSilent"
    (note,) = alone.notes
    assert note.startswith("rank 1 has sent no report since ")
    assert note.endswith(", and 1 other reports on; look at its log, it may hang")
    alone.come({NAMES[0]: 0.0, NAMES[1]: 0.0}, again=NAMES[:2])
    alone.stores(1000)
    alone.advance(1)
    assert alone.reason == ""


def test_a_rank_that_reported_once_never_said_that_it_would_again(alone: Reports) -> None:
    reports_on(alone, 480, 0, again=NAMES[:1])
    assert alone.reason == ""


def test_a_rank_whose_pod_was_made_again_is_not_silent(alone: Reports) -> None:
    reports_on(alone, 420, 0, again=NAMES[:2])
    assert alone.reason == "RankSilent"
    alone.make_pods(1)
    alone.come({NAMES[0]: 0.0, f"{NAMES[1]}-before": 420.0}, again=NAMES[:2])
    alone.stores(2000)
    alone.advance(1)
    assert alone.reason == ""


def test_of_several_managers_none_knows_which_rank_is_silent(virtual_cluster: VirtualCluster) -> None:
    one_of_two = Reports(virtual_cluster, is_alone=False)
    reports_on(one_of_two, 480, 0, again=NAMES[:2])
    assert one_of_two.reason == ""


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (
            [f"other-{number}" for number in range(7)],
            "from pods other-0, other-1, other-2, other-3, other-4 and 2 more;",
        ),
        ([f"{'long-name-' * 6}{number}" for number in range(64)], "and 62 more; look at its logs, it may hang"),
    ],
    ids=["few", "long names leave room for the advice"],
)
def test_silent_pods_are_named_as_far_as_they_are_known(alone: Reports, names: list[str], told: str) -> None:
    alone.stores(1)
    alone.come(dict.fromkeys(names, 0.0))
    alone.advance(302)
    assert alone.reason == "NoReport"
    (note,) = alone.notes
    assert told in note
    assert len(note) <= 300


def test_while_writes_fail_no_job_is_blamed(alone: Reports) -> None:
    alone.stores(1)
    for _ in range(30):
        alone.come({NAMES[0]: 0.0}, is_stuck=True)
        alone.advance(60)
        assert alone.reason == ""
    alone.come({NAMES[0]: 0.0})
    alone.stores(2)  # the last one
    alone.advance(290)
    assert alone.reason == ""
    alone.advance(15)
    assert alone.reason in {"NoReport", "NoAdvance"}


def test_a_job_that_is_being_deleted_does_not_stand_still(alone: Reports) -> None:
    alone.stores(1)
    alone.delete()
    alone.advance(400)
    assert (alone.reason, alone.notes) == ("", [])


def test_a_report_that_is_on_its_way_counts(alone: Reports) -> None:
    alone.stores(1)
    alone.advance(200)
    alone.come({})
    alone.advance(99)
    assert alone.reason == ""
    alone.advance(2)
    assert alone.reason == "NoAdvance"  # and not NoReport


@pytest.mark.parametrize(
    ("status", "spec", "runs"),
    [
        ({"jobsStatus": [RUNNING]}, {}, True),
        ({"jobsStatus": []}, {}, False),
        ({"jobsStatus": [counts(active=1)]}, {}, False),
        ({"jobsStatus": [counts("dataset-initializer", active=1, ready=1), counts(active=1)]}, {}, False),
        *(
            ({"jobsStatus": [RUNNING], "conditions": [{"type": kind, "status": "True", "reason": "R"}]}, {}, False)
            for kind in ("Suspended", "Blocked", "Complete", "Failed")
        ),
    ],
)
def test_a_job_runs_while_pods_that_train_are_ready(status: dict[str, Any], spec: dict[str, Any], runs: bool) -> None:
    for one in status.get("conditions", ()):
        one |= {"message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    assert is_running(train_job(status=status, **spec)) is runs
