# SPDX-License-Identifier: Apache-2.0
"""The status that a TrainJob should have, and the patch that makes it so."""

import datetime as dt
from typing import Any

import msgspec
import pytest

from tests.builders import START, condition, counts, moment, train_job
from trainwright.api.messages import CONDITION_LIMIT
from trainwright.api.trainer.v1alpha1 import RuntimePatch, TrainJob, TrainJobStatus
from trainwright.api.trainer.v1alpha1.completion import is_finished
from trainwright.controller.trainer.job.obstacles import Obstacle, Reason
from trainwright.controller.trainer.job.status import Finding, status_patch, wanted_status, with_kept_success

BEFORE = moment(START)
NOW = "2026-06-01T12:00:00Z"


def now() -> dt.datetime:
    return dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC)


def job(*, suspend: bool | None = None, **status: Any) -> TrainJob:
    return train_job(version="5", meta={"generation": 7}, suspend=suspend, status=status or None)


def conditions(status: TrainJobStatus) -> list[tuple[str, str, str, str]]:
    return [(c.type, c.status, c.reason, c.last_transition_time) for c in status.conditions or []]


@pytest.mark.parametrize(
    ("status", "finished"),
    [
        ({}, False),
        ({"conditions": [condition("Complete")]}, True),
        ({"conditions": [condition("Failed")]}, True),
        ({"conditions": [condition("Failed", "False")]}, False),
        ({"conditions": [condition("Suspended")]}, False),
    ],
)
def test_finished_means_complete_or_failed(status: dict[str, Any], finished: bool) -> None:
    assert is_finished(job(**status)) is finished


def test_conditions_whose_writer_is_off_are_removed() -> None:
    status: dict[str, Any] = {"conditions": [condition("Waiting"), condition("Stalled"), condition("Quota")]}
    off = [Finding(frozenset({"Waiting", "Stuck"}), None)]
    found = wanted_status(job(**status), None, None, settled=True, findings=off, now=now)
    assert [one[0] for one in conditions(found)] == ["Quota", "Stalled"]


SUSPENDED = condition("Suspended", reason="Suspended", message="TrainJob is suspended")
RESUMED = condition("Suspended", "False", reason="Resumed", message="TrainJob is resumed")


@pytest.mark.parametrize(
    ("suspend", "before", "after"),
    [
        (True, [], [("Suspended", "True", "Suspended", NOW)]),
        (True, [SUSPENDED], [("Suspended", "True", "Suspended", BEFORE)]),
        (True, [RESUMED], [("Suspended", "True", "Suspended", NOW)]),
        (False, [SUSPENDED], [("Suspended", "False", "Resumed", NOW)]),
        (None, [SUSPENDED], [("Suspended", "False", "Resumed", NOW)]),
        (False, [RESUMED], [("Suspended", "False", "Resumed", BEFORE)]),
        (False, [], []),
        (None, [], []),
    ],
)
def test_the_suspended_condition_follows_the_spec(
    suspend: bool | None, before: list[dict[str, Any]], after: list[tuple[str, str, str, str]]
) -> None:
    current = job(suspend=suspend, conditions=before)
    assert conditions(wanted_status(current, None, None, settled=True, now=now)) == after


BLOCK = Obstacle(Reason.RUNTIME_MISSING, "no such runtime", RuntimeError(), final=True)
BLOCKED = condition("Blocked", reason="RuntimeMissing", message="no such runtime", observedGeneration=7)


def test_a_new_end_comes_after_suspended() -> None:
    ended = job(conditions=[condition("Complete")]).status
    both = [("Suspended", "True", "Suspended", NOW), ("Complete", "True", "R", BEFORE)]
    assert conditions(wanted_status(job(suspend=True), ended, None, settled=True, now=now)) == both


