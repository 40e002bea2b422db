# SPDX-License-Identifier: Apache-2.0
"""The ring of a training's history: even over the whole run, bounded, and safe to read whatever its text holds."""

import json
import math
from datetime import UTC, datetime
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import train_job
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.controller.trainer.progress.curve import Sample, sample_of
from trainwright.controller.trainer.progress.ring import (
    KEY,
    METRICS,
    POINTS,
    TEXT_BYTES,
    Damaged,
    Ring,
    belongs,
    config_map_name,
    document_of,
    read,
)

START = datetime(2026, 11, 22, tzinfo=UTC).timestamp()
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.text(min_size=1, max_size=64).filter(lambda name: not any("\ud800" <= c <= "\udfff" for c in name))
REPORTS = st.lists(
    st.tuples(
        st.integers(0, 10**6),
        st.none() | st.integers(0, 100),
        st.dictionaries(st.sampled_from(["loss", "current_step", "a"]) | NAMES, NUMBERS, max_size=5),
        st.none() | st.integers(1, 5),
    ),
    max_size=60,
)


def at(second: float) -> float:
    return START + second


def add(
    ring: Ring, second: float, percentage: int | None, values: dict[str, float], attempt: int | None = None
) -> bool:
    return ring.add(Sample(at=at(second), percentage=percentage, values=values, attempt=attempt))


