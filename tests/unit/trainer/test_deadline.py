# SPDX-License-Identifier: Apache-2.0
"""When the active deadline of a TrainJob is, and that nothing overrules it once it has passed."""

import datetime as dt
from typing import Any

import msgspec
import pytest

from tests.builders import START, condition, moment, train_job
from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.controller.trainer.job.decision import MESSAGE, is_exceeded, seconds_left
from trainwright.controller.trainer.job.status import wanted_status, with_failure

RESUMED = moment(3600)
NOW = START + dt.timedelta(hours=1, seconds=10)


def job(**fields: Any) -> TrainJob:
    return train_job(created=START, status={}, **fields)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (job(), None),
        (job(activeDeadlineSeconds=3700), 90),
        (job(activeDeadlineSeconds=3600), -10),
        (job(activeDeadlineSeconds=3600, suspend=True), None),
        (job(conditions=[condition("Suspended", "False", at=RESUMED)], activeDeadlineSeconds=60), 50),
        (job(conditions=[condition("Suspended", "True", at=RESUMED)], activeDeadlineSeconds=3700), 90),
    ],
)
def test_it_runs_from_creation_or_the_last_resume(given: TrainJob, left: float | None) -> None:
    assert given.status is not None
    assert seconds_left(given, given.status, NOW) == left


@pytest.mark.parametrize(
    ("given", "exceeded"),
    [
        (job(), False),
        (job(conditions=[condition("Failed", "True", "FailedJobs", at=RESUMED)]), False),
        (job(conditions=[condition("Failed", "True", "DeadlineExceeded", at=RESUMED)]), True),
    ],
)
def test_the_mark_is_a_condition(given: TrainJob, exceeded: bool) -> None:
    assert is_exceeded(given) is exceeded


def test_what_the_jobset_says_later_does_not_overrule_it() -> None:
    marked = job(conditions=[condition("Failed", "True", "DeadlineExceeded", at=RESUMED)])
    observed = msgspec.convert({"conditions": [condition("Failed", "True", "FailedJobs", at=RESUMED)]}, TrainJobStatus)
    wanted = with_failure(wanted_status(marked, observed, None, settled=True), "DeadlineExceeded", MESSAGE, NOW)
    assert wanted.conditions is not None
    assert [(c.type, c.reason, c.last_transition_time) for c in wanted.conditions] == [
        ("Failed", "DeadlineExceeded", RESUMED)
    ]
