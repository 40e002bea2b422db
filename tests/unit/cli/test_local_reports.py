# SPDX-License-Identifier: Apache-2.0
"""`trainwright local run`: which reports of a training get a line, and what it says."""

from datetime import UTC, datetime, timedelta

from tests.builders import RUNNING, condition, progress, train_job
from trainwright.api.objects import Document, wire
from trainwright.api.times import format_micro_time
from trainwright.controller.cli.local.follower import QUIET, ReportLines
from trainwright.controller.runtime.testing.clock import ManualClock

START = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def job(reported: datetime | None, percentage: int | None = None, left: int | None = None, **metrics: str) -> Document:
    if reported is None:
        return wire(train_job(jobs=[RUNNING]))
    numbers = {"progressPercentage": percentage, "estimatedRemainingSeconds": left}
    told = progress(at=format_micro_time(reported), metrics=metrics, **numbers)
    return wire(train_job(jobs=[RUNNING], progress=told))


def test_a_report_is_a_line() -> None:
    reports = ReportLines(lambda: START)
    assert reports.line(job(None)) == ""
    told = {"current_step": "51", "total_steps": "150", "loss": "0.0797312"}
    assert reports.line(job(START, 34, 17, **told)) == "34%, 17s to go, step 51 of 150, loss 0.07973"


def test_the_same_percentage_is_told_once_a_minute() -> None:
    clock = ManualClock(START)
    reports = ReportLines(clock)
    lines = []
    for seconds in range(0, 130, 5):
        clock.now = START + timedelta(seconds=seconds)
        lines.append(reports.line(job(clock.now, 3, current_step=str(seconds))))
    assert [index * 5 for index, line in enumerate(lines) if line] == [0, QUIET.seconds, 2 * QUIET.seconds]
    assert lines[0] == "3%, step 0"
    clock.now += timedelta(seconds=1)
    assert reports.line(job(clock.now, 4)).startswith("4%")


def test_the_end_is_told_at_once_and_once() -> None:
    reports = ReportLines(lambda: START)
    assert reports.line(job(START, 99)) == "99%"
    end = job(START + timedelta(seconds=1), 100)
    assert reports.line(end) == "the rank that reports is done"
    assert reports.line(end) == ""
    over = job(START + timedelta(seconds=2), 100)
    over["status"]["conditions"] = [condition("Complete")]
    assert reports.line(over) == "100%"


def test_a_training_without_a_percentage_and_odd_values() -> None:
    reports = ReportLines(lambda: START)
    assert reports.line(job(START, loss="nan")) == "loss nan"
    assert "\x1b" not in ReportLines(lambda: START).line(job(START, loss="\x1b[2J"))
