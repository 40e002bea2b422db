# SPDX-License-Identifier: Apache-2.0
"""When a job counts as stalled, on a clock of the test (progress P-91, P-92, scenario 70)."""

import pytest

from tests.builders import condition, counts, progress, train_job
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.job.stall import StallClock, is_running, problems, stall_of

ANNOTATION = "trainwright.dev/progress-stall-after"
AFTER = 120.0


def job(
    reported: str = "",
    *,
    percent: int | None = None,
    step: str = "",
    ready: int = 1,
    suspend: bool = False,
    annotations: dict[str, str] | None = None,
    conditions: tuple[str, ...] = (),
) -> TrainJob:
    told = progress(at=reported, metrics={"current_step": step} if step else {}, progressPercentage=percent)
    return train_job(
        annotations=annotations,
        suspend=suspend,
        jobs=[counts(active=1, ready=ready)],
        conditions=[condition(one) for one in conditions],
        progress=told if reported else None,
    )


def told(*seen: tuple[float, TrainJob]) -> tuple[str, float]:
    """The reason after these sights, and the seconds until that may change; empty: it does not stand still."""
    clock = StallClock.begin(seen[0][0])
    now = 0.0
    for now, one in seen:
        clock.see(one, now, running=is_running(one))
    stall, left = stall_of(clock, AFTER, now)
    return (stall.reason if stall is not None else ""), left


def test_reports_that_go_on_are_no_standstill() -> None:
    assert told((0, job("t1", percent=1)), (100, job("t2", percent=2))) == ("", 120.0)
    assert told((0, job("t1", percent=1)), (100, job("t1", percent=1))) == ("", 20.0)
    # Progress that goes back is progress, and the clock of a job may say anything.
    assert told((0, job("t1", percent=9, step="9")), (100, job("t2", percent=1, step="1"))) == ("", 120.0)
    assert told((0, job("2030", percent=1)), (100, job("1999", percent=2))) == ("", 120.0)


def test_silence_is_told_from_reports_that_never_came() -> None:
    assert told((0, job("t1", percent=1)), (120, job("t1", percent=1)))[0] == "NoReport"
    assert told((0, job()), (119, job())) == ("", 1.0)
    assert told((0, job()), (120, job()))[0] == "NeverReported"


def test_reports_that_say_the_same_are_a_standstill_too() -> None:
    assert told((0, job("t1", percent=1, step="7")), (60, job("t2", percent=1, step="7"))) == ("", 60.0)
    assert told((0, job("t1", percent=1, step="7")), (120, job("t2", percent=1, step="7")))[0] == "NoAdvance"
    assert told((0, job("t1", percent=1, step="7")), (120, job("t2", percent=1, step="8")))[0] == ""
    # Reports without percentage and step cannot show an advance.
    assert told((0, job("t1")), (120, job("t2"))) == ("", 120.0)


@pytest.mark.parametrize("pause", [job("t1", ready=0), job("t1", suspend=True, conditions=("Suspended",))])
def test_time_without_pods_does_not_count(pause: TrainJob) -> None:
    assert not is_running(pause)
    assert told((0, job("t1", percent=1)), (500, pause), (500, job("t1", percent=1))) == ("", 120.0)


def test_messages_name_the_place_and_stay_the_same() -> None:
    clock = StallClock.begin(0.0)
    clock.see(job("t1", percent=40, step="7"), 0, running=True)
    clock.see(job("t2", percent=40, step="7"), 100, running=True)
    first, _ = stall_of(clock, AFTER, 130)
    later, _ = stall_of(clock, AFTER, 140)
    assert first == later
    assert first is not None
    assert first.message == ("reports come, and have shown step 7 and 40 % for 2 min; look at its logs, it may hang")


@pytest.mark.parametrize("value", ["", "5", "1m", "-5m", "soon", "99999999999h"])
def test_an_annotation_that_cannot_be_used_is_named(value: str) -> None:
    found = problems(job(annotations={ANNOTATION: value}))
    assert [(problem.annotation, problem.value) for problem in found] == [(ANNOTATION, value)]
