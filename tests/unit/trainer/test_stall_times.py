# SPDX-License-Identifier: Apache-2.0
"""When a job counts as stalled, on a clock of the test (progress P-91, P-92, scenario 70)."""

import pytest

from tests.builders import condition, counts, progress, train_job
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.job.stall import StallClock, is_running, problems, stall_after, stall_of

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


def test_a_report_that_returns_ends_it() -> None:
    assert told((0, job()), (500, job("t1", percent=1))) == ("", 120.0)


@pytest.mark.parametrize("pause", [job("t1", ready=0), job("t1", suspend=True, conditions=("Suspended",))])
def test_time_without_pods_does_not_count(pause: TrainJob) -> None:
    assert not is_running(pause)
    assert told((0, job("t1", percent=1)), (500, pause), (500, job("t1", percent=1))) == ("", 120.0)


def test_time_of_an_attempt_before_does_not_count() -> None:
    """All ranks were restarted, and nobody saw the job without pods."""
    clock, one = StallClock.begin(0.0), job("t1", percent=1, step="7")
    for now, attempt in ((0.0, 0), (119.0, 0), (121.0, 1), (240.0, 1)):
        clock.see(one, now, running=True, attempt=attempt)
        assert stall_of(clock, AFTER, now)[0] is None
    clock.see(one, 241.0, running=True, attempt=1)
    stall, _ = stall_of(clock, AFTER, 241.0)
    assert stall is not None


def test_time_before_this_process_looked_does_not_count() -> None:
    assert told((10_000, job("2020-01-01T00:00:00Z", percent=1))) == ("", 120.0)


def test_messages_name_the_place_and_stay_the_same() -> None:
    clock = StallClock.begin(0.0)
    clock.see(job("t1", percent=40, step="7"), 0, running=True)
    clock.see(job("t2", percent=40, step="7"), 100, running=True)
    first, _ = stall_of(clock, AFTER, 130)
    later, _ = stall_of(clock, AFTER, 140)
    assert first == later
    assert first is not None
    assert first.message == ("reports come, and have shown step 7 and 40 % for 2 min; look at its logs, it may hang")


@pytest.mark.parametrize(
    ("value", "default", "seconds"),
    [(None, None, None), (None, 900.0, 900.0), ("5m", None, 300.0), ("5m", 900.0, 300.0), ("1m", 900.0, 900.0)],
)
def test_the_annotation_goes_before_the_configuration(
    value: str | None, default: float | None, seconds: float | None
) -> None:
    annotated = job(annotations={ANNOTATION: value} if value else {})
    assert stall_after(annotated, {}, default) == seconds


def test_the_annotation_of_the_runtime_counts_where_the_job_has_none() -> None:
    assert stall_after(job(), {ANNOTATION: "10m"}, 900.0) == 600.0
    assert stall_after(job(annotations={ANNOTATION: "5m"}), {ANNOTATION: "10m"}, None) == 300.0


@pytest.mark.parametrize("value", ["", "5", "1m", "-5m", "soon", "99999999999h"])
def test_an_annotation_that_cannot_be_used_is_named(value: str) -> None:
    found = problems(job(annotations={ANNOTATION: value}))
    assert [(problem.annotation, problem.value) for problem in found] == [(ANNOTATION, value)]
