# SPDX-License-Identifier: Apache-2.0
"""What jobs of a local cluster leave: said at its end, listed, deleted; and the names by which jobs are found."""

import io
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.builders import train_job
from trainwright.api.errors import UserError
from trainwright.api.objects import wire
from trainwright.controller.cli import state
from trainwright.controller.cli.access import meant
from trainwright.controller.cli.local import local_jobs, outputs
from trainwright.controller.cli.local.outputs import JobOutput, OutputFile, size_of, table
from trainwright.controller.cli.main import main
from trainwright.controller.local.node.outputs import OutputOwner, claim_below


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where outputs lie."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "trainwright" / "runs"


def output_of(runs: Path, job: str, uid: str, *, at: int, cluster: str = "", **files: int) -> Path:
    """The output of a job with files of so many bytes."""
    folder = claim_below(runs, OutputOwner(namespace="default", job=job, uid=uid, cluster=cluster))
    for name, size in files.items():
        (folder / name).write_bytes(b"x" * size)
    os.utime(folder / ".trainwright.json", (at, at))
    return folder


def job_of(name: str, uid: str, **annotations: str) -> Any:
    pods = {"metadata": {"annotations": {f"{key}.trainwright.dev/node": value for key, value in annotations.items()}}}
    part = {"name": "node", "template": {"spec": {"template": pods}}}
    patch = {"manager": "a.b/c", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [part]}}}}
    return wire(train_job(name, "default", uid=uid, runtimePatches=[patch]))


def test_the_end_of_a_job_names_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = job_of("train-x", "12345678-9", runs=str(tmp_path))
    one = JobOutput(None)
    one.created(job)
    one.tell()
    assert capsys.readouterr().out == "", "nothing started"
    folder = claim_below(tmp_path, OutputOwner(namespace="default", job="train-x", uid="12345678-9"))
    one.tell()
    assert capsys.readouterr().out == f"output: {folder} (nothing was written there)\n"
    (folder / "model.pt").write_bytes(b"x" * 1_234_567)
    (folder / "steps").mkdir()
    (folder / "steps" / "1").write_bytes(b"x" * 999)
    (folder / "pods" / "train-x-node-0-0-abcde").mkdir(parents=True)
    one.tell()
    assert capsys.readouterr().out.splitlines() == [
        f"output: {folder}",
        "  model.pt     1.2 MB",
        "  steps/1       999 B",
        f"working folder: {folder}/pods/train-x-node-0-0-abcde",
    ]


def test_what_was_there_before_is_not_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("old", "changed"):
        (tmp_path / name).write_text("1")
    one = JobOutput(tmp_path)
    one.created(job_of("train", "1", output=str(tmp_path)))
    for name in ("changed", "new"):
        (tmp_path / name).write_text("22")
    one.tell()
    assert capsys.readouterr().out.splitlines() == [
        f"output: {tmp_path}",
        "  changed        2 B",
        "  new            2 B",
    ]


def test_of_many_files_the_largest_are_named() -> None:
    lines = table({f"{number:02}": OutputFile(number * 1000, 0) for number in range(13)})
    assert lines[0] == "  03     3.0 kB"
    assert lines[-1] == "  and 3 more files, 3.0 kB"
    assert len(lines) == 11


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (99_940, "99.9 kB"), (999_499, "999 kB"), (999_500, "1.0 MB")],
)
def test_sizes(count: int, text: str) -> None:
    assert size_of(count) == text
    assert size_of(5.4e9) == "5.4 GB"
    assert size_of(2e13) == "20.0 TB"


def local(*words: str) -> int:
    return main(["local", "outputs", *words])


def test_outputs_are_listed_and_named(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert local() == 0
    assert capsys.readouterr().out == f"no outputs in {runs}\n"
    output_of(runs, "train-a", "11111111-1", at=1, model=5)
    second = output_of(runs, "train-b", "22222222-2", at=2, cluster="/state/lab", model=5, log=6)
    # Not of jobs.
    (runs / "mine").mkdir()
    (runs / "link").symlink_to(second)
    assert local() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["OUTPUT", "JOB", "CLUSTER", "MADE", "HOLDS"],
        ["train-b-22222222", "train-b", "lab", "1970-01-01T00:00:02Z", "2", "files,", "11", "B"],
        ["train-a-11111111", "train-a", "1970-01-01T00:00:01Z", "1", "file,", "5", "B"],
        ["in", str(runs)],
    ]
    for name in ("latest", "train-b", "train-b-22222222"):
        assert local(name) == 0
        assert capsys.readouterr().out.splitlines() == [str(second), "  log          6 B", "  model        5 B"]
    assert local("train-c") == 1
    assert capsys.readouterr().err == f"error: there is no output train-c in {runs}\n"


class Terminal(io.StringIO):
    """An input that can be asked."""

    def isatty(self) -> bool:
        return True


