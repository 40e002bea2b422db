# SPDX-License-Identifier: Apache-2.0
"""When a finished job and its objects are due to be deleted."""

import datetime as dt

import pytest

from tests.builders import START, condition, train_job
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.job.cleanup import (
    ANNOTATION_JOB,
    ANNOTATION_OBJECTS,
    Due,
    Lifetimes,
    due,
    lifetimes_of,
    problems,
)


def job(annotations: dict[str, str] | None = None, *, ended: str = "Complete") -> TrainJob:
    return train_job(annotations=annotations, conditions=[condition(ended)] if ended else None)


@pytest.mark.parametrize(
    ("lifetimes", "after", "expected"),
    [
        (Lifetimes(), 10**6, Due()),
        (Lifetimes(job=60), 59, Due(requeue_after=1)),
        (Lifetimes(job=60), 60, Due(job=True)),
        (Lifetimes(job=0), 0, Due(job=True)),
        (Lifetimes(job=60, objects=10), 4, Due(requeue_after=6)),
        (Lifetimes(job=60, objects=10), 10, Due(objects=True, requeue_after=50)),
        (Lifetimes(objects=10), 11, Due(objects=True)),
        (Lifetimes(job=60, objects=70), 61, Due(job=True)),
    ],
)
def test_what_is_due(lifetimes: Lifetimes, after: int, expected: Due) -> None:
    for ended in ("Complete", "Failed"):
        assert due(job(ended=ended), lifetimes, START + dt.timedelta(seconds=after)) == expected


@pytest.mark.parametrize("ended", ["", "Blocked", "Suspended"])
def test_a_job_that_has_not_ended_is_kept(ended: str) -> None:
    assert due(job(ended=ended), Lifetimes(job=0, objects=0), START + dt.timedelta(days=1)) == Due()


def test_annotations_take_precedence() -> None:
    default = Lifetimes(job=60, objects=10)
    assert lifetimes_of(job(), default) == default
    assert lifetimes_of(job({ANNOTATION_JOB: "5"}), default) == Lifetimes(job=5, objects=10)
    both = {ANNOTATION_JOB: "never", ANNOTATION_OBJECTS: "0"}
    assert lifetimes_of(job(both), default) == Lifetimes(job=None, objects=0)


@pytest.mark.parametrize("value", ["", "-1", "1.5", "1h", "Never", "2147483648", "9" * 5000, "٣", " 5"])
def test_a_value_that_cannot_be_used_counts_as_not_set(value: str) -> None:
    wrong = job({ANNOTATION_JOB: value})
    assert list(problems(wrong)) == [(ANNOTATION_JOB, value)]
    assert lifetimes_of(wrong, Lifetimes(job=60)) == Lifetimes(job=60)
