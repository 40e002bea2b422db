# SPDX-License-Identifier: Apache-2.0
"""What the writer says: percentage, time to go, values, states, and who reports at all."""

import json
import logging
import math
import os
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.unit.progress.reporters import StillReporter, configure, document
from trainwright import progress
from trainwright.controller.runtime.testing.clock import ManualClock
from trainwright.progress import Extremes, Reporter, extremes, read

Make = Callable[..., StillReporter]


class Tensor:
    """Counts how often it is converted."""

    def __init__(self, value: float, *, breaks: bool = False) -> None:
        self.value, self.breaks, self.conversions = value, breaks, 0

    def item(self) -> float:
        self.conversions += 1
        if self.breaks:
            raise RuntimeError("deleted")
        return self.value


def said(reporter: StillReporter, target: Path, **update: Any) -> dict[str, Any]:
    reporter.update(**update)
    reporter.tick()
    return document(target)


def test_the_document_and_what_is_left_out(make: Make, target: Path) -> None:
    reporter = make(total=200, epochs=2)
    written = said(reporter, target, step=58, loss=0.5, epoch=1, metrics={"lr": 3e-4, "stage": "warm"})
    moment = written.pop("lastUpdatedTime")
    assert written == {
        "version": 1,
        "state": "running",
        "rank": 0,
        "progressPercentage": 29,
        "step": 58,
        "totalSteps": 200,
        "epoch": 1,
        "totalEpochs": 2,
        "loss": 0.5,
        "metrics": {"lr": 3e-4, "stage": "warm"},
    }
    report = read(target.read_text())
    assert report.time is not None
    assert moment.endswith("Z")
    assert report.metrics == {
        "lr": "0.0003",
        "stage": "warm",
        "current_step": "58",
        "total_steps": "200",
        "current_epoch": "1",
        "total_epochs": "2",
        "loss": "0.5",
    }


@pytest.mark.parametrize(
    ("settings", "update", "percentage"),
    [
        ({}, {"step": 5}, None),
        ({"total": 0}, {"step": 5}, None),
        ({"total": -1}, {"step": 5}, None),
        ({"total": math.inf}, {"step": 5}, None),
        ({"total": 100}, {"step": 29}, 29),
        ({"total": 100}, {"step": 100}, 99),
        ({"total": 100}, {"step": 250}, 99),
        ({"total": 100}, {"step": -3}, 0),
        ({"total": 100}, {"loss": 1.0}, None),
        ({"total": 100}, {"step": math.nan}, 0),
        ({"epochs": 4}, {"epoch": 1.5}, 37),
        ({"total": 100, "epochs": 4}, {"step": 10, "epoch": 2}, 10),
        ({"total": 100}, {"step": 10, "percentage": 80.9}, 80),
        ({"total": 100}, {"step": 10, "percentage": 100}, 99),
    ],
)
def test_percentage(
    make: Make, target: Path, settings: dict[str, Any], update: dict[str, Any], percentage: int | None
) -> None:
    assert said(make(**settings), target, **update).get("progressPercentage") == percentage


def test_time_to_go_comes_from_the_steps_of_this_process(make: Make, clock: ManualClock[float], target: Path) -> None:
    """A resume at half: the steps before it took no time of ours, and those that compile do not count."""
    reporter = make(total=1000)
    assert "estimatedRemainingSeconds" not in said(reporter, target, step=501)
    clock.now += 300  # the first steps compile
    assert "estimatedRemainingSeconds" not in said(reporter, target, step=506)
    clock.now += 10
    assert said(reporter, target, step=511)["estimatedRemainingSeconds"] == 2 * (1000 - 511)
    # Faster steps show, but not at once.
    clock.now += 10
    seconds = said(reporter, target, step=521)["estimatedRemainingSeconds"]
    assert 1.0 * (1000 - 521) < seconds < 2.0 * (1000 - 521)
    for _ in range(40):
        clock.now += 10
        seconds = said(reporter, target, step=521)["estimatedRemainingSeconds"]
    clock.now += 10
    assert said(reporter, target, step=1200)["estimatedRemainingSeconds"] == 0


