# SPDX-License-Identifier: Apache-2.0
"""The git commit that a run records: with git, without it, and where there is none."""

import shutil
import subprocess
from pathlib import Path

import pytest

from trainwright.controller.cli.local.commit import Commit, commit_of

_ALONE = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


def git(folder: Path, *words: str) -> str:
    named = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
    command = ["git", *named, "-C", str(folder), *words]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env={**_ALONE, "HOME": "/"}
    ).stdout.strip()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script in a folder of a repository with one commit."""
    folder = tmp_path / "repository" / "training"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text("print(1)\n")
    git(folder.parent, "init", "--quiet")
    git(folder.parent, "add", ".")
    git(folder.parent, "commit", "--quiet", "--message=first")
    return folder / "train.py"


def test_a_clean_folder(script: Path) -> None:
    commit = git(script.parent, "rev-parse", "HEAD")
    assert commit_of(script.parent) == Commit(commit, dirty=False)
    assert Commit(commit, dirty=False).annotations() == {
        "trainwright.dev/git-commit": commit,
        "trainwright.dev/git-dirty": "false",
    }


def test_what_counts_as_a_change(script: Path) -> None:
    commit = git(script.parent, "rev-parse", "HEAD")
    (script.parent / "model.pt").write_text("what a training wrote")
    assert commit_of(script.parent) == Commit(commit, dirty=False)
    (script.parent / "more.py").write_text("")
    assert commit_of(script.parent) == Commit(commit, dirty=True)
    git(script.parent, "add", "more.py")
    git(script.parent, "commit", "--quiet", "--message=second")
    other = script.parent.parent / "other.txt"
    other.write_text("")
    git(other.parent, "add", "other.txt")
    assert commit_of(script.parent) == Commit(git(script.parent, "rev-parse", "HEAD"), dirty=True)


def test_a_repository_that_the_environment_names_is_another_one(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert commit_of(script.parent) is not None


def test_nothing_is_recorded_outside_a_repository_and_before_its_first_commit(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.touch()
    assert commit_of(script.parent) is None
    git(tmp_path, "init", "--quiet")
    assert commit_of(script.parent) is None
    assert commit_of(tmp_path / "missing") is None


def test_without_git_nothing_is_recorded(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(script.parent) is None


ONLY_COMMIT = 'case "$*" in *rev-parse*) exec REAL "$@";; esac; '


@pytest.mark.parametrize(
    ("program", "is_known"),
    [("exit 1", False), ("exec sleep 60", False), ("printf '\\377'", False), (f"{ONLY_COMMIT}exit 1", True)],
)
def test_a_git_that_fails_or_hangs_costs_little(
    script: Path, program: str, is_known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = git(script.parent, "rev-parse", "HEAD")
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\n{program}\n".replace("REAL", shutil.which("git") or ""))
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    # One that ends has the time that a busy machine takes to start it.
    found = commit_of(script.parent, seconds=0.2 if "sleep" in program else 60)
    assert found == (Commit(commit, dirty=None) if is_known else None)
