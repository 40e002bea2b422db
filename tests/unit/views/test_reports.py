# SPDX-License-Identifier: Apache-2.0
"""The reports of whole runs on disk: what is kept, what is joined, what is forgotten."""

import asyncio
import logging
import math
import resource
import stat
import threading
from pathlib import Path

import pytest

from trainwright.controller.trainer.progress.curve import Sample, joined, thinned
from trainwright.controller.views.reports import MOST, KeptReports


def report(step: int, loss: float = 1.0, *, attempt: int | None = 1, at: float | None = None) -> Sample:
    moment = 1000.0 + step if at is None else at
    return Sample(at=moment, attempt=attempt, values={"current_step": step, "loss": loss})


@pytest.mark.asyncio
async def test_a_run_is_read_again_by_another_process(tmp_path: Path) -> None:
    file = tmp_path / "curves.db"
    first = KeptReports(file)
    nan = Sample(at=3.0, percentage=3, values={"accuracy": 0.5}, not_finite=frozenset({"loss"}))
    first.append("uid", report(1))
    first.append("uid", nan)
    first.close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    second = KeptReports(file)
    assert await second.read("uid") == [report(1), nan]
    assert (await second.read("uid"))[-1] == nan
    assert await second.read("other") == []
    second.close()


@pytest.mark.asyncio
async def test_what_a_killed_process_had_written_is_there(tmp_path: Path) -> None:
    killed = KeptReports(tmp_path / "curves.db")
    killed.append("uid", report(1))
    assert await killed.read("uid") == [report(1)]
    after = KeptReports(tmp_path / "curves.db")  # the first one was never closed
    assert await after.read("uid") == [report(1)]
    after.close()
    killed.close()


@pytest.mark.asyncio
async def test_the_last_report_seen_again_after_a_restart_is_one() -> None:
    reports = KeptReports(None)
    for one in (report(1), report(1, attempt=None), report(2)):
        reports.append("uid", one)
    assert [one.step for one in await reports.read("uid")] == [1, 2]
    reports.close()


@pytest.mark.asyncio
async def test_the_end_within_the_second_of_the_last_step_is_another_report() -> None:
    reports = KeptReports(None)
    values = {"current_step": 40.0}
    run = [Sample(at=1.0, percentage=99, values=values), Sample(at=1.0, percentage=100, values=values)]
    for one in run:
        reports.append("uid", one)
    assert await reports.read("uid") == run
    reports.close()


@pytest.mark.asyncio
async def test_a_job_that_is_deleted_takes_its_run_with_it() -> None:
    reports = KeptReports(None)
    for uid in ("a", "b", "c"):
        reports.append(uid, report(1))
    reports.forget("a")
    assert await reports.read("a") == []
    await reports.keep_only(["c"])
    assert await reports.all(10) == {"c": [report(1)]}
    reports.close()


@pytest.mark.asyncio
async def test_a_long_run_keeps_its_extremes_its_ends_and_all_its_reports() -> None:
    reports = KeptReports(None)
    count = 3 * MOST
    for step in range(count):
        reports.append("uid", report(step, {777: 99.0, 9000: -5.0}.get(step, 1.0)))
    rows = await reports.read("uid", most=MOST)
    assert len(rows) <= MOST
    assert sum(row.count for row in rows) == count
    assert rows[-1].step == count - 1
    assert rows[0].at < 1000 + 8
    assert max(row.high("loss") or 0.0 for row in rows) == 99.0
    assert min(row.low("loss") or 0.0 for row in rows) == -5.0
    # The resolution is even: no part of the run is coarser than another by more than one joining.
    counts = {row.count for row in rows[:-1]}
    assert max(counts) <= 2 * min(counts)
    few = await reports.read("uid", most=10)
    assert len(few) <= 10
    assert max(row.high("loss") or 0.0 for row in few) == 99.0
    reports.close()


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


@pytest.mark.asyncio
async def test_a_damaged_file_is_put_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "curves.db"
    file.write_bytes(b"this is no database, and long enough to be looked at" * 100)
    with caplog.at_level(logging.WARNING):
        reports = KeptReports(file)
    assert "put aside as" in caplog.text
    assert file.with_name("curves.db.damaged").exists()
    reports.append("uid", report(1))
    assert await reports.read("uid") == [report(1)]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    reports.close()


@pytest.mark.asyncio
async def test_a_file_that_cannot_be_opened_now_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No file may grow, as on a full disk, so SQLite cannot make those that it needs beside the database."""
    file = tmp_path / "curves.db"
    before = KeptReports(file)
    before.append("uid", report(1))
    before.close()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with caplog.at_level(logging.WARNING):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            meanwhile = KeptReports(file)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "kept in memory until the next start" in caplog.text
    meanwhile.append("uid", report(2))
    assert await meanwhile.read("uid") == [report(2)]
    assert "cannot be opened" in meanwhile.problem
    meanwhile.close()
    again = KeptReports(file)
    assert (await again.read("uid"), again.problem) == ([report(1)], "")
    again.close()
    assert not file.with_name("curves.db.damaged").exists()


@pytest.mark.asyncio
async def test_what_cannot_be_written_is_said_and_written_later(tmp_path: Path) -> None:
    reports = KeptReports(tmp_path / "curves.db")
    reports._connection.execute("ALTER TABLE reports RENAME TO away")
    reports.append("uid", report(1))
    reports._flush()
    assert "cannot be written" in reports.problem
    reports._connection.execute("CREATE TABLE reports AS SELECT * FROM away")
    reports._connection.execute("CREATE TRIGGER full BEFORE INSERT ON reports BEGIN SELECT RAISE(ABORT, 'full'); END")
    assert await reports.read("uid") == [report(1)]
    assert "cannot be written (full)" in reports.problem
    reports._connection.execute("DROP TABLE reports")
    reports._connection.execute("ALTER TABLE away RENAME TO reports")
    assert await reports.read("uid") == [report(1)]
    assert reports.problem == ""
    reports.close()


@pytest.mark.asyncio
async def test_the_file_is_not_closed_while_a_thread_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its task may be cancelled meanwhile, as at the end of a cluster that has just started."""
    reports = KeptReports(tmp_path / "curves.db")
    began, go_on = threading.Event(), threading.Event()
    order: list[str] = []
    uids = reports._uids

    def slow() -> list[str]:
        began.set()
        go_on.wait(30)
        found = [*uids()]
        order.append("read")
        return found

    monkeypatch.setattr(reports, "_uids", slow)
    reading = asyncio.create_task(reports.keep_only([]))
    await asyncio.to_thread(began.wait, 30)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading

    def close() -> None:
        reports.close()
        order.append("closed")

    closing = threading.Thread(target=close)
    closing.start()
    closing.join(0.2)  # as good as any: it must not end before the reader does
    go_on.set()
    await asyncio.to_thread(closing.join, 30)
    assert order == ["read", "closed"]