def test_a_fall_back_to_an_earlier_step_keeps_the_pace(make: Make, clock: ManualClock[float], target: Path) -> None:
    reporter = make(total=100)
    for step in (1, 10, 20):
        clock.now += 10
        said(reporter, target, step=step)
    clock.now += 10
    assert said(reporter, target, step=5)["estimatedRemainingSeconds"] == 95
    clock.now += 5
    said(reporter, target, step=10)
    clock.now += 10
    assert said(reporter, target, step=20)["estimatedRemainingSeconds"] == 80


def test_time_to_go_that_is_given_goes_first(make: Make, clock: ManualClock[float], target: Path) -> None:
    reporter = make(total=100)
    written: dict[str, Any] = {}
    for step in (1, 10, 20):
        clock.now += 10
        written = said(reporter, target, step=step, eta=7.2)
    assert written["estimatedRemainingSeconds"] == 8


def test_epochs_give_the_time_to_go_where_no_steps_do(make: Make, clock: ManualClock[float], target: Path) -> None:
    reporter = make(epochs=10)
    said(reporter, target, epoch=0)
    clock.now += 60
    assert said(reporter, target, epoch=1)["estimatedRemainingSeconds"] == 540


class Host(float):
    """A number of a library, such as NumPy's float64."""


class HostTensor(Tensor):
    """A tensor in the memory of the CPU."""

    is_cpu = True


@pytest.mark.parametrize("number", [float, Host, Decimal, HostTensor], ids=lambda kind: kind.__name__)
def test_a_report_has_the_value_that_was_passed_last_and_the_extremes(
    make: Make, target: Path, number: Callable[[float], Any]
) -> None:
    reporter = make()
    for step, accuracy in enumerate((0.5, 0.25, 0.875, 0.75), 1):
        reporter.update(step=step, loss=number(1 - accuracy), metrics={"accuracy": number(accuracy)})
    reporter.tick()
    written = document(target)
    assert (written["loss"], written["metrics"]) == (
        0.25,
        {
            "accuracy": 0.75,
            "loss.min": "0.125 at step 3",
            "loss.max": "0.75 at step 2",
            "accuracy.min": "0.25 at step 2",
            "accuracy.max": "0.875 at step 3",
        },
    )
    metrics, found, recent = extremes(read(json.dumps(written)).metrics)
    assert metrics == {"accuracy": "0.75", "loss": "0.25", "current_step": "4"}
    assert found == {"loss": Extremes(0.125, 3, 0.75, 2), "accuracy": Extremes(0.25, 2, 0.875, 3)}
    assert recent == {}  # those of the run are not said twice
    # A later report says them again: the one before may never have arrived.
    assert said(reporter, target, step=5)["metrics"] == written["metrics"]
    # A metric that was removed begins anew.
    said(reporter, target, metrics={"accuracy": None})
    assert "accuracy.min" not in said(reporter, target, metrics={"accuracy": number(0.5)})["metrics"]


def test_extremes_without_steps_and_names_that_are_taken(make: Make, target: Path) -> None:
    reporter = make()
    for value in (2, 3, 1):
        reporter.update(metrics={"a": value, "a.max": value, "b.min": 7, "n" * 61: value})
    reporter.tick()
    metrics = document(target)["metrics"]
    assert metrics == {"a": 1, "a.max": 1, "b.min": 7, "n" * 61: 1, "a.max.max": "3 so far"}
    # What the training itself calls so stays a metric.
    plain, found, _ = extremes({name: str(value) for name, value in metrics.items()})
    assert (list(plain), found) == (["a", "a.max", "b.min", "n" * 61], {"a.max": Extremes(highest=3)})


def test_what_was_passed_in_the_last_minutes_is_said_beside_the_extremes_of_the_run(
    make: Make, target: Path, clock: ManualClock[float]
) -> None:
    reporter = make()
    told = []
    for step, loss in enumerate((9.0, 1.0, 2.0, 8.0, 2.0, 3.0, 3.0, 3.0), 1):
        clock.now += 60.0
        metrics = said(reporter, target, step=step, loss=loss).get("metrics", {})
        told.append({name: value for name, value in metrics.items() if "recent" in name})
    spike = {"loss.recent_max": "8.0 at step 4"}
    assert told == [
        {},
        {},
        {},
        {"loss.recent_min": "2.0 at step 3"},
        spike,
        {"loss.recent_min": "2.0 at step 5"},
        {},
        {},
    ]
    assert extremes({"loss": "2", **spike}).recent == {"loss": Extremes(highest=8.0, highest_step=4)}