def test_an_obstacle_that_is_to_be_shown_becomes_blocked_with_the_generation_seen() -> None:
    wanted = wanted_status(job(), None, BLOCK, settled=False, now=now)
    assert conditions(wanted) == [("Blocked", "True", "RuntimeMissing", NOW)]
    assert wanted.conditions is not None
    assert wanted.conditions[0].observed_generation == 7


def test_blocked_stays_while_an_obstacle_has_not_lasted_and_goes_when_there_is_none() -> None:
    current = job(conditions=[BLOCKED])
    assert conditions(wanted_status(current, None, None, settled=False, now=now)) == [
        ("Blocked", "True", "RuntimeMissing", BEFORE)
    ]
    assert conditions(wanted_status(current, None, None, settled=True, now=now)) == []


def test_a_long_message_is_cut() -> None:
    long = Obstacle(Reason.BUILD_FAILED, "x" * 1000, RuntimeError(), final=True)
    wanted = wanted_status(job(), None, long, settled=False, now=now)
    assert wanted.conditions is not None
    assert len(wanted.conditions[0].message) == CONDITION_LIMIT


def test_nothing_changed_is_no_patch() -> None:
    current = job(suspend=True, conditions=[SUSPENDED], jobsStatus=[])
    assert status_patch(current, wanted_status(current, None, None, settled=True, now=now)) is None
    assert status_patch(job(), wanted_status(job(), None, None, settled=True, now=now)) is None


COUNTS = counts(active=2, ready=1)


def test_the_patch_holds_the_changed_keys_only() -> None:
    current = job(conditions=[SUSPENDED], suspend=True, trainerStatus={"progressPercentage": 5})
    observed = msgspec.convert({"conditions": [SUSPENDED], "jobsStatus": [COUNTS]}, TrainJobStatus)
    patch = status_patch(current, wanted_status(current, observed, None, settled=True, now=now))
    assert patch == {"status": {"jobsStatus": [COUNTS]}}


def test_counters_that_are_gone_are_cleared() -> None:
    current = job(conditions=[SUSPENDED], suspend=True, jobsStatus=[COUNTS])
    observed = msgspec.convert({"conditions": [SUSPENDED], "jobsStatus": []}, TrainJobStatus)
    assert status_patch(current, observed) in ({"status": {"jobsStatus": []}}, {"status": {"jobsStatus": None}})


def test_a_status_that_loses_its_last_key_goes_away_whole() -> None:
    # The schema wants at least one key in a status.
    current = job(conditions=[BLOCKED])
    assert status_patch(current, wanted_status(current, None, None, settled=True, now=now)) == {
        "metadata": {"resourceVersion": "5"},
        "status": None,
    }


def test_the_status_servers_part_keeps_the_status_alive() -> None:
    current = job(conditions=[BLOCKED], trainerStatus={"progressPercentage": 5})
    patch = status_patch(current, wanted_status(current, None, None, settled=True, now=now))
    # Conditions are replaced as a whole, and only if nobody changed the job meanwhile.
    assert patch == {"metadata": {"resourceVersion": "5"}, "status": {"conditions": None}}


def test_the_inputs_stay_as_they_are() -> None:
    current = job(conditions=[SUSPENDED], suspend=False)
    before = msgspec.json.encode(current)
    wanted_status(current, None, BLOCK, settled=False, now=now)
    assert msgspec.json.encode(current) == before


COMPLETED = condition("Complete", reason="AllJobsCompleted")
EXCEEDED = condition("Failed", reason="DeadlineExceeded")