def trained(reports: int, **options: int) -> Ring:
    """A ring of a run that reports each second."""
    ring = Ring(**options)
    for second in range(reports):
        add(ring, second, 100 * second // reports, {"loss": 1 / (1 + second), "current_step": float(second)}, 1)
    return ring


def test_ten_thousand_reports_cover_the_whole_run_evenly() -> None:
    ring = trained(10_000)
    text = ring.encode()
    assert len(text.encode()) <= TEXT_BYTES
    points = Ring.decode(text).samples()
    assert POINTS / 2 <= len(points) <= POINTS
    assert (points[0].step, points[-1].step) == (0, 9_999)
    gaps = [later.at - earlier.at for earlier, later in pairwise(points)]
    # The last row may stand for fewer reports than the others.
    assert len(set(gaps[:-1])) <= 2
    assert max(gaps) <= 64


def test_the_extremes_of_losses_survive_the_thinning() -> None:
    ring = Ring(points=20)
    high, low = {101: {"loss": 50.0}}, {250: {"loss": -7.0, "lr": -1.0}}
    for second in range(400):
        loss = {33: 9.0, 77: -2.0}.get(second, 1.0)
        values = {"loss": loss, "lr": loss, "current_step": float(second)}
        ring.add(Sample(at=at(second), values=values, lows=low.get(second, {}), highs=high.get(second, {})))
    found = Ring.decode(ring.encode()).samples()
    assert found == ring.samples()
    highs, lows = ([edge(one, "loss") for one in found] for edge in (Sample.high, Sample.low))
    # Each once, in the row that stands for its step.
    for edges, step, value in ((highs, 33, 9.0), (highs, 101, 50.0), (lows, 77, -2.0), (lows, 250, -7.0)):
        place = edges.index(value)
        assert edges.count(value) == 1
        assert (found[place - 1].step or 0) < step <= (found[place].step or 0)
    assert {name for one in found for name in (*one.lows, *one.highs)} == {"loss"}


def test_the_newest_report_is_always_the_last_point() -> None:
    ring = Ring(points=8)
    for second in range(500):
        add(ring, second, None, {"loss": float(second)})
        assert ring.curve("loss")[-1] == second
        assert len(ring) <= 8
    assert ring.samples()[0].at == START


def test_the_same_report_again_is_one_point() -> None:
    ring = Ring()
    report = Sample(at=START, percentage=4, values={"loss": 0.123456789, "total_steps": 9.0})
    assert [ring.add(report), ring.add(report), add(ring, 0, 5, {})] == [True, False, True]
    assert [(point.percentage, dict(point.values)) for point in ring.samples()] == [(4, {"loss": 0.123457}), (5, {})]


def test_a_fall_begins_a_segment_and_a_restart_an_attempt() -> None:
    ring = Ring()
    for second, (step, attempt) in enumerate([(1, 1), (9, 1), (4, 2), (5, 2), (5, 3)]):
        add(ring, second, None, {"current_step": float(step)}, attempt)
    assert [(point.segment, point.attempt) for point in ring.samples()] == [(0, 1), (0, 1), (1, 2), (1, 2), (1, 3)]
    ring = Ring()
    for second, percentage in enumerate([10, 60, None, 20, 5]):
        add(ring, second, percentage, {})
    assert [point.segment for point in ring.samples()] == [0, 0, 0, 0, 1]


def test_the_end_of_an_attempt_stays_between_two_thinnings() -> None:
    ring = trained(POINTS + 50)  # every second report is a row now
    add(ring, 1_000, 99, {"loss": 7.0, "current_step": 1_000.0}, 1)
    add(ring, 1_001, 50, {"loss": 8.0, "current_step": 500.0}, 2)
    assert [point.attempt for point in ring.samples()[-2:]] == [1, 2]
    assert ring.curve("loss")[-2:] == [7.0, 8.0]


@given(REPORTS, st.integers(4, 40))
def test_text_and_back(reports: list[tuple[int, int | None, dict[str, float], int | None]], points: int) -> None:
    ring = Ring(points=points)
    for second, percentage, metrics, attempt in reports:
        add(ring, second, percentage, metrics, attempt)
    text = ring.encode()
    assert len(text.encode()) <= TEXT_BYTES
    again = Ring.decode(text, points=points)
    assert again.samples() == ring.samples()
    assert again.encode() == text
    assert len(ring) <= points
    for point in ring.samples():
        for name, number in point.values.items():
            told = [metrics[name] for _, _, metrics, _ in reports if name in metrics]
            assert any(math.isclose(number, one, rel_tol=1e-5) for one in told)


@given(st.lists(st.dictionaries(NAMES, NUMBERS, max_size=80), max_size=8))
@settings(max_examples=25, deadline=None)
def test_whatever_the_names_are_the_text_is_bounded(reports: list[dict[str, float]]) -> None:
    ring = Ring()
    for second, metrics in enumerate(reports):
        add(ring, second, None, metrics)
    assert len(ring.metrics) <= METRICS
    assert len(ring.encode().encode()) <= TEXT_BYTES


def test_many_long_names_leave_places_for_the_losses() -> None:
    ring = Ring()
    hostile = {f"{index}" + "\x00\N{PILE OF POO}" * 31: 1e-300 for index in range(256)}
    for second in range(POINTS):
        add(ring, second, None, hostile | {"eval_loss": 0.5, "loss": 0.5, "current_step": float(second)})
    assert {"eval_loss", "loss", "current_step"} <= set(ring.metrics)
    assert ring.left_out > 200
    text = ring.encode()
    assert len(text.encode()) <= TEXT_BYTES
    assert Ring.decode(text).left_out == ring.left_out


def test_half_a_surrogate_pair_is_left_out() -> None:
    ring = Ring()
    add(ring, 0, 1, {"\ud800": 1.0})
    assert (ring.metrics, ring.left_out) == ((), 1)
    assert Ring.decode(ring.encode()).samples() == ring.samples()


def test_names_that_are_no_longer_used_make_place() -> None:
    ring = Ring(points=8)
    for second in range(2000):
        add(ring, second, None, {f"m{second}": 1.0})
    assert len(ring.metrics) > 1
    assert max(int(name[1:]) for name in ring.metrics) > 1000


def test_times_may_be_anything() -> None:
    ring = Ring()
    times = [datetime(9999, 12, 31, tzinfo=UTC).timestamp(), datetime(1, 1, 2, tzinfo=UTC).timestamp(), START]
    for one in times:
        ring.add(Sample(at=one, percentage=1))
    assert [point.at for point in Ring.decode(ring.encode()).samples()] == times


def test_a_report_has_its_finite_numbers_and_the_names_of_the_others() -> None:
    told = {"a": "1", "b": "nan", "c": "-Infinity", "d": "x", "e": "1e-3", "f": ""}
    status = TrainerStatus(last_updated_time="2026-11-22T00:00:01.5Z", progress_percentage=7)
    found = sample_of(status, told, 2)
    wanted = Sample(at=at(1.5), percentage=7, values={"a": 1.0, "e": 0.001}, not_finite=frozenset("bc"), attempt=2)
    assert found == wanted
    assert sample_of(TrainerStatus(last_updated_time=""), told) is None


GOOD = json.loads(trained(3).encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        json.dumps({**GOOD, "version": 2}),
        json.dumps({**GOOD, "seconds": [1]}),
        json.dumps({**GOOD, "percentage": [1, 2, 300]}),
        json.dumps({**GOOD, "segment": [0, 0, -1]}),
        json.dumps({**GOOD, "attempt": [1, 1, 10**9]}),
        json.dumps({**GOOD, "metrics": {"loss": [1, 2]}}),
        json.dumps({**GOOD, "metrics": {"loss": [1, 2, "x"]}}),
        json.dumps({**GOOD, "start": 10**18}),
        json.dumps({**GOOD, "start": 10**30}),
        json.dumps({**GOOD, "stride": 0}),
        json.dumps({**GOOD, "metrics": {str(index): [1, 2, 3] for index in range(METRICS + 1)}}),
        json.dumps(GOOD).replace("1.0", "1e999"),
        "[" * 100_000,
        '{"\\ud800": 1}',
    ],
)
def test_what_is_no_ring_is_refused(text: str) -> None:
    with pytest.raises(Damaged):
        Ring.decode(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(Damaged):
        Ring.decode(text)


def test_a_text_with_more_rows_is_thinned() -> None:
    text = trained(2 * POINTS, points=2 * POINTS).encode(limit=10**6)
    assert len(Ring.decode(text)) <= POINTS


def job(uid: str = "u-1") -> TrainJob:
    return train_job("job", "team", uid=uid)


def test_the_config_map_is_that_of_one_job() -> None:
    document = document_of(job(), trained(5).encode())
    found = msgspec.convert(document, ConfigMap)
    assert document["metadata"]["name"] == config_map_name("job") == "job-progress"
    assert belongs(found, job())
    assert not belongs(found, job("u-2"))
    document["metadata"]["labels"] = {}
    assert not belongs(msgspec.convert(document, ConfigMap), job())
    assert read(found.data).samples() == trained(5).samples()
    for data in (None, {}, {KEY: "x"}):
        with pytest.raises(Damaged):
            read(data)
