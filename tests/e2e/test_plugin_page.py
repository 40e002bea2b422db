# SPDX-License-Identifier: Apache-2.0
"""The projects of the pages on plugins, written and tried as a reader would: in fresh folders and environments."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.e2e.test_e2e_pages import first_missing
from tests.pages import blocks_of
from tests.repository import ROOT

CONTRACT = ROOT / "docs" / "plugins.md"
TUTORIAL = ROOT / "docs" / "plugin-tutorial.md"


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """Of a reader with an environment that has Trainwright and pytest, as those of the tests are."""
    folder = tmp_path / "environment"
    # Without a pip of its own: it sees that of the tests, and installing one takes longer than all the rest.
    venv.create(folder)
    packages = next((folder / "lib").glob("python*/site-packages"))
    # addsitedir follows an editable installation.
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "trainwright-of-the-tests.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    modules = {"pip": "pip", "pytest": "pytest", "trainwright": "trainwright.controller.cli.main"}
    for name, module in modules.items():
        script = folder / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {folder}/bin/python -m {module} "$@"\n')
        script.chmod(0o755)
    return {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        # Nothing is downloaded: what a build needs is in the environment.
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say: without isolation
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def test_the_project_of_the_contract_works_as_it_stands(shell: dict[str, str], tmp_path: Path) -> None:
    project = project_of(CONTRACT, tmp_path)
    assert sorted(path.name for path in project.iterdir()) == ["acme_ray.py", "pyproject.toml", "test_acme_ray.py"]
    printed = commands_of(CONTRACT, project, shell)
    assert "1 passed" in printed
    assert row_of("Ray", printed)[1:3] == ["0.1.0", "acme-trainwright-ray"]


def test_the_tutorial_works_as_it_stands(shell: dict[str, str], tmp_path: Path) -> None:
    project = project_of(TUTORIAL, tmp_path)
    printed = commands_of(TUTORIAL, project, shell)
    assert row_of("NCCL", printed)[1:4] == ["0.1.0", "acme-trainwright-nccl", "enforce_ml_policy"]
    blocks = blocks_of(TUTORIAL)
    for block in blocks:
        if block.language == "text":
            assert first_missing(block.text, printed) is None, printed
    assert "3 passed" in printed
    assert [wheel.name for wheel in (project / "dist").iterdir()] == ["acme_trainwright_nccl-0.1.0-py3-none-any.whl"]


def project_of(page: Path, folder: Path) -> Path:
    """The folder with the files that the page has its reader write."""
    project = folder / "acme"
    project.mkdir()
    for block in blocks_of(page):
        if block.title:
            (project / block.title).write_text(block.text)
    return project


def commands_of(page: Path, project: Path, shell: dict[str, str]) -> str:
    """What the commands of the page print, one after the other."""
    commands = "".join(block.text for block in blocks_of(page) if block.is_shell)
    done = subprocess.run(
        ["sh", "-eu"], input=commands, cwd=project, env=shell, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def row_of(plugin: str, printed: str) -> list[str]:
    """The words of a plugin's row."""
    (row,) = [line.split() for line in printed.splitlines() if line.startswith(f"{plugin} ")]
    return row
