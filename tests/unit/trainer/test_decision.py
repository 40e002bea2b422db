# SPDX-License-Identifier: Apache-2.0
"""What is decided for a job, as a table: its status, its end, and when it is looked at again."""

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from tests.builders import condition, counts
from tests.cases import cases
from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.controller.trainer.job.decision import (
    BuildOutcome,
    Decision,
    RecoveryDecision,
    decide,
)
from trainwright.controller.trainer.job.obstacles import Obstacle, Reason

CASES = cases(__file__)
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


METADATA = {"name": "j", "namespace": "n", "creationTimestamp": CREATED, "resourceVersion": "7"}
SUSPENDED = ["Suspended", "Suspended", "TrainJob is suspended"]


@dataclass(frozen=True)
class Row:
    """One job, what is known of it, and what is to be done."""

    labels: dict[str, str] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] | None = None
    observed: dict[str, Any] | None = None
    outcome: dict[str, Any] = field(default_factory=dict)
    conditions: list[list[str]] | None = None
    """Type, status and reason of those that are written; None: no condition is."""
    counters: bool = False
    """Whether counters are written."""
    counters_wait: bool = False
    end: bool = False
    requeue_after: float | None = None
    over: bool = False


def test_the_record_has_the_last_word_also_where_the_reason_is_that_of_the_jobset() -> None:
    job = msgspec.convert({"metadata": METADATA, "spec": {"runtimeRef": {"name": "r"}}}, TrainJob)
    end = condition("Failed", "True", "ReachedMaxRestarts", "jobset failed due to reaching max number of restarts")
    recovery = RecoveryDecision(reason="ReachedMaxRestarts", message="the job failed after 4 attempts")
    observed = msgspec.convert({"conditions": [end]}, TrainJobStatus)
    decision = decide(job, observed, BuildOutcome(recovery=recovery), NOW)
    (found,) = (decision.status or {})["status"]["conditions"]
    # Its JobSet failed a minute before that was decided.
    assert found == {**end, "message": recovery.message, "lastTransitionTime": "2026-01-01T00:01:00Z"}
    waits = decide(job, observed, BuildOutcome(recovery=RecoveryDecision(ignore_failure=True)), NOW)
    assert waits.status is None


@pytest.mark.parametrize("fields", CASES["decision"].values(), ids=CASES["decision"])
def test_decision(fields: dict[str, Any]) -> None:
    row = Row(**fields)
    decision = decided(row)
    written = (decision.status or {}).get("status") or {}
    found = written.get("conditions") if decision.status is not None else None
    if row.conditions is not None:
        # With the version of the job: conditions of others are not to be lost.
        assert (decision.status or {})["metadata"] == {"resourceVersion": "7"}
        assert [[c["type"], c["status"], c["reason"]] for c in found or ()] == row.conditions
    else:
        assert found is None
    assert ("jobsStatus" in written) is row.counters
    assert (decision.counters_wait, decision.end, decision.over) == (row.counters_wait, row.end, row.over)
    assert decision.requeue_after == row.requeue_after


def decided(row: Row) -> Decision:
    document = {
        "metadata": METADATA | {"labels": row.labels},
        "spec": {"runtimeRef": {"name": "r"}, **row.spec},
        **({"status": whole(row.status)} if row.status else {}),
    }
    job = msgspec.convert(document, TrainJob)
    observed = msgspec.convert(whole(row.observed), TrainJobStatus) if row.observed is not None else None
    outcome = BuildOutcome(**{**row.outcome, **({"obstacle": OBSTACLE} if "obstacle" in row.outcome else {})})
    return decide(job, observed, outcome, NOW)


def whole(status: dict[str, Any]) -> dict[str, Any]:
    """The status of a case: its conditions are True, with type, reason and message; `active` stands for counters."""
    conditions = [condition(kind, "True", *said, at=CREATED) for kind, *said in status.get("conditions", ())]
    counters = {"jobsStatus": [COUNTED]} if status.get("jobsStatus") == "active" else {}
    return {**status, "conditions": conditions, **counters}


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
    row = Row(spec=spec, labels=labels, status={**conditions, **(before or {})}, observed={**conditions, **after})
    decision = decided(row)
    assert (decision.status is not None, decision.counters_wait) == (at_once, not at_once)
