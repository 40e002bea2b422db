# SPDX-License-Identifier: Apache-2.0
"""docs/contributing/add-a-field.md works: its steps are followed in a copy of the repository."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.pages import blocks_of
from tests.repository import ROOT

GUIDE = ROOT / "docs/contributing/add-a-field.md"


def test_add_a_field(tmp_path: Path) -> None:
    for folder in ("api", "codegen", "config/crd", "controller", "docs/api", "plugins"):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "trainwright", tmp_path / "trainwright", symlinks=True)
    blocks = [(block.language, block.text) for block in blocks_of(GUIDE)]
    assert [language for language, _ in blocks] == ["diff", "console", "console", "python", "python"]
    for language, text in blocks:
        if language == "diff":
            run(tmp_path, ["git", "apply", "-"], text)
        elif language == "console":
            for line in text.splitlines():
                program, *arguments = line.removeprefix("$ ").split()
                assert program == "python"
                run(tmp_path, [sys.executable, *arguments])
        else:
            run(tmp_path, [sys.executable, "-"], text)
    for file in ("config/crd/trainer.kubeflow.org_trainjobs.yaml", "docs/api/trainer.kubeflow.org-v1alpha1.md"):
        assert "priorityClassName must not be none" in (tmp_path / file).read_text(encoding="utf-8")


def run(folder: Path, command: list[str], text: str = "") -> None:
    environment = {**os.environ, "PYTHONPATH": str(folder), "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    done = subprocess.run(command, cwd=folder, env=environment, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
