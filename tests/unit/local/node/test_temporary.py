# SPDX-License-Identifier: Apache-2.0
"""The folder of a pod's temporary files: made once, short, removed by its link, and nothing else with it."""

from pathlib import Path

from tests.assertions import does_not_raise
from trainwright.controller.local.node.volumes import make_temporary, remove_temporary


def test_it_is_made_once_and_removed(tmp_path: Path) -> None:
    link = tmp_path / "deep" / "tmp"
    folder = make_temporary(link)
    assert make_temporary(link) == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "file").touch()
    remove_temporary(link)
    assert not folder.exists()


def test_a_link_to_elsewhere_removes_nothing(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (tmp_path / "tw-x").symlink_to(precious)
    for number, target in enumerate((precious, tmp_path / "tw-x")):
        link = tmp_path / f"tmp{number}"
        link.symlink_to(target)
        remove_temporary(link)
    assert precious.exists()


def test_a_folder_of_the_user_with_such_a_name_stays(tmp_path: Path) -> None:
    """A pod can replace the link."""
    precious = tmp_path / "tw-abcdefgh"
    precious.mkdir()
    link = tmp_path / "tmp"
    link.symlink_to(precious)
    remove_temporary(link)
    assert precious.exists()
    assert not link.is_symlink()


def test_what_a_pod_made_of_the_link_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    remove_temporary(tmp_path / "tmp")
    assert (tmp_path / "tmp").is_dir()
    (tmp_path / "long").symlink_to("x" * 300)
    remove_temporary(tmp_path / "long")
    assert not (tmp_path / "long").is_symlink()


def test_nothing_to_remove(tmp_path: Path) -> None:
    with does_not_raise():
        remove_temporary(tmp_path / "tmp")