def test_what_is_deleted_is_said_and_asked(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = output_of(runs, "train-a", "11111111-1", at=1, model=5)
    second = output_of(runs, "train-b", "22222222-2", at=2)
    assert local("--delete") == 2
    assert local("--delete", "--all", "train-a") == 2
    assert local("--delete", "nobody", "train-a") == 1
    capsys.readouterr()
    # No terminal: nobody can say yes.
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert local("--delete", "train-a") == 2
    said = capsys.readouterr()
    assert said.out == f"this deletes for good:\n  {first}  (1 file, 5 B)\n"
    assert said.err == "error: nothing is deleted: there is no terminal to ask; add --yes\n"
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda _: "")
    assert local("--delete", "train-a") == 1
    assert first.exists()
    monkeypatch.setattr("builtins.input", lambda _: "y")
    assert local("--delete", "latest") == 0
    assert not second.exists()
    # What is left is the latest now.
    assert (runs / "latest").resolve() == first
    assert local("--delete", "--all", "--yes") == 0
    assert capsys.readouterr().out.endswith(f"{first}: deleted\n")
    assert not list(runs.iterdir())


def test_the_output_of_a_job_that_trains_is_not_deleted(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trains = output_of(runs, "train-a", "1", at=1, cluster=str(tmp_path / "lab"))
    ended = output_of(runs, "train-b", "2", at=2, cluster=str(tmp_path / "lab"))
    own = output_of(runs, "train-c", "3", at=3, cluster=str(tmp_path / "own"))

    async def going(_: Path) -> set[str]:
        return {"1"}

    monkeypatch.setattr(local_jobs, "_going", going)
    monkeypatch.setattr(state, "running", lambda cluster: cluster.name == "lab" or None)
    monkeypatch.setattr(state, "is_held", lambda _: True)
    assert local("--delete", "--all", "--yes") == 1
    assert capsys.readouterr().err.splitlines() == [
        f"error: {trains} is not deleted: TrainJob train-a has not ended",
        f"error: {own} is not deleted: a `run` uses the cluster own; wait for its end",
    ]
    assert [path.exists() for path in (trains, ended, own)] == [True, False, True]


def test_outputs_stay_when_a_cluster_is_deleted(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "cluster"
    for name in ("trainwright-cluster.json", "lock", "state.db"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps({"format": 1}))
    kept = output_of(folder / "runs", "train", "11111111", at=1, cluster=str(folder), model=3)
    for _ in range(2):
        assert main(["local", "down", "--delete", f"--dir={folder}"]) == 0
        said = capsys.readouterr().out.splitlines()
        assert said[1:] == [
            f"{folder}: the cluster's files are deleted; the folder stays, because it holds runs",
            f"1 output of its jobs stays in {folder / 'runs'}: trainwright local outputs --dir={folder}",
        ]
    assert (kept / "model").exists()
    # It may be used again, though it is not empty.
    assert main(["local", "outputs", f"--dir={folder}", "--delete", "--all", "--yes"]) == 0
    assert main(["local", "down", "--delete", f"--dir={folder}"]) == 0
    assert not folder.exists()


class Listed:
    """Lists these jobs."""

    def __init__(self, *jobs: Any) -> None:
        self._jobs = list(jobs)

    async def list(self, *_: object) -> Any:
        return SimpleNamespace(items=self._jobs)


def named(name: str, created: str, version: int, script: str = "") -> Any:
    found = {"name": name, "creationTimestamp": created, "resourceVersion": str(version)}
    return {"metadata": {**found, **({"generateName": f"{script}-"} if script else {})}}


@pytest.mark.parametrize(
    ("given", "only", "found"),
    [
        ("latest", False, "train-b"),
        ("latest", True, "train-b"),
        ("train", False, "train-b"),
        ("eval", True, "eval-c"),
        ("train-a", True, "train-a"),
        ("nobody", False, "nobody"),
    ],
)
async def test_jobs_are_found_as_the_latest_and_by_their_script(given: str, only: bool, found: str) -> None:
    jobs: Any = Listed(
        named("train-b", "2026-01-01T00:00:02Z", 8, "train"),
        named("train-a", "2026-01-01T00:00:01Z", 9, "train"),
        named("eval-c", "2026-01-01T00:00:02Z", 7, "eval"),
        named("train-x", "2026-01-01T00:00:00Z", 1),
    )
    assert await meant(jobs, "default", given, only=only) == found
    # A command that changes jobs does not guess.
    with pytest.raises(UserError, match="train may be any of train-b, train-a: name one, or the last as latest"):
        await meant(jobs, "default", "train", only=True)


async def test_a_job_may_be_named_latest() -> None:
    jobs: Any = Listed(named("other", "2026-01-02T00:00:00Z", 2), named("latest", "2026-01-01T00:00:00Z", 1))
    assert await meant(jobs, "default", "latest") == "latest"
    nobody: Any = Listed()
    assert await meant(nobody, "default", "latest") == "latest"


def test_the_output_of_a_job_is_known_from_the_job(tmp_path: Path) -> None:
    assert outputs.folder_of_job({"metadata": {"name": "a", "uid": "1"}, "spec": {}}) is None
    assert outputs.folder_of_job(job_of("a", "123456789", runs="/runs")) == Path("/runs/a-12345678")
    assert outputs.folder_of_job(job_of("a", "1", runs="/runs", output="/mine")) == Path("/mine")