@pytest.mark.parametrize(
    ("before", "observed", "after"),
    [
        # One replica failed the job by its deadline and lost its lease; the next one sees the JobSet complete.
        ([EXCEEDED], [EXCEEDED, COMPLETED], [EXCEEDED]),
        ([COMPLETED], [COMPLETED, condition("Failed", reason="FailedJobs")], [COMPLETED]),
        # The end that is written stays as it is, also while it is no longer observed.
        ([EXCEEDED], [condition("Failed", reason="FailedJobs")], [EXCEEDED]),
        ([RESUMED, COMPLETED], [RESUMED], [RESUMED, COMPLETED]),
        # Of two that are new, the first one counts.
        ([], [COMPLETED, EXCEEDED], [COMPLETED]),
        ([condition("Failed", "False")], [condition("Failed", "False"), COMPLETED], [COMPLETED]),
    ],
)
def test_a_job_ends_once(before: list[Any], observed: list[Any], after: list[Any]) -> None:
    seen = msgspec.convert({"conditions": observed}, TrainJobStatus)
    status = wanted_status(job(conditions=before), seen, None, settled=True, now=now)
    ends = [c for c in msgspec.to_builtins(status.conditions) if c["status"] == "True" or c["type"] == "Suspended"]
    assert [(c["type"], c["reason"]) for c in ends] == [(c["type"], c["reason"]) for c in after]


@pytest.mark.parametrize("end", [COMPLETED, EXCEEDED])
@pytest.mark.parametrize("settled", [True, False])
def test_obstacles_leave_a_job_that_is_over(end: dict[str, Any], settled: bool) -> None:
    obstacles = [condition(kind) for kind in ("Blocked", "Waiting", "Stalled")]
    blocked = Obstacle(Reason.APPLY_REFUSED, "no", RuntimeError(), final=False)
    for before, observed in (([*obstacles, end], None), (obstacles, {"conditions": [*obstacles, end]})):
        seen = None if observed is None else msgspec.convert(observed, TrainJobStatus)
        for obstacle in (None, blocked):
            status = wanted_status(job(conditions=before), seen, obstacle, settled=settled, now=now)
            assert [c.type for c in status.conditions or ()] == [end["type"]]


def test_a_false_end_keeps_no_obstacle_away() -> None:
    before = [condition("Failed", "False"), condition("Waiting")]
    status = wanted_status(job(conditions=before), None, None, settled=True, now=now)
    assert [c.type for c in status.conditions or ()] == ["Failed", "Waiting"]


def test_a_patch_that_only_takes_away_names_its_version() -> None:
    """Another client may have taken away the rest meanwhile, and an empty status is refused."""
    waiting = condition("Waiting")
    current = job(conditions=[waiting], jobsStatus=[COUNTS])
    observed = msgspec.convert({"conditions": [waiting]}, TrainJobStatus)
    patch = status_patch(current, observed)
    assert patch is not None
    assert patch["status"] == {"jobsStatus": None}
    assert patch["metadata"] == {"resourceVersion": "5"}


PLACE = {"manager": "kueue.x-k8s.io/manager"} | {
    "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [{"name": "pre"}]}}}
}


@pytest.mark.parametrize(
    ("patches", "pre"),
    [
        pytest.param([PLACE], counts("pre", succeeded=1, active=1), id="admitted"),
        pytest.param([], counts("pre", ready=1, active=1), id="not queued, or evicted"),
    ],
)
def test_a_step_that_runs_again_keeps_its_success_while_kueue_counts_on_it(
    patches: list[Any], pre: dict[str, Any]
) -> None:
    queued = job(jobsStatus=[counts("pre", succeeded=1), counts("node", active=1)])
    assert queued.spec is not None
    queued.spec.runtime_patches = msgspec.convert(patches, list[RuntimePatch])
    again = {"jobsStatus": [counts("pre", ready=1, active=1), counts("node", ready=1, active=1)]}
    kept = with_kept_success(queued, msgspec.convert(again, TrainJobStatus))
    assert msgspec.to_builtins(kept) == {"jobsStatus": [pre, counts("node", ready=1, active=1)]}
    assert with_kept_success(queued, None) is None
    failed = msgspec.convert({**again, "conditions": [condition("Failed")]}, TrainJobStatus)
    assert with_kept_success(queued, failed) is failed
    new = with_kept_success(queued, TrainJobStatus())
    assert msgspec.to_builtins(new) == ({"jobsStatus": [counts("pre", succeeded=1)]} if patches else {})
