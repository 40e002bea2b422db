# SPDX-License-Identifier: Apache-2.0
"""Which checkpoint the next attempt begins from: what the writer notes, and what `latest_checkpoint` finds."""

import errno
import json
import logging
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.progress.reporters import serving
from trainwright import progress
from trainwright.progress import Reporter, latest_checkpoint


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a job's checkpoints, in its first attempt."""
    made = tmp_path / "checkpoints"
    for name in (progress.RESUME_FROM, *progress.ATTEMPTS, progress.SERVER_URL, progress.FILE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(progress.CHECKPOINT_DIR, str(made))
    return made


def named(descriptor: int) -> Path:
    """The path of an open file."""
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def saved(folder: Path, step: int) -> Path:
    path = folder / f"step-{step}"
    path.mkdir(parents=True)
    return path


def test_the_next_attempt_begins_from_the_last_whole_checkpoint(folder: Path) -> None:
    assert latest_checkpoint() is None
    reporter = Reporter(rank=0)
    for step in (10, 20):
        reporter.checkpoint(saved(folder, step), step=step)
    assert latest_checkpoint() == str(folder / "step-20")
    noted = json.loads((folder / "latest").read_text())
    assert {name: noted[name] for name in ("path", "step", "attempt")} == {"path": "step-20", "step": 20, "attempt": 1}
    # The folder may be mounted elsewhere.
    folder.rename(folder.parent / "moved")
    assert latest_checkpoint() is None


def test_other_ranks_note_nothing(folder: Path) -> None:
    path = saved(folder, 10)
    Reporter(rank=1).checkpoint(path, step=10)
    assert latest_checkpoint() is None


def test_two_attempts_that_write_at_once_leave_a_whole_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In containers their processes have the same numbers, and the first attempt may end in the middle of its write."""
    old, new = saved(folder, 10), saved(folder, 20)
    sync, seen = os.fsync, list[int]()

    def between(descriptor: int) -> None:
        sync(descriptor)
        if not named(descriptor).name.startswith(".latest"):
            return
        monkeypatch.setattr(os, "fsync", ended)
        monkeypatch.setenv(progress.ATTEMPTS[0], "1")
        Reporter(rank=0).checkpoint(new, step=20)

    def ended(descriptor: int) -> None:
        sync(descriptor)
        if not named(descriptor).name.startswith(".latest"):
            return
        names = [path.name for path in folder.iterdir() if path.name.startswith(".latest")]
        seen.append(len(names))

    monkeypatch.setattr(os, "fsync", between)
    Reporter(rank=0).checkpoint(old, step=10)
    assert seen == [2]


def test_a_checkpoint_is_on_the_disk_before_it_is_noted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = saved(folder, 10)
    (checkpoint / "shards").mkdir()
    (checkpoint / "shards" / "0").write_bytes(b"weights")
    os.mkfifo(checkpoint / "pipe")  # which nobody writes into
    (checkpoint / "dangling").symlink_to("nowhere")
    sync, flushed = os.fsync, list[str]()

    def watched(descriptor: int) -> None:
        flushed.append(named(descriptor).relative_to(folder).as_posix())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    Reporter(rank=0).checkpoint(checkpoint, step=10)
    assert latest_checkpoint() == str(checkpoint)
    assert flushed[:2] == ["step-10/shards/0", "step-10/shards"]
    at = flushed.index(next(name for name in flushed if name.startswith(".latest")))
    # The name of a draft that was renamed is in its folder; so is that of `latest`.
    assert flushed[2 : at + 2] == ["step-10/pipe", "step-10", ".", flushed[at], "."]


def test_a_checkpoint_that_the_disk_lost_is_not_noted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reporter = Reporter(rank=0)
    reporter.checkpoint(saved(folder, 10), step=10)
    (saved(folder, 20) / "weights").touch()
    sync, code = os.fsync, errno.EIO

    def fails(descriptor: int) -> None:
        if named(descriptor).name == "weights":
            raise OSError(code, os.strerror(code))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fails)
    with caplog.at_level(logging.WARNING, logger="trainwright.progress"):
        reporter.checkpoint(folder / "step-20", step=20)
    assert latest_checkpoint() == str(folder / "step-10")
    assert "a checkpoint is not noted: [Errno 5]" in caplog.text
    # Where nothing can be flushed, nothing is known to be lost.
    code = errno.EINVAL
    reporter.checkpoint(folder / "step-20", step=20)
    assert latest_checkpoint() == str(folder / "step-20")


@pytest.mark.parametrize("text", ["", "{", "[]", "17", '{"path": 3}', '{"path": "gone"}', '{"step": 1}'])
def test_a_torn_file_counts_as_none(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenario 55."""
    folder.mkdir()
    (folder / "latest").write_text(text)
    assert latest_checkpoint() is None
    Reporter(rank=0).checkpoint(saved(folder, 10), step=10)
    assert latest_checkpoint() == str(folder / "step-10")
    monkeypatch.setenv(progress.CHECKPOINT_DIR, str(folder / "latest"))
    assert latest_checkpoint() is None


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def rewrite(file: Path) -> None:
    with file.open("r+b") as stream:
        stream.write(b"?")


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "cut": (cut, "has 5 bytes, and had 10 when it was noted"),
    "rewritten": (rewrite, "does not hold what it held when it was noted"),
    "gone": (Path.unlink, "cannot be read"),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(
    folder: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    reporter, (damage, said) = Reporter(rank=0), DAMAGE[how]
    for step in (10, 20, 30):
        (saved(folder, step) / "weights.json").write_text("{'w': 1.5}")
        reporter.checkpoint(folder / f"step-{step}", step=step)
    damage(folder / "step-30" / "weights.json")
    assert latest_checkpoint() == str(folder / "step-20")
    last = f"checkpoint {folder / 'step-30'} is passed over: its file weights.json {said}"
    assert [record.getMessage() for record in caplog.records] == [last]
    damage(folder / "step-20" / "weights.json")
    assert latest_checkpoint() == str(folder / "step-10")
    shutil.rmtree(folder / "step-10")
    assert latest_checkpoint() is None
    assert caplog.messages[-1] == f"checkpoint {folder / 'step-10'} is passed over: it does not exist"
    # What is noted next comes first again.
    reporter.checkpoint(saved(folder, 40), step=40)
    assert latest_checkpoint() == str(folder / "step-40")


def test_only_the_size_of_a_large_file_is_checked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SMALL_BYTES", 9)
    folder.mkdir()
    for step in (10, 20):
        (folder / f"{step}.pt").write_text("0123456789")
        Reporter(rank=0).checkpoint(folder / f"{step}.pt", step=step)
    rewrite(folder / "20.pt")
    assert latest_checkpoint() == str(folder / "20.pt")
    cut(folder / "20.pt")
    assert latest_checkpoint() == str(folder / "10.pt")


def test_a_checkpoint_that_was_renamed_to_the_place_of_the_last_one_is_whole(folder: Path) -> None:
    """The training ended before it noted it."""
    folder.mkdir()
    path, draft = folder / "model.json", folder / "draft"
    path.write_text("{}")
    Reporter(rank=0).checkpoint(path, step=10)
    draft.write_text('{"step": 20}')
    draft.replace(path)
    assert latest_checkpoint() == str(path)
    Reporter(rank=0).checkpoint(path, step=20)
    cut(path)  # written in place, and not to its end
    assert latest_checkpoint() is None


@pytest.mark.parametrize(
    ("variables", "number"),
    [
        ({}, 1),
        ({"ATTEMPT": "2"}, 3),
        ({"ATTEMPT": "2", "ATTEMPT_BASE": ""}, 3),
        ({"ATTEMPT": "1", "ATTEMPT_BASE": "4"}, 6),
    ],
)
def test_the_attempt_is_one_number(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], number: int
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"TRAINWRIGHT_{name}", value)
    assert progress.attempt() == number


def test_a_rank_of_an_earlier_attempt_that_was_cut_off_changes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Scenarios 16 and 55: it may write on a lost node for long."""
    before = Reporter(rank=0)
    monkeypatch.setenv("TRAINWRIGHT_ATTEMPT", "1")
    monkeypatch.setenv("TRAINWRIGHT_ATTEMPT_BASE", "2")
    Reporter(rank=0).checkpoint(saved(folder, 20), step=20)
    assert json.loads((folder / "latest").read_text())["attempt"] == 4
    monkeypatch.delenv("TRAINWRIGHT_ATTEMPT")
    monkeypatch.setenv("TRAINWRIGHT_ATTEMPT_BASE", "")
    with caplog.at_level(logging.WARNING, logger="trainwright.progress"):
        before.checkpoint(saved(folder, 30), step=30)
    assert latest_checkpoint() == str(folder / "step-20")
    assert "attempt 4 has begun" in caplog.text


def test_a_checkpoint_that_is_not_there_is_not_noted(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.mkdir()
    reporter = Reporter(rank=0)
    with caplog.at_level(logging.WARNING, logger="trainwright.progress"):
        reporter.checkpoint(folder / "step-10", step=10)
        reporter.checkpoint(None)
    assert latest_checkpoint() is None
    assert "does not exist" in caplog.text
    assert not list(folder.iterdir())


def test_the_first_attempt_begins_where_the_job_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for start, found in ((str(folder.parent), str(folder.parent)), ("/no/such", None), ("s3://b/k", "s3://b/k")):
        monkeypatch.setenv(progress.RESUME_FROM, start)
        assert latest_checkpoint() == found
    Reporter(rank=0).checkpoint(saved(folder, 10), step=10)
    assert latest_checkpoint() == str(folder / "step-10")


def test_the_report_names_the_checkpoint_and_its_step(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = folder.parent / "progress.json"
    monkeypatch.setenv(progress.FILE, str(report))
    with Reporter(total=100, rank=0) as reporter:
        reporter.update(step=25)
        for step in (10, 20):
            reporter.checkpoint(saved(folder, step), step=step)
    document = json.loads(report.read_text())
    assert document["checkpoint"] == str(folder / "step-20")
    assert progress.read(report.read_bytes()).metrics["checkpoint_step"] == "20"


def test_a_checkpoint_is_reported_before_the_training_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault may come next, and the attempt would be charged as one without progress."""
    report, last_words = tmp_path / "progress.json", tmp_path / "termination-log"
    monkeypatch.setenv(progress.FILE, str(report))
    monkeypatch.setenv(progress.FINAL, str(last_words))
    with serving() as server:
        monkeypatch.setenv(progress.SERVER_URL, server.url)
        reporter = Reporter(rank=0, every=3600)
        for step in (10, 20):
            reporter.checkpoint(saved(folder, step), step=step)
            assert server.reports[-1]["metrics"] == [{"name": "checkpoint_step", "value": str(step)}]
            said = {"checkpoint_step": str(step)}
            assert [progress.read(path.read_bytes()).metrics for path in (report, last_words)] == [said] * 2
        server.answers = [(503, {"Retry-After": "60"})]
        reporter.checkpoint(saved(folder, 30), step=30)
        # A server that fails is left alone for as long as it asks for.
        known = len(server.reports)
        reporter.checkpoint(saved(folder, 40), step=40)
        assert len(server.reports) == known
        reporter.close("running")
        for thread in threading.enumerate():
            if thread.name == "trainwright-progress":
                thread.join()


def test_without_a_folder_a_checkpoint_is_only_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(progress.CHECKPOINT_DIR, raising=False)
    assert latest_checkpoint() is None
    Reporter(rank=0).checkpoint(tmp_path / "x", step=1)
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv(progress.CHECKPOINT_DIR, "s3://bucket/job")
    Reporter(rank=0).checkpoint("s3://bucket/job/step-1", step=1)
    assert latest_checkpoint() is None
