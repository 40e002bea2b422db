# SPDX-License-Identifier: Apache-2.0
"""The runs of jobs: what is kept, what is joined, what is forgotten, and what is read of the file of a training."""

import json
import math
import os
from pathlib import Path

import pytest

from trainwright.controller.trainer.progress.curve import Sample, joined, thinned
from trainwright.controller.views.reports import MOST, KeptReports, RunFile
from trainwright.progress import CURVE


def report(step: int, loss: float = 1.0, *, attempt: int | None = 1, at: float | None = None) -> Sample:
    moment = 1000.0 + step if at is None else at
    return Sample(at=moment, attempt=attempt, values={"current_step": step, "loss": loss})


async def rows(reports: KeptReports, uid: str = "uid") -> list[Sample]:
    return (await reports.read(uid))[0]


@pytest.mark.asyncio
async def test_a_run_is_read_again_by_another_process_once_it_is_written(tmp_path: Path) -> None:
    first = KeptReports(tmp_path / "curves")
    nan = Sample(at=3.0, percentage=3, values={"accuracy": 0.5}, not_finite=frozenset({"loss"}))
    for one in (report(1), nan, nan):
        first.append("uid", one)
    assert await rows(first) == [report(1), nan]  # and the process is killed

    second = KeptReports(tmp_path / "curves")
    assert await rows(second) == [report(1), Sample(**{**{f: getattr(nan, f) for f in nan.__slots__}, "attempt": None})]
    second.append("uid", nan)  # it is seen again
    second.append("uid", report(4, attempt=2))
    assert [one.attempt for one in await rows(second)] == [1, None, 2]
    assert await rows(second, "other") == []


@pytest.mark.asyncio
async def test_the_end_within_the_second_of_the_last_step_is_another_report() -> None:
    reports = KeptReports()
    values = {"current_step": 40.0}
    run = [Sample(at=1.0, percentage=99, values=values), Sample(at=1.0, percentage=100, values=values)]
    for one in run:
        reports.append("uid", one)
    assert await rows(reports) == run


@pytest.mark.asyncio
async def test_a_job_that_is_deleted_takes_its_run_with_it(tmp_path: Path) -> None:
    reports = KeptReports(tmp_path)
    for uid in ("a", "b", "c"):
        reports.append(uid, report(1))
    reports.forget("a")
    assert await rows(reports, "a") == []
    await reports.keep_only(["c"])
    assert [await rows(reports, uid) for uid in "abc"] == [[], [], [report(1)]]
    assert [(tmp_path / f"{uid}.jsonl").exists() for uid in "abc"] == [False, False, True]


@pytest.mark.asyncio
async def test_a_long_run_keeps_its_extremes_its_ends_and_all_its_reports() -> None:
    reports = KeptReports()
    count = 3 * MOST
    for step in range(count):
        reports.append("uid", report(step, {777: 99.0, 9000: -5.0}.get(step, 1.0)))
    found, _ = await reports.read("uid", most=MOST)
    assert len(found) <= MOST
    assert sum(row.count for row in found) == count
    assert found[-1].step == count - 1
    assert found[0].at < 1000 + 8
    assert max(row.high("loss") or 0.0 for row in found) == 99.0
    assert min(row.low("loss") or 0.0 for row in found) == -5.0
    # The resolution is even: no part of the run is coarser than another by more than one joining.
    counts = {row.count for row in found[:-1]}
    assert max(counts) <= 2 * min(counts)
    few, _ = await reports.read("uid", most=10)
    assert len(few) <= 10
    assert max(row.high("loss") or 0.0 for row in few) == 99.0


@pytest.mark.asyncio
async def test_what_cannot_be_written_is_said_and_is_in_memory(tmp_path: Path) -> None:
    folder = tmp_path / "curves"
    folder.touch()
    reports = KeptReports(folder)
    reports.append("uid", report(1))
    assert await rows(reports) == [report(1)]
    assert "cannot be written" in reports.problem
    folder.unlink()
    reports.append("uid", report(2))
    assert await rows(reports) == [report(1), report(2)]
    assert reports.problem == ""


def test_attempts_and_falls_of_the_step_are_never_joined() -> None:
    run = [report(1), report(2), report(3, attempt=2), report(4, attempt=2), report(2, attempt=2), report(3, attempt=2)]
    found = thinned(run, 1)
    assert [(row.attempt, row.step, row.count) for row in found] == [(1, 2, 2), (2, 4, 2), (2, 3, 2)]


