# SPDX-License-Identifier: Apache-2.0
"""The file of each value that a Reporter keeps in the output of the training."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.progress.reporters import StillReporter
from trainwright import progress
from trainwright.controller.runtime.testing.clock import ManualClock

Make = Callable[..., StillReporter]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Path) -> Path:
    monkeypatch.setenv(progress.OUTPUT_DIR, str(tmp_path))
    return tmp_path / progress.CURVE


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def kept(file: Path, *names: str) -> list[tuple[Any, ...]]:
    """Of each point, these of its values."""
    found = [line for line in lines(file) if "metrics" in line]
    return [tuple({**line, **line["metrics"]}.get(name) for name in names) for line in found]


def test_300_steps_are_300_points_and_the_spike_is_one_of_them(make: Make, file: Path) -> None:
    reporter = make(total=300)
    for step in range(1, 301):
        reporter.update(step=step, loss=9.0 if step == 150 else 1.0 / step)
    reporter.tick(last=True)
    assert kept(file, "step", "loss") == [(step, 9.0 if step == 150 else 1.0 / step) for step in range(1, 301)]
    assert lines(file)[0] == {"attempt": 1, "total": 300, "epochs": None, "time": lines(file)[1]["time"]}


def test_what_a_point_tells(make: Make, file: Path, clock: ManualClock[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: clock.now + 1e9)
    reporter = make()
    reporter.update(step=1)  # no value, no point
    reporter.update(step=1, loss=0.5)
    reporter.update(epoch=2, metrics={"accuracy": float("nan"), "stage": "warm"})  # of the same step
    clock.now += 1.5
    reporter.update(step=2, loss=0.25, percentage=7)
    clock.now += 1.0
    reporter.total = 10
    reporter.tick(last=True)
    assert lines(file) == [
        {"attempt": 1, "total": 10, "epochs": None, "time": 1000001000.0},
        {"time": 1000001000.0, "step": 1, "epoch": 2, "metrics": {"loss": 0.5, "accuracy": "NaN"}},
        {"time": 1000001001.5, "step": 2, "epoch": 2, "percentage": 7, "metrics": {"loss": 0.25}},
    ]


def test_the_next_attempt_goes_on_after_what_the_last_one_left(
    make: Make, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(b'{"attempt":1,"time":1.0}\n{"time":1.0,"step":1,"metrics":{"loss":1.0}}\n{"time":2.0,"st')
    monkeypatch.setenv(progress.ATTEMPTS[1], "1")
    reporter = make()
    reporter.update(step=1, loss=2.0)
    reporter.tick(last=True)
    text = file.read_text().splitlines()
    assert text[2] == '{"time":2.0,"st'
    assert [json.loads(line).get("attempt") for line in text[3:]] == [2, None]


@pytest.mark.parametrize("limit", ["CURVE_POINTS", "CURVE_BYTES"])
def test_a_file_that_is_full_is_thinned_evenly_and_keeps_the_extremes(
    make: Make, file: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(progress, limit, {"CURVE_POINTS": 100, "CURVE_BYTES": 8000}[limit])
    reporter = make()
    spikes = {0: -3.0, 401: 9.0, 777: float("nan"), 990: 5.0}
    for step in range(1000):
        reporter.update(step=step, loss=spikes.get(step, 1.0))
        if step % 7 == 0:
            reporter.tick()
    reporter.tick(last=True)
    found = lines(file)[1:]
    assert len(found) <= 101
    assert file.stat().st_size <= 8000 + 200
    assert sum(line.get("count", 1) for line in found) == 1000
    assert (found[0]["low"], found[-1]["step"]) == ({"loss": -3.0}, 999)
    assert [line["high"]["loss"] for line in found if line.get("high")] == [9.0, 5.0]
    assert [line["not_finite"] for line in found if "not_finite" in line] == [["loss"]]
    counts = [line.get("count", 1) for line in found[:-1]]
    assert max(counts) <= 2 * min(counts)
    # Another process goes on as coarsely.
    again = make()
    for step in range(1000, 1032):
        again.update(step=step, loss=1.0)
    again.tick(last=True)
    assert lines(file)[len(found) + 2]["count"] == max(counts)


def test_a_file_that_cannot_be_thinned_stays_as_fine_as_it_is(
    make: Make, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "CURVE_BYTES", 100)
    reporter, places = make(), list[str]()

    def replace(_: str, target: str) -> None:
        places.append(target)
        raise OSError("no space left")

    with monkeypatch.context() as full:
        full.setattr("os.replace", replace)
        for step in range(10):
            reporter.update(step=step, loss=1.0)
            reporter.tick()
    assert str(file) in places
    assert not file.with_name(f"{file.name}.new").exists()
    reporter.update(step=10, loss=1.0)
    reporter.tick(last=True)
    assert kept(file, "count") == [(2,)] * 5 + [(None,)]


def test_the_thread_survives_values_that_it_cannot_keep(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_BATCH", 1)
    reporter, ticks = make(every=60), list[bool]()

    def tick(*, last: bool) -> None:
        ticks.append(last)
        reporter.silence()

    monkeypatch.setattr(reporter, "_keep", lambda: 1 / 0)
    monkeypatch.setattr(reporter, "_tick", tick)
    reporter.update(step=1, loss=1.0)  # wakes the thread for the batch, and then for the first report
    reporter._run()
    assert ticks == [False]


def test_attempts_and_falls_of_the_step_are_not_joined(make: Make, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "CURVE_POINTS", 4)
    reporter = make()
    for step in (1, 2, 3, 1, 2):
        reporter.update(step=step, loss=1.0)
        reporter.tick()
    reporter.tick(last=True)
    assert kept(file, "step", "count") == [(2, 2), (3, None), (2, 2)]


def test_a_file_that_cannot_be_written_is_warned_of_once_and_reports_go_on(
    make: Make, file: Path, target: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.mkdir()
    reporter = make()
    for step in (1, 2):
        reporter.update(step=step, loss=1.0)
        reporter.tick()
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        f"values of the training are not kept in {file}"
    ]
    assert json.loads(target.read_text())["step"] == 2


def test_a_tensor_is_kept_as_it_was(make: Make, file: Path) -> None:
    """It is changed in place, as a running loss on a GPU is, and read later by the thread."""

    class Running:
        def __init__(self, value: float) -> None:
            self.value = value

        def detach(self) -> "Running":
            return self

        def clone(self) -> "Running":
            return Running(self.value)

        def item(self) -> float:
            return self.value

    reporter, loss = make(), Running(0.0)
    for step in range(3):
        loss.value += 1.0
        reporter.update(step=step, loss=loss)
    reporter.tick(last=True)
    assert kept(file, "loss") == [(1.0,), (2.0,), (3.0,)]


def test_a_reporter_with_an_output_only_keeps_the_values(
    make: Make, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(progress.FILE)
    reporter = make()
    reporter.update(step=1, loss=1.0)
    reporter.tick(last=True)
    assert kept(file, "step") == [(1,)]
    assert [path.name for path in file.parent.iterdir()] == [file.name]
