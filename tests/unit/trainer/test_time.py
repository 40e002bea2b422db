# SPDX-License-Identifier: Apache-2.0
"""When the TrainJob controller writes and looks again."""

from typing import Any

import pytest

from tests.cases import cases
from tests.virtual_trainer import SPACE, STATUS, VirtualTrainer
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime.errors import ApiError, error_type
from trainwright.plugins.contract import Info
from trainwright.plugins.registry import Registry

CASES = cases(__file__)

JOBSET = f"/namespaces/{SPACE}/jobsets/job"
BLOCKED = ("Blocked", "True", "ApplyRefused")
EXCEEDED = ("Failed", "True", "DeadlineExceeded")


def refusal(code: int, reason: str) -> ApiError:
    return error_type(code, reason, ())("exceeded quota", code=code, reason=reason)


@pytest.fixture
def running(trainer: VirtualTrainer) -> VirtualTrainer:
    """The job has its JobSet."""
    trainer.start()
    trainer.job()
    trainer.advance(10)
    return trainer


def test_counters_that_are_not_taken_are_tried_less_and_less_often(running: VirtualTrainer) -> None:
    tries = running.cluster.refuse(STATUS, refusal(500, "InternalError"), until=130)
    running.counted(active=1)
    running.advance(120)
    assert tries[0] == 11.7
    # The delay doubles each time, from 5 ms on: nothing in between begins it anew.
    assert len(tries) < 20
    assert tries[-1] - tries[-2] > 40
    for active in (2, 3):
        running.counted(active=active)
        running.advance(60)
    assert [counters for _, counters in running.counters] == [(2, 0), (3, 0)]


def test_a_deleted_snapshot_is_taken_at_once_and_written_after_a_second(running: VirtualTrainer) -> None:
    """A runtime that changes meanwhile does not slip in, whatever brings the key within the second."""
    snapshots = running.cluster.changes("configmaps")
    running.stored.delete("configmap", "job-runtime-snapshot", SPACE)
    running.advance(0.3)
    text = {"path": "/spec/template/spec/replicatedJobs/0/template/spec/template/spec/containers/0/image"}
    change = [{"op": "replace", "value": "other", **text}]
    running.stored.patch("trainingruntime", "r", change, SPACE, style="json")
    running.stored.patch("trainjob", "job", {"metadata": {"labels": {"a": "b"}}}, SPACE)
    running.advance(20)
    gone, made = snapshots
    assert (gone.type, made.type, made.seconds) == ("DELETED", "ADDED", 11.0)
    assert "image: example.com/none\n" in made.object["data"]["runtime"]


# ---------------------------------------------------------------------- refusals


def test_a_refusal_is_shown_after_five_seconds_and_tried_again_each_minute(trainer: VirtualTrainer) -> None:
    times = trainer.cluster.refuse(JOBSET, refusal(403, "Forbidden"))
    trainer.start()
    trainer.job()
    trainer.advance(400)
    assert trainer.conditions == [(5, [BLOCKED])]
    assert times[1] < 0.01
    assert times[-1] - times[-2] == 60
    ((when, _, message),) = trainer.events
    assert when >= 5
    assert "exceeded quota" in message


class Broken:
    """A plugin with a defect."""

    name = "Broken"

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:  # noqa: ARG002 - the contract's
        raise KeyError("gone")


def test_a_defect_of_a_plugin_is_counted_and_logged_with_its_traceback(
    trainer: VirtualTrainer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Registry.load

    def with_broken(*given: Any, **more: Any) -> Registry:
        return Registry.of(*(entry.plugin for entry in load(*given, **more)), Broken())

    monkeypatch.setattr(Registry, "load", with_broken)
    trainer.start()
    trainer.job()
    trainer.advance(300)
    assert [shown for _, shown in trainer.conditions] == [[("Blocked", "True", "BuildFailed")]]
    counted = [trainer.sample("trainer_trainjob_defects_total", during=one) for one in ("reconcile", "admission")]
    assert counted == [1, 0]
    (record,) = [record for record in caplog.records if "enforce_ml_policy failed" in record.getMessage()]
    assert record.exc_info is not None


# ---------------------------------------------------------------------- clocks


@pytest.mark.parametrize(("jumps", "fires"), CASES["a_deadline_is_noticed_although_the_wall_clock_jumps"])
def test_a_deadline_is_noticed_although_the_wall_clock_jumps(
    trainer: VirtualTrainer, jumps: list[tuple[float, float]], fires: tuple[float, float]
) -> None:
    trainer.start()
    trainer.job(activeDeadlineSeconds=60)
    ahead = 0.0
    for when, seconds in jumps:
        trainer.advance(when - trainer.cluster.seconds)
        ahead += seconds
        trainer.cluster.world.set_clock(trainer.replica, ahead)
    trainer.advance(fires[1] + 120 - trainer.cluster.seconds)
    ((when, shown),) = trainer.conditions
    assert shown == [EXCEEDED]
    assert fires[0] <= when <= fires[1]


# ---------------------------------------------------------------------- jobs that are gone


@pytest.mark.parametrize("first", ["configmap", "jobset"])
def test_objects_of_a_deleted_job_are_not_made_again_and_again(running: VirtualTrainer, first: str) -> None:
    """The watch shows the deletion late, and the garbage collector deletes them as often as they are made."""
    running.cluster.delay_watches("trainjobs", 60)
    running.stored.delete("trainjob", "job", SPACE)
    made = [running.cluster.changes(one) for one in ("configmaps", "jobsets.jobset.x-k8s.io")]
    names = {"configmap": "job-runtime-snapshot", "jobset": "job"}
    for _ in range(25):
        for kind in sorted(names, key=lambda kind: kind != first):
            running.stored.delete(kind, names[kind], SPACE)
        running.advance(1)
    running.advance(300)
    assert [[one.type for one in changes] for changes in made] == [["DELETED"], ["DELETED"]]


def test_a_status_of_a_job_that_is_gone_is_no_error(running: VirtualTrainer, caplog: pytest.LogCaptureFixture) -> None:
    running.cluster.delay_watches("trainjobs", 60)
    running.stored.delete("trainjob", "job", SPACE)
    running.ended("Completed")
    running.advance(20)
    assert [record.getMessage() for record in caplog.records if record.levelname in {"WARNING", "ERROR"}] == []