def test_a_mean_is_told_only_where_it_was_asked_for(make: Make, target: Path) -> None:
    reporter = make(mean=["loss"])
    for loss in (1.0, 2.0, 6.0):
        reporter.update(loss=loss, metrics={"norm": loss})
    reporter.tick()
    assert (document(target)["loss"], document(target)["metrics"]) == (3.0, {"norm": 6.0, "norm.min": "1.0 so far"})
    # The next report starts over, and the extremes are those of the means.
    assert said(reporter, target, loss=8.0)["loss"] == 8.0
    assert document(target)["metrics"]["loss.min"] == "3.0 so far"


def test_numbers_that_are_not_finite_do_not_stay(make: Make, target: Path) -> None:
    reporter = make()
    reporter.update(loss=1.0, metrics={"a": math.inf, "b": -math.inf, "c": 10**400})
    reporter.update(loss=math.nan)
    reporter.tick()
    written = document(target)
    assert (written["loss"], written["metrics"]["loss.min"]) == ("NaN", "1.0 so far")
    assert {written["metrics"][name] for name in "abc"} == {"Infinity", "-Infinity"}
    assert math.isnan(read(json.dumps(written)).loss or 0)
    assert said(reporter, target, loss=1.0)["loss"] == 1.0


def test_tensors_are_converted_by_the_thread(make: Make, target: Path) -> None:
    reporter = make(total=100)
    tensors = [Tensor(float(number)) for number in range(50)]
    for tensor in tensors:
        reporter.update(step=Tensor(20), loss=tensor)
    assert sum(tensor.conversions for tensor in tensors) == 0
    reporter.tick()
    assert [tensor.conversions for tensor in tensors] == [1] * 50
    assert (document(target)["loss"], document(target)["progressPercentage"]) == (49.0, 20)


