# SPDX-License-Identifier: Apache-2.0
"""When the active deadline of a TrainJob is, and that nothing overrules it once it has passed."""

import datetime as dt
from typing import Any

import msgspec
import pytest

from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.controller.trainer.job.decision import MESSAGE, is_exceeded, seconds_left
from trainwright.controller.trainer.job.status import wanted_status, with_failure

CREATED = "2026-01-01T00:00:00Z"
RESUMED = "2026-01-01T01:00:00Z"
NOW = dt.datetime(2026, 1, 1, 1, 0, 10, tzinfo=dt.UTC)


def condition(kind: str, status: str, reason: str = "R", when: str = RESUMED) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": when}


def job(*conditions: dict[str, Any], **spec: Any) -> TrainJob:
    document = {
        "metadata": {"name": "j", "namespace": "n", "creationTimestamp": CREATED},
        "spec": {"runtimeRef": {"name": "r"}, **spec},
        "status": {"conditions": list(conditions)},
    }
    return msgspec.convert(document, TrainJob)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (job(), None),
        (job(activeDeadlineSeconds=3700), 90),
        (job(activeDeadlineSeconds=3600), -10),
        (job(activeDeadlineSeconds=3600, suspend=True), None),
        (job(condition("Suspended", "False"), activeDeadlineSeconds=60), 50),
        (job(condition("Suspended", "True"), activeDeadlineSeconds=3700), 90),
    ],
)
def test_it_runs_from_creation_or_the_last_resume(given: TrainJob, left: float | None) -> None:
    assert given.status is not None
    assert seconds_left(given, given.status, NOW) == left


@pytest.mark.parametrize(
    ("given", "exceeded"),
    [
        (job(), False),
        (job(condition("Failed", "True", "FailedJobs")), False),
        (job(condition("Failed", "True", "DeadlineExceeded")), True),
    ],
)
def test_the_mark_is_a_condition(given: TrainJob, exceeded: bool) -> None:
    assert is_exceeded(given) is exceeded


def test_what_the_jobset_says_later_does_not_overrule_it() -> None:
    marked = job(condition("Failed", "True", "DeadlineExceeded"))
    observed = msgspec.convert({"conditions": [condition("Failed", "True", "FailedJobs")]}, TrainJobStatus)
    wanted = with_failure(wanted_status(marked, observed, None, settled=True), "DeadlineExceeded", MESSAGE, NOW)
    assert wanted.conditions is not None
    assert [(c.type, c.reason, c.last_transition_time) for c in wanted.conditions] == [
        ("Failed", "DeadlineExceeded", RESUMED)
    ]
