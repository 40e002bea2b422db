# SPDX-License-Identifier: Apache-2.0
"""What is decided for a job, as a table: its status, its end, and when it is looked at again."""

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from tests.builders import condition, counts
from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.controller.trainer.build.kinds import COUNTERS_SECONDS
from trainwright.controller.trainer.job.decision import (
    LONGEST_WAIT_SECONDS,
    MESSAGE,
    BuildOutcome,
    Decision,
    RecoveryDecision,
    decide,
)
from trainwright.controller.trainer.job.obstacles import Obstacle, Reason

CREATED = "2026-01-01T00:00:00Z"
NOW = dt.datetime(2026, 1, 1, 0, 1, 0, tzinfo=dt.UTC)
"""A minute after the creation."""
OBSTACLE = Obstacle(Reason.APPLY_REFUSED, "no", RuntimeError(), final=False)
COUNTED = counts(active=1)
QUEUED = {"kueue.x-k8s.io/queue-name": "q"}
ADMITTED = {"manager": "kueue.x-k8s.io/manager"} | {
    "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [{"name": "node"}]}}}
}


def steps(**of_node: int) -> dict[str, Any]:
    """A status with the counters of two steps."""
    return {"jobsStatus": [{**COUNTED, "name": "pre"}, {**COUNTED, **of_node}]}


SUSPENDED = condition("Suspended", reason="Suspended", message="TrainJob is suspended", at=CREATED)
EXCEEDED = condition("Failed", reason="DeadlineExceeded", message=MESSAGE, at=CREATED)