def test_a_value_that_cannot_be_reported_is_warned_of_once(
    make: Make, target: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reporter = make()
    written: dict[str, Any] = {}
    for _ in range(3):
        written = said(reporter, target, step=1, loss=Tensor(1, breaks=True), metrics={"grid": [1], "ok": True})
    assert "loss" not in written
    assert written["metrics"] == {"ok": 1}
    assert [record.getMessage() for record in caplog.records] == [
        "loss of type Tensor is not reported: deleted",
        "grid of type list is not reported: float() argument must be a string or a real number, not 'list'",
    ]


@pytest.mark.parametrize(("loss", "told"), [("0.5", 0.5), ("low", None), (Decimal("0.25"), 0.25)])
def test_a_loss_that_is_no_number_takes_nothing_else_along(
    make: Make, target: Path, loss: Any, told: float | None
) -> None:
    written = said(make(total=4), target, step=1, loss=loss, metrics={"stage": "low", "accuracy": 0.5})
    report = read(json.dumps(written))
    assert (report.loss, report.step, report.metrics["stage"], report.metrics["accuracy"]) == (told, 1, "low", "0.5")


def test_wrong_arguments_raise_nothing(make: Make, target: Path, caplog: pytest.LogCaptureFixture) -> None:
    make(every="soon").update(step=1)
    reporter = make(total="many")
    reporter.update(step=2, metrics=["loss"])  # type: ignore[arg-type]
    reporter.update(step=3, metrics={7: 1.0})  # type: ignore[dict-item]
    reporter.tick()
    assert document(target)["metrics"] == {"7": 1.0}
    warned = [record.getMessage() for record in caplog.records]
    assert len(warned) == 3
    assert "progress is not reported: could not convert string to float: 'soon'" in warned


def test_metrics_are_bounded(make: Make, target: Path) -> None:
    reporter = make(total=10)
    reporter.update(step=1, loss=1.0, metrics={f"m{number}{'x' * 70}": "y" * 70 for number in range(1000)})
    reporter.tick()
    assert target.stat().st_size <= progress.FILE_BYTES
    report = read(target.read_text())
    assert len(report.metrics) == progress.METRICS
    assert {"loss", "current_step", "total_steps"} <= report.metrics.keys()
    assert max(map(len, [*report.metrics, *report.metrics.values()])) == progress.CHARACTERS


def test_text_that_grows_when_it_is_encoded_fits(make: Make, target: Path) -> None:
    reporter = make()
    reporter.update(metrics={f"{number:03}{chr(0x1F600) * 60}": chr(0x1F600) * 64 for number in range(250)})
    reporter.tick()
    assert 60_000 < target.stat().st_size <= progress.FILE_BYTES
    assert len(read(target.read_bytes()).metrics) > 30


def test_nothing_is_sent_when_nothing_is_new(make: Make, clock: ManualClock[float], target: Path) -> None:
    reporter = make(total=10)
    reporter.tick()
    assert not target.exists()
    said(reporter, target, step=1)
    target.unlink()
    clock.now += 5
    reporter.tick()
    assert not target.exists()


def test_the_time_is_that_of_the_update(make: Make, clock: ManualClock[float], target: Path) -> None:
    """Otherwise a training that hangs would look alive."""
    reporter = make()
    reporter.update(step=1)
    clock.now += 3600
    reporter.tick()
    late = read(target.read_text()).time
    newest = read(json.dumps(said(reporter, target, step=2))).time
    assert late is not None
    assert newest is not None
    assert 3500 < (newest - late).total_seconds() < 3700


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({}, 0),
        *(({name: "1"}, 1) for name in progress._RANKS),
        *(({name: "0", "PET_NODE_RANK": "1"}, 0) for name in progress._RANKS),
        ({"RANK": "0", "OMPI_COMM_WORLD_RANK": "3"}, 0),
        ({"RANK": "", "SLURM_PROCID": "3"}, 3),
        ({"RANK": "first"}, 0),
        ({"RANK": "²"}, 0),
        ({"PET_NODE_RANK": "0", "LOCAL_RANK": "0"}, 0),
        ({"PET_NODE_RANK": "0", "LOCAL_RANK": "1"}, 1),
        ({"PET_NODE_RANK": "10", "LOCAL_RANK": "0"}, 1),
        ({"PET_NODE_RANK": "2"}, 1),
    ],
)
def test_only_rank_0_writes(
    monkeypatch: pytest.MonkeyPatch, make: Make, target: Path, variables: dict[str, str], rank: int
) -> None:
    configure(monkeypatch, TRAINWRIGHT_PROGRESS_FILE=target, **variables)
    assert progress._rank(os.environ) == rank
    reporter = make()
    reporter.update(step=1)
    assert reporter._active == (rank == 0)
    assert make(rank=0)._active
    assert not make(rank=1)._active


def test_nothing_configured_does_nothing(monkeypatch: pytest.MonkeyPatch, target: Path) -> None:
    configure(monkeypatch)
    with Reporter(total=3) as reporter:
        reporter.update(step=1)
    assert not reporter._active
    assert not target.exists()


def test_the_default_file_is_used_where_its_folder_is(
    monkeypatch: pytest.MonkeyPatch, make: Make, tmp_path: Path
) -> None:
    """mpirun starts ranks through ssh, which do not see the variables of the container."""
    configure(monkeypatch)
    monkeypatch.setattr(progress, "DEFAULT_FILE", str(tmp_path / "progress.json"))
    monkeypatch.setattr(progress, "DEFAULT_FINAL", str(tmp_path / "final"))
    (tmp_path / "final").touch()
    reporter = make()
    reporter.update(step=1)
    reporter.tick(last=True)
    assert document(tmp_path / "progress.json")["step"] == document(tmp_path / "final")["step"] == 1
    # A job that pushes is not one that asked for the file.
    configure(monkeypatch, KUBEFLOW_TRAINER_SERVER_URL="http://127.0.0.1:9/")
    assert [channel.is_remote for channel in make()._channels] == [True]
    assert not make(push=False)._active


