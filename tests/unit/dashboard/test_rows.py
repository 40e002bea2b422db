# SPDX-License-Identifier: Apache-2.0
"""Rows of the dashboard's list, curves and time lines: pure functions of the object, of what was seen, and the time."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests import builders
from tests.builders import RUNNING, condition, train_job
from trainwright.api.times import format_micro_time, format_time
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.dashboard import contract
from trainwright.controller.dashboard.curves import Marker, points_of
from trainwright.controller.dashboard.details import row_of
from trainwright.controller.dashboard.timeline import MOST, timeline_of
from trainwright.controller.trainer.progress.curve import Sample
from trainwright.controller.views.job import History, observe, view_of

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def job(*, ago: float = 0.0, conditions: dict[str, str] | None = None, spec: Any = None, **progress: Any) -> TrainJob:
    """A job that reported so many seconds before NOW; `conditions`: types and their status."""
    at = format_micro_time(NOW - timedelta(seconds=ago))
    return train_job(
        "bert",
        "a",
        version="7",
        created=NOW - timedelta(hours=1),
        jobs=[RUNNING],
        progress=builders.progress(at=at, **progress) if progress else None,
        conditions=[
            condition(kind, value, f"{kind}Reason", f"{kind} because", at=NOW - timedelta(minutes=10 - index))
            for index, (kind, value) in enumerate((conditions or {}).items())
        ],
        **{"runtimeRef": {"name": "torch"}, **(spec or {})},
    )


BEGIN = NOW.timestamp()
CREATED = {"creationTimestamp": format_time(NOW - timedelta(hours=1))}


def row(*jobs: TrainJob) -> contract.JobRow:
    """Of the last one, after the others were seen."""
    history = History()
    for one in jobs:
        observe(one, history)
    return row_of(view_of(jobs[-1], history, NOW))


def test_all_that_a_report_tells() -> None:
    metrics = {"loss": "0.5", "current_step": "7", "total_steps": "9", "current_epoch": "1.5", "total_epochs": "3"}
    found = row(
        job(
            ago=10,
            progressPercentage=60,
            metrics=metrics,
            estimatedRemainingSeconds=100,
            spec={"trainer": {"numNodes": 4}},
        )
    )
    assert (found.state, found.percentage, found.nodes) == ("Running", 60, 4)
    assert (found.step, found.total_steps, found.epoch, found.total_epochs) == (7.0, 9.0, 1.5, 3.0)
    assert found.last_report == format_time(NOW - timedelta(seconds=10))
    assert found.runtime == contract.Runtime(kind="ClusterTrainingRuntime", name="torch")
    assert (found.created, found.finished) == (CREATED["creationTimestamp"], None)
    assert found.remaining == contract.RemainingView(
        seconds=90,
        late=False,
        at=format_time(NOW + timedelta(seconds=90)),
        late_at=format_time(NOW + timedelta(seconds=110)),
        source="report",
    )


def test_a_job_of_which_nothing_is_known() -> None:
    found = row(msgspec.convert({"metadata": {"name": "bert", "namespace": "a"}}, TrainJob))
    assert (found.state, found.percentage, found.remaining, found.loss) == ("Pending", None, None, None)
    assert (found.last_report, found.created, found.runtime.name) == (None, None, "")


def test_a_time_to_go_from_the_slope_says_so() -> None:
    found = row(job(ago=100, progressPercentage=10), job(progressPercentage=20))
    assert found.remaining is not None
    assert (found.remaining.seconds, found.remaining.source) == (800, "history")


def test_a_time_to_go_that_no_calendar_has_is_none() -> None:
    assert row(job(progressPercentage=1, estimatedRemainingSeconds=2**31 - 1)).remaining is not None
    nearly_flat = [job(ago=ago, progressPercentage=percent) for ago, percent in ((599, 1), (0, 2))]
    assert row(*nearly_flat).remaining is not None
    history = History()
    observe(job(), history)
    late = job(ago=-3600.0 * 24 * 365 * 7900, progressPercentage=1, estimatedRemainingSeconds=2**31 - 1)
    assert row_of(view_of(late, history, NOW)).remaining is None


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "warm", "1e999"])
def test_a_loss_that_is_no_number_is_told_and_not_drawn(value: str) -> None:
    found = row(job(ago=9, metrics={"loss": "0.5"}), job(metrics={"loss": value, "current_step": value}))
    assert found.loss == contract.Spark(metric="loss", value=value, points=[0.5])
    assert found.step is None
    msgspec.json.encode(found)


def test_a_sparkline_has_a_bound() -> None:
    found = row(*(job(ago=500 - step, metrics={"eval_loss": str(step)}) for step in range(500)))
    assert found.loss is not None
    assert (found.loss.metric, found.loss.value) == ("eval_loss", "499")
    assert 1 < len(found.loss.points) <= contract.SPARK_POINTS
    assert found.loss.points == sorted(found.loss.points)


def test_conditions_beside_the_state() -> None:
    found = row(job(conditions={"Stalled": "True", "Waiting": "True"}))
    assert (found.state, found.reason, found.message) == ("Waiting", "WaitingReason", "Waiting because")
    assert (found.stalled, found.stalled_message) == ("StalledReason", "Stalled because")
    assert found.waiting == "WaitingReason"
    for calm in ({"Stalled": "False", "Waiting": "False"}, {"Stalled": "True", "Waiting": "True", "Failed": "True"}):
        found = row(job(conditions=calm))
        assert (found.stalled, found.stalled_message, found.waiting) == ("", "", "")


def test_a_job_that_has_ended_has_its_time_and_none_to_go() -> None:
    found = row(job(ago=100, progressPercentage=10), job(progressPercentage=20, conditions={"Failed": "True"}))
    assert (found.state, found.reason, found.message) == ("Failed", "FailedReason", "Failed because")
    assert (found.finished, found.remaining) == (format_time(NOW - timedelta(minutes=10)), None)


def test_a_job_of_another_controller_and_one_that_is_deleted() -> None:
    theirs = job(spec={"managedBy": "kueue.x-k8s.io/multikueue"})
    assert row(theirs).managed_by == "kueue.x-k8s.io/multikueue"
    assert row(job(spec={"managedBy": "trainer.kubeflow.org/trainjob-controller"})).managed_by == ""
    assert theirs.metadata is not None
    theirs.metadata.deletion_timestamp = format_time(NOW)
    assert row(theirs).deleting


# ---------------------------------------------------------------------- curves


def sample(seconds: float, step: float, *, not_finite: str = "", **more: Any) -> Sample:
    known = {name: more.pop(name) for name in ("segment", "attempt") if name in more}
    values = {"current_step": step, **more}
    return Sample(at=BEGIN + seconds, values=values, not_finite=frozenset(not_finite.split()), **known)


def marks(seen: list[Sample], starts: dict[int, datetime] | None = None) -> list[tuple[int, int, int | None]]:
    found = points_of("u", seen, Marker(starts or {})).marks
    return [(mark.index, mark.segment, mark.attempt) for mark in found]


@pytest.mark.parametrize(
    ("attempts", "starts", "wanted"),
    [
        # Reports from before the attempt is known belong to the first.
        ((None, 1, 1), {}, [(0, None)]),
        # A second attempt begins a segment, whether the first was known or not.
        ((1, 1, 2), {}, [(0, 1), (2, 2)]),
        ((None, None, 2), {}, [(0, None), (2, 2)]),
        ((None, None, None), {2: 1}, [(0, None), (1, 2)]),
        # A late report of the first attempt, one whose attempt is not known, and clocks that were set back.
        ((1, 2, 1, 2, None), {}, [(0, 1), (1, 2)]),
        ((2, None), {1: 0}, [(0, 2)]),
    ],
)
def test_the_segments_of_attempts_do_not_mix(
    attempts: tuple[int | None, ...], starts: dict[int, int], wanted: list[tuple[int, int | None]]
) -> None:
    seen = [sample(second, second, attempt=attempt) for second, attempt in enumerate(attempts)]
    began = {attempt: NOW + timedelta(seconds=second) for attempt, second in starts.items()}
    assert [(index, attempt) for index, _, attempt in marks(seen, began)] == wanted


def test_segments_begin_with_falls_and_with_attempts() -> None:
    starts = {1: NOW - timedelta(hours=1), 2: NOW + timedelta(seconds=15)}
    seen = [sample(0, 1), sample(10, 2), sample(20, 3), sample(30, 1, segment=1)]
    assert marks(seen, starts) == [(0, 0, 1), (2, 1, 2), (3, 2, 2)]
    # The reports of an event go on where those before it ended.
    marker = Marker(starts)
    points_of("u", seen[:3], marker)
    more = points_of("u", seen[3:], marker)
    assert [(mark.index, mark.segment, mark.attempt) for mark in more.marks] == [(0, 2, 2)]


def test_a_clock_that_is_set_back_does_not_turn_the_axis() -> None:
    found = points_of("u", [sample(seconds, step) for step, seconds in enumerate((0, 60, -3600, 90))], Marker())
    assert found.times == sorted(found.times)
    assert found.steps == [0.0, 1.0, 2.0, 3.0]


def test_columns_have_a_place_for_each_report() -> None:
    seen = [sample(0, 1, loss=3.0), sample(1, 2, not_finite="loss grad"), sample(2, 3, acc=0.5)]
    found = points_of("u", seen, Marker())
    curves = {curve.name: (curve.values, curve.not_finite) for curve in found.curves}
    assert curves == {
        "loss": ([3.0, None, None], [1]),
        "grad": ([None, None, None], [1]),
        "acc": ([None, None, 0.5], []),
    }
    assert found.percentages == [None, None, None]


# ---------------------------------------------------------------------- time line


def test_the_time_line_is_in_the_order_of_times_and_bounded() -> None:
    def event(number: int, at: str, **more: Any) -> dict[str, Any]:
        about = {"kind": "Pod", "namespace": "a", "name": "p"}
        return {"involvedObject": about, "reason": f"R{number}", "lastTimestamp": at, **more}

    events = [
        event(1, "2026-11-22T11:59:00Z"),
        event(2, "", eventTime="2026-11-22T11:59:00.500000Z", lastTimestamp=None),
        event(3, "2026-11-22T11:59:01Z", type="Warning", series={"count": 5}),
        event(4, "", lastTimestamp=None),  # without any time
    ]
    failure = contract.FailureView(
        pod="p",
        container="node",
        who="rank 1",
        exit_code=None,
        reason="",
        message="",
        finished="2026-11-22T11:58:00Z",
        log=[],
    )
    found = timeline_of(job(conditions={"Failed": "True", "Suspended": "True"}), events, {1: failure})
    assert [one.reason for one in found] == [
        "R3", "R2", "R1", "Attempt 1 failed", "Suspended", "Failed", "Created",
    ]  # fmt: skip
    assert (found[0].severity, found[0].count) == ("warning", 5)
    assert found[3].message == "rank 1 failed first: no reason"
    assert [one.severity for one in found[4:6]] == ["normal", "warning"]
    many = [event(number, format_time(NOW + timedelta(seconds=number))) for number in range(2 * MOST)]
    latest = timeline_of(job(), many, {})
    assert (len(latest), latest[0].reason, latest[-1].reason) == (MOST + 1, f"R{2 * MOST - 1}", "Created")
