# SPDX-License-Identifier: Apache-2.0
"""Which cause becomes the condition `Waiting`, and how it is written."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.builders import START, condition, train_job
from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.objects import Document
from trainwright.api.times import Now
from trainwright.api.trainer.v1alpha1 import TrainJob, TrainJobStatus
from trainwright.controller.trainer.job.status import EXPLAINING, Finding, wanted_status, with_finding
from trainwright.controller.trainer.why import Explanation
from trainwright.controller.trainer.why.waiting import condition_of, told
from trainwright.plugins.contract import JobState
from trainwright.plugins.contract.picture import Cause, Severity

NOW = START
LATER = NOW + dt.timedelta(minutes=1)


def cause(reason: str = "NoFreeNode", message: str = "m", severity: Severity = Severity.TEMPORARY) -> Cause:
    return Cause(reason=reason, message=message, severity=severity)


def with_cause(conditions: Sequence[Condition], cause: Cause | None, now: Now) -> list[Condition]:
    return with_finding(conditions, Finding(frozenset(EXPLAINING), condition_of(cause)), now)


def job(*conditions: Document, **spec: Any) -> TrainJob:
    return train_job(conditions=conditions, **spec)


@pytest.mark.parametrize(
    ("severity", "shown"),
    [
        (Severity.STUCK, True),
        (Severity.TEMPORARY, True),
        (Severity.WAITS, False),
        (Severity.DELIBERATE, False),
        (Severity.ENDED, False),
    ],
)
def test_only_what_asks_for_attention_is_shown(severity: Severity, shown: bool) -> None:
    explanation = Explanation(namespace="n", name="j", outcome=JobState.WAITING, cause=cause(severity=severity))
    assert (told(job(), explanation) is not None) is shown


def test_what_blocked_says_is_not_said_twice() -> None:
    explanation = Explanation(namespace="n", name="j", outcome=JobState.STUCK, cause=cause())
    assert told(job(condition("Blocked")), explanation) is None


@pytest.mark.parametrize(
    ("reason", "written"),
    [("NoFreeNode", "NoFreeNode"), ("1. my-reason!", "myreason"), ("Zwölf", "Zwlf"), ("", "Waiting")],
)
def test_the_reason_is_one_that_the_api_server_takes(reason: str, written: str) -> None:
    found = condition_of(cause(reason))
    assert found is not None
    assert found.reason == written


def test_the_time_is_that_of_the_cause() -> None:
    had = [msgspec.convert(condition("Suspended"), Condition)]
    first = with_cause(had, cause(), lambda: NOW)
    assert [(one.type, one.reason, one.last_transition_time) for one in first[1:]] == [
        ("Waiting", "NoFreeNode", "2026-01-01T00:00:00Z")
    ]
    again = with_cause(first, cause(message="other"), lambda: LATER)
    assert (again[1].message, again[1].last_transition_time) == ("other", "2026-01-01T00:00:00Z")
    assert with_cause(again, cause(message="other"), lambda: LATER) == again
    other = with_cause(again, cause("ImageMissing"), lambda: LATER)
    assert (other[1].reason, other[1].last_transition_time) == ("ImageMissing", "2026-01-01T00:01:00Z")
    assert with_cause(other, None, lambda: LATER) == had


def test_an_end_removes_it_and_other_conditions_come_first() -> None:
    waiting = job(condition("Waiting", reason="NoFreeNode"))
    ended = msgspec.convert(
        {"conditions": [condition("Waiting", reason="NoFreeNode"), condition("Complete")]}, TrainJobStatus
    )
    status = wanted_status(waiting, ended, None, settled=True, now=lambda: NOW)
    assert [one.type for one in status.conditions or ()] == ["Complete"]
    suspended = job(condition("Waiting", reason="QueueFull"), suspend=True)
    status = wanted_status(suspended, None, None, settled=True, now=lambda: NOW)
    assert [one.type for one in status.conditions or ()] == ["Suspended", "Waiting"]
