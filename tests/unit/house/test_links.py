# SPDX-License-Identifier: Apache-2.0
"""The import root: links that are links, one copy of every class, a clear refusal of the rest."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository import ROOT, git

PACKAGES = ("api", "codegen", "controller", "plugins")


@pytest.mark.parametrize("name", PACKAGES)
def test_importing_the_top_level_folder_is_refused(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {name}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert f"import trainwright.{name}, not {name}" in done.stderr


def test_install_refuses_a_clone_without_links(tmp_path: Path) -> None:
    (tmp_path / "hack").mkdir()
    (tmp_path / "trainwright").mkdir()
    (tmp_path / "hack" / "install.py").write_text((ROOT / "hack" / "install.py").read_text())
    for name in PACKAGES:
        # What git writes where links are off.
        (tmp_path / "trainwright" / name).write_text(f"../{name}")
    done = subprocess.run(
        [sys.executable, "hack/install.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "trainwright/api" in done.stderr
    assert "core.symlinks=true" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_git_answers_in_a_checkout_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    refused = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "dubious ownership" in refused.stderr
    assert "pyproject.toml" in git("ls-files").splitlines()
