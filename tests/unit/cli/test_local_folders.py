# SPDX-License-Identifier: Apache-2.0
"""Which folders a local cluster uses and deletes: its own, and never the files of anybody else."""

import json
import stat
from pathlib import Path

import pytest

from trainwright.controller.cli.main import main
from trainwright.controller.cli.state import FORMAT, MARKER, ForeignFolderError, claim


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "src").mkdir(parents=True)
    (made / "src" / "train.py").write_text("train()")
    made.chmod(0o755)
    return made


def fill(folder: Path) -> None:
    """What a cluster leaves, but for its marker."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for name in ("pki", "pods", "logs", "volumes"):
        (folder / name).mkdir()
    for name in ("lock", "cluster.log", "kubeconfig", "port", "status-port", "state.db", "state.db-wal", "images.yaml"):
        (folder / name).touch()
    for name in ("ca.key", "admin.token"):
        (folder / "pki" / name).touch()


def everything(folder: Path) -> dict[str, int]:
    """All paths below the folder with their modes, and its own."""
    found = {str(path.relative_to(folder)): path.lstat().st_mode for path in folder.rglob("*")}
    return {**found, ".": folder.stat().st_mode}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["up"], 1), (["up", "--foreground"], 1), (["run", "job.py"], 125)],
    ids=["up", "foreground", "run"],
)
@pytest.mark.parametrize("lock", [False, True])
def test_a_folder_with_other_files_is_refused_and_stays_as_it_is(
    project: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    lock: bool,
) -> None:
    (tmp_path / "job.py").touch()
    monkeypatch.chdir(tmp_path)
    if lock:
        (project / "lock").touch()
    before = everything(project)
    command, *rest = arguments
    assert main(["local", command, f"--dir={project}", *rest]) == code
    said = capsys.readouterr().err
    first = "lock" if lock else "src"
    why = f"not used, because it holds files that are not a cluster's, such as {first}: give --dir"
    assert f"error: {project}: {why}" in said
    assert everything(project) == before


@pytest.mark.parametrize(
    "names",
    [["lock"], ["lock", "src/train.py"], ["lock", "logs/mine"], ["pki/ca.key", "pki/admin.token"], ["logs/mine"], []],
    ids=" ".join,
)
def test_a_folder_that_no_cluster_had_is_not_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: list[str]
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    for name in names:
        (mine / name).parent.mkdir(exist_ok=True)
        (mine / name).write_text("mine")
    before = everything(mine)
    assert main(["local", "down", "--delete", f"--dir={mine}"]) == 1
    assert "it is not the folder of a cluster" in capsys.readouterr().err
    assert everything(mine) == before


@pytest.mark.parametrize("first", ["nothing", "empty", "images"])
def test_a_new_folder_is_marked_and_deleted_whole(tmp_path: Path, first: str) -> None:
    folder = tmp_path / "cluster"
    if first != "nothing":
        folder.mkdir(mode=0o755)
    if first == "images":
        (folder / "images.yaml").touch()
    claim(folder)
    claim(folder)
    assert json.loads((folder / MARKER).read_text()) == {"format": FORMAT}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert main(["local", "down", "--delete", f"--dir={folder}"]) == 0
    assert not folder.exists()


def test_what_others_put_into_the_folder_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "cluster"
    claim(folder)
    fill(folder)
    (folder / "notes").mkdir()
    (folder / "notes" / "today").touch()
    (folder / "port").unlink()
    (folder / "port").mkdir()
    (folder / ".kubeconfig.0123abcd").touch()
    assert main(["local", "down", "--delete", f"--dir={folder}"]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["notes", "port"]
    assert (folder / "notes" / "today").exists()
    said = capsys.readouterr().out
    assert f"{folder}: the cluster's files are deleted; the folder stays, because it holds notes and 1 more\n" in said


def test_what_only_looks_like_a_cluster_is_neither_used_nor_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    fill(folder)
    before = everything(folder)
    assert main(["local", "up", f"--dir={folder}"]) == main(["local", "down", "--delete", f"--dir={folder}"]) == 1
    assert everything(folder) == before


def test_links_are_not_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, folder, link = tmp_path / "data", tmp_path / "cluster", tmp_path / "link"
    data.mkdir()
    (data / "model").touch()
    claim(folder)
    for name in ("volumes", "logs", "kubeconfig"):
        (folder / name).symlink_to(data)
    link.symlink_to(folder)
    assert main(["local", "down", "--delete", f"--dir={link}"]) == 1
    assert f"{link}: not deleted, because it is a link; delete with --dir={folder}" in capsys.readouterr().err
    assert (folder / MARKER).exists()
    assert main(["local", "down", "--delete", f"--dir={folder}"]) == 0
    assert (data / "model").exists()
    assert not folder.exists()


def test_a_folder_of_a_later_version_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "cluster"
    claim(folder)
    (folder / MARKER).write_text('{"format": 2}')
    before = everything(folder)
    for command in (["up"], ["down", "--delete"]):
        assert main(["local", *command, f"--dir={folder}"]) == 1
        assert "made by a later version of Trainwright (format 2, this version knows 1)" in capsys.readouterr().err
    assert everything(folder) == before


def test_a_damaged_marker_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    fill(folder)
    (folder / MARKER).touch()
    claim(folder)
    assert main(["local", "down", "--delete", f"--dir={folder}"]) == 0
    assert not folder.exists()


def test_a_deletion_that_was_interrupted_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cluster"
    claim(folder)
    fill(folder)

    def failing(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", failing)
        assert main(["local", "down", "--delete", f"--dir={folder}"]) == 1
    assert (folder / MARKER).exists()
    assert main(["local", "down", "--delete", f"--dir={folder}"]) == 0
    assert not folder.exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ForeignFolderError, match="is not a folder"):
        claim(tmp_path / "file")
