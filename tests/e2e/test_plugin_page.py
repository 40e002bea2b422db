# SPDX-License-Identifier: Apache-2.0
"""The project of docs/plugins.md, written and tried as a reader would: in a fresh folder and a fresh environment."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.pages import blocks_of
from tests.repository import ROOT

PAGE = ROOT / "docs" / "plugins.md"


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """Of a reader with an environment that has Trainwright and pytest, as those of the tests are."""
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=True)
    packages = next((folder / "lib").glob("python*/site-packages"))
    # Python 3.11 brings a setuptools that is too old; a build in isolation would not see it.
    for old in packages.glob("setuptools*"):
        shutil.rmtree(old)
    # addsitedir follows an editable installation.
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "trainwright-of-the-tests.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    for name in ("pytest", "trainwright"):
        module = {"pytest": "pytest", "trainwright": "trainwright.controller.cli.main"}[name]
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


def test_its_files_and_commands_work_as_they_stand(shell: dict[str, str], tmp_path: Path) -> None:
    project = tmp_path / "acme"
    project.mkdir()
    blocks = blocks_of(PAGE)
    for block in blocks:
        if block.title:
            (project / block.title).write_text(block.text)
    assert sorted(path.name for path in project.iterdir()) == ["acme_ray.py", "pyproject.toml", "test_acme_ray.py"]
    (commands,) = [block.text for block in blocks if block.is_shell]
    done = subprocess.run(
        ["sh", "-eu"], input=commands, cwd=project, env=shell, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    (row,) = [line.split() for line in done.stdout.splitlines() if line.startswith("Ray ")]
    assert row[1:3] == ["0.1.0", "acme-trainwright-ray"]
