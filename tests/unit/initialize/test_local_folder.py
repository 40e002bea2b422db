# SPDX-License-Identifier: Apache-2.0
"""file:// copies a folder of the container."""

from pathlib import Path

import pytest

from tests.unit.initialize.runs import initialize, tree
from trainwright.controller.initialize.manifest import MANIFEST


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "a/b").mkdir(parents=True)
    (source / "lost+found").mkdir()
    (source / "a/b/x.bin").write_bytes(b"x" * 3_000_000)
    (source / "e").touch()
    return source


async def test_a_folder_is_copied_and_not_again(source: Path, tmp_path: Path) -> None:
    outcome = await initialize(f"file://{source}", tmp_path / "t", "dataset")
    assert (outcome.error, tree(tmp_path / "t")) == (None, tree(source))
    assert (await initialize(f"file://{source}", tmp_path / "t", "dataset")).said("nothing to fetch")
    (source / "e").write_text("new")
    outcome = await initialize(f"file://{source}", tmp_path / "t", "dataset")
    assert outcome.said("1 of 2 files are missing")
    assert tree(tmp_path / "t") == tree(source)


async def test_one_file(source: Path, tmp_path: Path) -> None:
    assert (await initialize(f"file://localhost{source}/a/b/x.bin", tmp_path / "t", "dataset")).error is None
    assert tree(tmp_path / "t") == {"x.bin": b"x" * 3_000_000}


async def test_the_target_itself_is_only_checked(source: Path) -> None:
    inode = (source / "a/b/x.bin").stat().st_ino
    outcome = await initialize(f"file://{source}", source, "dataset")
    assert (outcome.error, outcome.said("0 of 2 files are missing")) == (None, True)
    assert (source / "a/b/x.bin").stat().st_ino == inode


@pytest.mark.parametrize("is_interrupted", [False, True])
async def test_another_source_deletes_no_file_of_a_target_that_was_its_own_source(
    source: Path, tmp_path: Path, *, is_interrupted: bool
) -> None:
    before = tree(source)
    assert (await initialize(f"file://{source}", source, "dataset")).error is None
    if is_interrupted:
        (source / MANIFEST).unlink()
    other = tmp_path / "other"
    other.mkdir()
    (other / "new").write_text("new")
    assert (await initialize(f"file://{other}", source, "dataset")).error is None
    assert tree(source) == {**before, "new": b"new"}


async def test_links_inside_are_read_and_others_refused(source: Path, tmp_path: Path) -> None:
    (source / "..data").mkdir()
    (source / "..data/k").write_text("v")
    (source / "k").symlink_to("..data/k")
    assert (await initialize(f"file://{source}", tmp_path / "t", "dataset")).error is None
    assert tree(tmp_path / "t")["k"] == b"v"
    assert not (tmp_path / "t/k").is_symlink()
    (source / "out").symlink_to("/etc/hostname")
    outcome = await initialize(f"file://{source}", tmp_path / "t", "dataset")
    assert (outcome.word, "leads out of this folder" in outcome.sentence) == ("BadName", True)


@pytest.mark.parametrize(
    ("address", "word"),
    [
        ("file:///does/not/exist", "NotFound"),
        ("file://host/path", "WrongAddress"),
        ("file://", "WrongAddress"),
        ("file://{source}/../t/below", "WrongAddress"),
        ("file://{source}/..", "WrongAddress"),
        ("file://{source}/lost+found", "NothingFound"),
    ],
)
async def test_what_cannot_be_copied(source: Path, tmp_path: Path, address: str, word: str) -> None:
    outcome = await initialize(address.format(source=source), tmp_path / "t", "dataset")
    assert outcome.word == word
    assert not (tmp_path / "t").exists()