@dataclass(frozen=True)
class Row:
    """One job, what is known of it, and what is to be done."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] | None = None
    observed: dict[str, Any] | None = None
    outcome: BuildOutcome = field(default_factory=BuildOutcome)
    conditions: list[tuple[str, str, str]] | None = None
    """Of the status that is written; None: no condition is."""
    counters: bool = False
    """Whether counters are written."""
    counters_wait: bool = False
    end: bool = False
    requeue_after: float | None = None
    over: bool = False


TABLE = [
    Row("nothing new"),
    Row("uses an object of somebody else", outcome=BuildOutcome(foreign_in=60.0), requeue_after=60.0),
    Row(
        "suspended",
        spec={"suspend": True},
        conditions=[("Suspended", "True", "Suspended")],
    ),
    Row(
        "resumed",
        status={"conditions": [SUSPENDED]},
        conditions=[("Suspended", "False", "Resumed")],
    ),
    Row(
        "resumed, so its deadline begins now",
        spec={"activeDeadlineSeconds": 30},
        status={"conditions": [SUSPENDED]},
        conditions=[("Suspended", "False", "Resumed")],
        requeue_after=30,
    ),
    Row("counters wait", observed={"jobsStatus": [COUNTED]}, counters_wait=True, requeue_after=COUNTERS_SECONDS),
    Row(
        "counters have waited a part",
        observed={"jobsStatus": [COUNTED]},
        outcome=BuildOutcome(counters_in=0.05),
        counters_wait=True,
        requeue_after=0.05,
    ),
    Row(
        "counters have waited",
        observed={"jobsStatus": [COUNTED]},
        outcome=BuildOutcome(counters_in=0),
        counters=True,
    ),
    Row(
        "a condition takes the counters along",
        observed={"jobsStatus": [COUNTED], "conditions": [condition("Complete")]},
        conditions=[("Complete", "True", "R")],
        counters=True,
        over=True,
    ),
    Row("complete and written", status={"conditions": [condition("Complete")]}, over=True),
    Row(
        "an obstacle that has not lasted is not shown",
        outcome=BuildOutcome(failed=True, shown_in=3),
        requeue_after=3,
    ),
    Row(
        "one that has lasted is",
        outcome=BuildOutcome(failed=True, obstacle=OBSTACLE),
        conditions=[("Blocked", "True", "ApplyRefused")],
    ),
    Row(
        "a conflict keeps what is shown",
        status={"conditions": [condition("Blocked", reason="ApplyRefused")]},
        outcome=BuildOutcome(failed=True),
    ),
    Row(
        "what is shown goes with its cause",
        status={"conditions": [condition("Blocked", reason="ApplyRefused")], "jobsStatus": [COUNTED]},
        observed={"conditions": [condition("Blocked", reason="ApplyRefused")], "jobsStatus": [COUNTED]},
        conditions=[],
    ),
    Row("a deadline to come", spec={"activeDeadlineSeconds": 90}, requeue_after=30),
    Row(
        "a deadline far away is looked at every minute",
        spec={"activeDeadlineSeconds": 90_000},
        requeue_after=LONGEST_WAIT_SECONDS,
    ),
    Row(
        "the nearest moment counts",
        spec={"activeDeadlineSeconds": 62},
        outcome=BuildOutcome(failed=True, shown_in=5),
        requeue_after=2,
    ),
    Row(
        "a deadline that has passed",
        spec={"activeDeadlineSeconds": 60},
        status={"conditions": [condition("Blocked", reason="ApplyRefused")]},
        outcome=BuildOutcome(failed=True, obstacle=OBSTACLE),
        conditions=[("Failed", "True", "DeadlineExceeded")],
        end=True,
        over=True,
    ),
    Row(
        "marked, and not all is deleted yet",
        spec={"activeDeadlineSeconds": 60},
        status={"conditions": [EXCEEDED]},
        end=True,
        over=True,
    ),
    Row(
        "a suspended job has no deadline",
        spec={"activeDeadlineSeconds": 1, "suspend": True},
        status={"conditions": [SUSPENDED]},
        conditions=None,
    ),
    Row(
        "an end that nobody saw",
        status={"jobsStatus": [COUNTED], "conditions": [condition("Blocked", reason="ApplyRefused")]},
        outcome=BuildOutcome(end_unknown="the JobSet is gone"),
        conditions=[("Failed", "True", "EndUnknown")],
        over=True,
    ),
    Row(
        "an end that nobody saw comes before a deadline, which may have passed after it",
        spec={"activeDeadlineSeconds": 30},
        outcome=BuildOutcome(end_unknown="the JobSet is gone"),
        conditions=[("Failed", "True", "EndUnknown")],
        over=True,
    ),
    Row(
        "created",
        outcome=BuildOutcome(created=True),
        conditions=[("Created", "True", "JobsCreationSucceeded")],
    ),
]


def test_the_record_has_the_last_word_also_where_the_reason_is_that_of_the_jobset() -> None:
    metadata = {"name": "j", "namespace": "n", "creationTimestamp": CREATED, "resourceVersion": "7"}
    job = msgspec.convert({"metadata": metadata, "spec": {"runtimeRef": {"name": "r"}}}, TrainJob)
    end = condition("Failed", "True", "ReachedMaxRestarts", "jobset failed due to reaching max number of restarts")
    recovery = RecoveryDecision(reason="ReachedMaxRestarts", message="the job failed after 4 attempts")
    observed = msgspec.convert({"conditions": [end]}, TrainJobStatus)
    decision = decide(job, observed, BuildOutcome(recovery=recovery), NOW)
    (found,) = (decision.status or {})["status"]["conditions"]
    # Its JobSet failed a minute before that was decided.
    assert found == {**end, "message": recovery.message, "lastTransitionTime": "2026-01-01T00:01:00Z"}
    waits = decide(job, observed, BuildOutcome(recovery=RecoveryDecision(ignore_failure=True)), NOW)
    assert waits.status is None


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_decision(row: Row) -> None:
    decision = decided(row)
    written = (decision.status or {}).get("status") or {}
    found = written.get("conditions") if decision.status is not None else None
    if row.conditions is not None:
        # With the version of the job: conditions of others are not to be lost.
        assert (decision.status or {})["metadata"] == {"resourceVersion": "7"}
        assert [(c["type"], c["status"], c["reason"]) for c in found or ()] == row.conditions
    else:
        assert found is None
    assert ("jobsStatus" in written) is row.counters
    assert (decision.counters_wait, decision.end, decision.over) == (row.counters_wait, row.end, row.over)
    assert decision.requeue_after == row.requeue_after


def decided(row: Row) -> Decision:
    document = {
        "metadata": {
            "name": "j",
            "namespace": "n",
            "labels": row.labels,
            "creationTimestamp": CREATED,
            "resourceVersion": "7",
        },
        "spec": {"runtimeRef": {"name": "r"}, **row.spec},
        **({"status": row.status} if row.status else {}),
    }
    job = msgspec.convert(document, TrainJob)
    observed = msgspec.convert(row.observed, TrainJobStatus) if row.observed is not None else None
    return decide(job, observed, row.outcome, NOW)


STOPPED = {"jobsStatus": [{**COUNTED, "name": "pre", "active": 0}, {**COUNTED, "active": 0, "suspended": 1}]}
HELD = {"suspend": True}


@pytest.mark.parametrize(
    ("spec", "labels", "before", "after", "at_once"),
    [
        pytest.param(HELD, {}, steps(), STOPPED, True, id="suspended, and no Job is active any more"),
        pytest.param(HELD, {}, steps(active=2), steps(), False, id="suspended, and one Job is still active"),
        pytest.param(HELD, {}, None, STOPPED, False, id="suspended, and none was active"),
        pytest.param({}, {}, steps(), STOPPED, False, id="its Jobs have ended"),
        pytest.param({}, QUEUED, steps(), steps(ready=1), True, id="queued, and a step is ready"),
        pytest.param({}, QUEUED, steps(active=3), steps(active=3, ready=2), False, id="queued, and most are ready"),
        pytest.param({}, QUEUED, steps(ready=1), steps(ready=1, failed=1), False, id="queued, and a Job has failed"),
        pytest.param({}, QUEUED, steps(), steps(active=0, succeeded=1), True, id="queued, and a Job has succeeded"),
        pytest.param({"runtimePatches": [ADMITTED]}, {}, steps(), steps(ready=1), True, id="queued without a label"),
        pytest.param(
            {"runtimePatches": [{"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": {}}]},
            {},
            steps(),
            steps(ready=1),
            False,
            id="Kueue leaves the job alone",
        ),
        pytest.param({}, {}, steps(), steps(ready=1), False, id="not queued"),
    ],
)
def test_counters_that_another_controller_waits_for_are_written_at_once(
    spec: dict[str, Any],
    labels: dict[str, str],
    before: dict[str, Any] | None,
    after: dict[str, Any],
    at_once: bool,
) -> None:
    conditions = {"conditions": [SUSPENDED]} if spec.get("suspend") else {}
    row = Row("", spec=spec, labels=labels, status={**conditions, **(before or {})}, observed={**conditions, **after})
    decision = decided(row)
    assert (decision.status is not None, decision.counters_wait) == (at_once, not at_once)