def test_a_joined_report_says_what_it_stands_for() -> None:
    first = Sample(at=1.0, percentage=1, values={"loss": 3.0, "current_step": 1.0, "old": 7.0})
    second = Sample(at=2.0, values={"loss": 2.0, "current_step": 2.0}, not_finite=frozenset({"grad"}))
    both = joined(first, second)
    assert (both.at, both.percentage, both.count) == (2.0, 1, 2)
    assert both.not_finite == {"grad"}
    assert both.values == {"loss": 2.0, "current_step": 2.0, "old": 7.0}
    assert (both.low("loss"), both.high("loss"), both.low("old")) == (2.0, 3.0, 7.0)
    assert "current_step" not in both.lows
    assert math.isfinite(both.high("loss") or math.nan)


class Training:
    """Writes what a training writes."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / CURVE

    def begins(self, attempt: int, total: int | None = None) -> None:
        self._write({"attempt": attempt, "time": 0.0, "total": total, "epochs": None})

    def passes(self, *steps: int, loss: float | str = 1.0, **more: object) -> None:
        for step in steps:
            self._write({"time": 1000.0 + step, "step": step, "metrics": {"loss": loss}, **more})

    def _write(self, line: object) -> None:
        with self.file.open("a") as stream:
            stream.write(json.dumps(line) + "\n")


@pytest.mark.asyncio
async def test_each_value_that_the_training_has_kept_is_read_as_the_file_grows(tmp_path: Path) -> None:
    reports, training = KeptReports(tmp_path / "curves"), Training(tmp_path)
    reports.has_output("uid", tmp_path, since=1000.0)
    reports.append("uid", report(1))
    assert await rows(reports) == [report(1)]  # the training has not written yet
    place = (await reports.read("uid"))[1]

    training.passes(-5)  # another job had the same output
    training.begins(1, total=4)
    training.passes(10**300)  # no time that there is
    training.passes(1, 2)
    training.passes(2, loss="NaN")
    found, place = await reports.read("uid")
    assert [(one.step, one.percentage, one.attempt) for one in found] == [(1, 25, 1), (2, 50, 1), (2, 50, 1)]
    assert found[-1].not_finite == {"loss"}
    assert (await reports.news("uid", place)) == ([], place)

    reports.append("uid", report(3))  # what it reports it has kept as well
    with training.file.open("a") as stream:
        stream.write('no line\n{"time": 1003.0, "step": 3, "metr')  # torn: the rest comes with the next write
    assert (await reports.news("uid", place))[0] == []
    with training.file.open("a") as stream:
        stream.write('ics": {"loss": 7.0}}\n')
    training.begins(2)
    training.passes(2, count=2, low={"loss": 0.5})
    news, place = await reports.news("uid", place)
    assert news is not None
    assert [(one.step, one.low("loss"), one.attempt, one.count) for one in news] == [(3, 7.0, 1, 1), (2, 0.5, 2, 2)]

    whole = training.file.read_text()
    (tmp_path / "new").write_text(whole)
    (tmp_path / "new").replace(training.file)  # it was thinned
    assert (await reports.news("uid", place))[0] is None
    assert len(await rows(reports)) == 5

    training.file.unlink()
    assert len(await rows(reports)) == 5  # as it was


@pytest.mark.asyncio
@pytest.mark.parametrize("text", [None, b"\0" * 3_000_000 + b"\n[1]\n{}\n"], ids=["pipe", "nonsense"])
async def test_what_is_no_such_file_holds_up_nothing(tmp_path: Path, text: bytes | None) -> None:
    if text is None:
        os.mkfifo(tmp_path / CURVE)
    else:
        (tmp_path / CURVE).write_bytes(text)
    reports = KeptReports()
    reports.has_output("uid", tmp_path, since=0.0)
    reports.append("uid", report(1))
    assert await rows(reports) == [report(1)]


def test_a_file_that_is_thinned_between_two_looks_is_read_from_its_begin(tmp_path: Path) -> None:
    training = Training(tmp_path)
    training.passes(1, 2)
    file = RunFile(training.file)
    assert file.is_new()
    assert [one.step for one in file.read()] == [1, 2]
    training.passes(3)
    assert not file.is_new()
    (tmp_path / "new").write_text(training.file.read_text() * 2)
    (tmp_path / "new").replace(training.file)
    assert list(file.read()) == []
    assert file.is_new()
    assert [one.step for one in file.read()] == [1, 2, 3, 1, 2, 3]
