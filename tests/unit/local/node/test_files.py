# SPDX-License-Identifier: Apache-2.0
"""Files where a pod can change them: its links are replaced or left alone."""

import shutil
from pathlib import Path

import pytest

from trainwright.controller.local.node import files
from trainwright.controller.local.node import volumes as atomic
from trainwright.controller.local.node.document import ConfigError
from trainwright.controller.local.node.folders import remove_pod
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.local.node.volumes import ProjectedFile, Volumes


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of the user, in a folder with another one."""
    file = tmp_path / "home" / "precious"
    file.parent.mkdir()
    file.write_text("precious")
    (file.parent / "folder").mkdir()
    return file


def test_a_new_file_takes_the_place_of_a_link(tmp_path: Path, precious: Path) -> None:
    place = tmp_path / "file"
    place.symlink_to(precious)
    files.write_fresh(place, b"new", 0o700)
    assert precious.read_text() == "precious"
    assert (place.read_text(), place.stat().st_mode & 0o777, place.is_symlink()) == ("new", 0o700, False)


def test_a_removal_leaves_what_links_name(tmp_path: Path, precious: Path) -> None:
    pods = tmp_path / "pods"
    (pods / "uid" / "deep").mkdir(parents=True)
    (pods / "uid" / "deep" / "link").symlink_to(precious.parent)
    (pods / "uid" / "deep").chmod(0)
    (pods / "linked").symlink_to(precious.parent)
    settings = NodeSettings(name="n", folder=tmp_path)
    assert settings.pods == pods
    for uid in ("uid", "linked"):
        remove_pod(settings, uid)
    assert list(pods.iterdir()) == []
    assert precious.exists()


def test_two_removals_of_one_folder_both_end_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the logs of a pod, for example: its worker and the search for ended pods meet there."""
    folder = tmp_path / "logs"
    (folder / "main").mkdir(parents=True)
    (folder / "main" / "0.log").write_text("line")
    real, calls = shutil.rmtree, 0

    def meet(path: Path) -> None:
        """Somebody else is faster: with a file first, then with all that is left."""
        nonlocal calls
        calls += 1
        if calls == 1:
            (folder / "main" / "0.log").unlink()
        else:
            real(path)
        raise FileNotFoundError(path)

    monkeypatch.setattr(shutil, "rmtree", meet)
    files.remove(folder)
    assert (calls, folder.exists()) == (2, False)


@pytest.mark.parametrize("error", [PermissionError("no"), RuntimeError("odd")])
def test_files_that_cannot_be_removed_are_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    (tmp_path / "pods" / "uid").mkdir(parents=True)

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(files, "remove_tree", refuse)
    remove_pod(NodeSettings(name="n", folder=tmp_path), "uid")
    assert "files of the pod with uid uid are left" in caplog.text


def test_the_files_of_a_volume_are_written_beside_a_link_of_the_pod(tmp_path: Path, precious: Path) -> None:
    volume = tmp_path / "volume"
    atomic.write(volume, {"key": ProjectedFile(b"1", 0o644)})
    (volume / atomic.DATA).unlink()
    (volume / atomic.DATA).symlink_to(precious.parent)
    (volume / "made").mkdir()
    atomic.write(volume, {"key": ProjectedFile(b"2", 0o644)})
    assert (volume / "key").read_text() == "2"
    assert precious.exists()
    assert not (volume / "made").exists()


@pytest.mark.parametrize("path", ["link", "link/made", "link/folder"])
def test_a_subpath_does_not_leave_its_volume_by_a_link(tmp_path: Path, precious: Path, path: str) -> None:
    volumes = Volumes(tmp_path / "volumes", None)  # type: ignore[arg-type]
    data = tmp_path / "data"
    (data / "real").mkdir(parents=True)
    volumes.folders["data"] = str(data)
    (data / "link").symlink_to(precious.parent)
    (data / "inside").symlink_to("real")
    mount = {"name": "data", "mountPath": "/data", "subPath": path}
    with pytest.raises(ConfigError, match="leads out of the volume"):
        volumes.mounts_of({"volumeMounts": [mount]}, {})
    assert not (precious.parent / "made").exists()
    assert volumes.mounts_of({"volumeMounts": [mount | {"subPath": "inside/deep"}]}, {})[0].source
    assert (data / "real" / "deep").is_dir()


def test_the_folder_for_temporary_files_is_that_of_the_pod_alone(
    tmp_path: Path, precious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "SHORT", tmp_path)
    folder = atomic.make_temporary("uid-1")
    assert atomic.make_temporary("uid-1") == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "file").touch()
    for _ in range(2):
        atomic.remove_temporary("uid-1")
        assert not folder.exists()
    folder.symlink_to(precious.parent)
    with pytest.raises(FileExistsError):
        atomic.make_temporary("uid-1")
    atomic.remove_temporary("uid-1")
    assert precious.exists()
