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
from trainwright.api.trainer.v1alpha1.history import Point
from trainwright.controller.dashboard import contract
from trainwright.controller.dashboard.curves import Marker, not_finite_in, points_of, report_of, with_notes
from trainwright.controller.dashboard.details import MOST, row_of, timeline_of
from trainwright.controller.views.job import History, observe

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


CREATED = {"creationTimestamp": format_time(NOW - timedelta(hours=1))}


def row(*jobs: TrainJob) -> contract.JobRow:
    """Of the last one, after the others were seen."""
    history = History()
    for one in jobs:
        observe(one, history)
    return row_of(jobs[-1], history, NOW)


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
    assert (found.state, found.percentage, found.age_seconds, found.nodes) == ("Running", 60, 10, 4)
    assert (found.step, found.total_steps, found.epoch, found.total_epochs) == (7.0, 9.0, 1.5, 3.0)
    assert found.last_report == format_time(NOW - timedelta(seconds=10))
    assert found.runtime == contract.Runtime(kind="ClusterTrainingRuntime", name="torch")
    assert (found.created, found.finished, found.version) == (CREATED["creationTimestamp"], None, "7")
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
    assert (found.last_report, found.age_seconds, found.created, found.runtime.name) == (None, None, None, "")


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
    assert row_of(late, history, NOW).remaining is None


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
    assert (found.waiting, found.waiting_message) == ("WaitingReason", "Waiting because")
    for calm in ({"Stalled": "False", "Waiting": "False"}, {"Stalled": "True", "Waiting": "True", "Failed": "True"}):
        found = row(job(conditions=calm))
        assert (found.stalled, found.stalled_message, found.waiting, found.waiting_message) == ("", "", "", "")


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


def point(seconds: float, step: float, *, segment: int = 0, attempt: int | None = None, **metrics: float) -> Point:
    told = {"current_step": step, **metrics}
    return Point(NOW + timedelta(seconds=seconds), None, told, segment, attempt)


def test_segments_begin_with_falls_and_with_attempts() -> None:
    starts = {1: NOW - timedelta(hours=1), 2: NOW + timedelta(seconds=15)}
    seen = [report_of(point(seconds, step, segment=segment)) for seconds, step, segment in
            ((0, 1, 0), (10, 2, 0), (20, 3, 0), (30, 1, 1))]  # fmt: skip
    found = points_of("u", seen, Marker(starts))
    assert [(mark.index, mark.segment, mark.attempt) for mark in found.marks] == [(0, 0, 1), (2, 1, 2), (3, 2, 2)]
    # The reports of an event go on where those before it ended.
    marker = Marker(starts)
    points_of("u", seen[:3], marker)
    more = points_of("u", seen[3:], marker)
    assert [(mark.index, mark.segment, mark.attempt) for mark in more.marks] == [(0, 2, 2)]


def test_a_clock_that_is_set_back_does_not_turn_the_axis() -> None:
    found = points_of(
        "u", [report_of(point(seconds, step)) for step, seconds in enumerate((0, 60, -3600, 90))], Marker()
    )
    assert found.times == sorted(found.times)
    assert found.steps == [0.0, 1.0, 2.0, 3.0]


def test_a_metric_that_is_not_finite_goes_to_its_own_report_of_a_second() -> None:
    points = [point(0, 1, loss=2.0), point(0, 2), point(0, 3, loss=1.0)]
    assert [one.not_finite for one in with_notes(points, [(NOW, "loss")])] == [set(), {"loss"}, set()]
    assert with_notes([], [(NOW, "loss")]) == []


def test_columns_have_a_place_for_each_report() -> None:
    seen = [
        report_of(point(0, 1, loss=3.0)),
        report_of(point(1, 2), frozenset({"loss", "grad"})),
        report_of(point(2, 3, acc=0.5)),
    ]
    found = points_of("u", seen, Marker())
    curves = {curve.name: (curve.values, curve.not_finite) for curve in found.curves}
    assert curves == {
        "loss": ([3.0, None, None], [1]),
        "grad": ([None, None, None], [1]),
        "acc": ([None, None, 0.5], []),
    }
    assert found.percentages == [None, None, None]


def test_a_value_that_was_not_finite_is_found_again_in_a_thinned_history() -> None:
    kept = [point(seconds, seconds, loss=1.0) for seconds in (0, 10)] + [point(20, 20)]
    notes = [(NOW + timedelta(seconds=15.7), "loss"), (NOW + timedelta(seconds=99), "grad")]
    assert [seen.not_finite for seen in with_notes(kept, notes)] == [frozenset(), frozenset(), {"loss", "grad"}]
    assert with_notes([], notes) == []
    assert not_finite_in(job(metrics={"a": "nan", "b": "-inf", "c": "1", "d": "warm"})) == {"a", "b"}


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
        replicated_job="node",
        job_index=0,
        rank=0,
        exit_code=None,
        reason="",
        message="",
        finished="2026-11-22T11:58:00Z",
        log=[],
    )
    found = timeline_of(job(conditions={"Failed": "True", "Suspended": "True"}), events, {1: failure})
    assert [one.reason for one in found] == [
        "R3", "R2", "R1", "Failed", "SuspendedReason", "FailedReason", "Created",
    ]  # fmt: skip
    assert (found[0].severity, found[0].count) == ("warning", 5)
    assert found[3].message == "pod p of attempt 1 failed first: no reason"
    assert [one.severity for one in found[4:6]] == ["normal", "warning"]
    many = [event(number, format_time(NOW + timedelta(seconds=number))) for number in range(2 * MOST)]
    latest = timeline_of(job(), many, {})
    assert (len(latest), latest[0].reason) == (MOST, f"R{2 * MOST - 1}")