def test_a_file_that_cannot_be_written_is_warned_of_once(
    monkeypatch: pytest.MonkeyPatch,
    make: Make,
    clock: ManualClock[float],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    folder = tmp_path / "out"
    configure(monkeypatch, TRAINWRIGHT_PROGRESS_FILE=folder)
    folder.mkdir()
    reporter = make()
    for step in range(5):
        clock.now += 100
        reporter.update(step=step)
        reporter.tick()
    assert len(caplog.records) == 1
    assert "Is a directory" in caplog.text
    assert list(tmp_path.iterdir()) == [folder]
    folder.rmdir()
    clock.now += 100
    reporter.tick()
    assert document(folder)["step"] == 4


def test_two_reporters_of_one_process_write_one_file(
    make: Make, target: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as that of the user and that of a callback: the second one writes in the middle of the first."""
    first, second = make(), make()
    replace, wrote = os.replace, list[int]()

    def replace_later(source: str, destination: str) -> None:
        if not wrote:
            wrote.append(1)
            assert said(second, target, step=2)["step"] == 2
        replace(source, destination)

    monkeypatch.setattr(os, "replace", replace_later)
    assert said(first, target, step=1)["step"] == 1
    assert caplog.text == ""
    assert list(target.parent.iterdir()) == [target]


def test_two_reporters_of_one_process_leave_one_whole_message(
    make: Make, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    final = tmp_path / "termination-log"
    configure(monkeypatch, TRAINWRIGHT_PROGRESS_FILE=target, TRAINWRIGHT_PROGRESS_FINAL=final)
    short, long = make(), make()
    short.update(step=1)
    long.update(step=2, metrics={f"metric{number}": "v" * 64 for number in range(10)})
    other = threading.Thread(target=long.tick, kwargs={"last": True})
    real: Any = open

    def opened(file: Any, mode: str) -> Any:
        stream = real(file, mode)
        if mode == "r+b" and threading.current_thread() is threading.main_thread():
            truncate = stream.truncate

            def late() -> int:
                stream.flush()
                other.start()
                # It waits for its turn.
                other.join(0.3)
                return int(truncate())

            stream.truncate = late
        return stream

    monkeypatch.setattr(progress, "open", opened, raising=False)
    short.tick(last=True)
    other.join()
    assert read(final.read_bytes()).step == 2


def test_a_folder_that_is_missing_is_made(monkeypatch: pytest.MonkeyPatch, make: Make, tmp_path: Path) -> None:
    configure(monkeypatch, TRAINWRIGHT_PROGRESS_FILE=tmp_path / "a" / "b" / "progress.json")
    reporter = make()
    reporter.update(step=1)
    reporter.tick()
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["progress.json"]


def test_the_termination_message_is_short_and_leaves_what_others_wrote(
    monkeypatch: pytest.MonkeyPatch, make: Make, target: Path, tmp_path: Path
) -> None:
    final = tmp_path / "termination-log"
    final.write_text("out of memory\n" + json.dumps({"step": 7, "of": "an earlier process"}) + "\n")
    inode = final.stat().st_ino
    configure(monkeypatch, TRAINWRIGHT_PROGRESS_FILE=target, TRAINWRIGHT_PROGRESS_FINAL=final)
    reporter = make(total=10)
    reporter.update(step=9, loss=1.0, metrics={f"metric{number}": "v" * 64 for number in range(200)})
    reporter.update(metrics={"checkpoint_step": "8"})
    for _ in range(2):
        reporter.tick(last=True)
    mine, report = final.read_bytes().splitlines(keepends=True), read(final.read_text())
    assert mine[0] == b"out of memory\n"
    assert [len(line) <= progress.FINAL_BYTES for line in mine] == [True, True]
    assert (report.percentage, report.loss, report.step) == (90, 1.0, 9)
    assert len(report.metrics) > 5
    # What decides whether the attempt has made progress is not cut.
    assert report.metrics["checkpoint_step"] == "8"
    # A bind mount cannot be replaced by renaming.
    assert final.stat().st_ino == inode
