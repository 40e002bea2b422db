# SPDX-License-Identifier: Apache-2.0
"""`make help` tells the truth: every target that is meant for people is listed, with a line of its own."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository import ROOT

# What a make passes on to those that it starts: these tests may run under `make unit`.
MAKE_VARIABLES = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}


def make(*arguments: str, folder: Path = ROOT) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in MAKE_VARIABLES}
    command = ["make", "--no-print-directory", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(params=[False, True], ids=["from a shell", "from a make"])
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setenv("MAKELEVEL", "1")
        monkeypatch.setenv("MAKEFLAGS", "w")


@pytest.mark.usefixtures("level")
def test_help_lists_every_phony_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    declared = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert declared is not None
    printed = make("help")
    listed = [line.split()[0] for line in printed.splitlines()]
    assert sorted(listed) == sorted(declared[1].split())
    assert all(len(line.split()) > 2 for line in printed.splitlines())


def test_bench_runs_every_script_in_turn() -> None:
    recipe = make("--dry-run", "bench")
    scripts = recipe.partition("for script in ")[2].partition(";")[0].split()
    assert scripts[0] == "tests/bench/machine.py"  # the factor comes before the times
    assert sorted(scripts) == sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "bench").glob("*.py"))
    assert '"$script" || { echo "failed: $script"; exit 1; }' in recipe


def copy_of(folder: Path, version: str) -> None:
    """The Makefile and the installer beside a .venv that is done, made by this version of Python."""
    (folder / "hack").mkdir()
    for name in ("Makefile", "pyproject.toml", "hack/install.py", "hack/requirements.txt"):
        shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").mkdir()
    (folder / ".venv" / "pyvenv.cfg").write_text(f"version = {version}\n")
    (folder / ".venv" / "installed").touch()


@pytest.mark.parametrize(
    ("version", "named", "installs"),
    [
        ("3.2.1", True, True),
        (".".join(map(str, sys.version_info[:3])), True, False),
        ("3.2.1", False, False),
    ],
    ids=["another one is named", "the same is named", "none is named"],
)
def test_the_environment_is_made_by_the_python_that_is_named(
    version: str, named: bool, installs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHON", raising=False)
    copy_of(tmp_path, version)
    choice = [f"PYTHON={sys.executable}"] if named else []
    assert (" hack/install.py" in make("--dry-run", "unit", *choice, folder=tmp_path)) == installs


def test_clean_deletes_all_environments_but_not_that_of_a_cluster_that_is_up(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    made = ["hack", ".venv", ".run/venv/bin", ".run/trainings", "build", "dist"]
    for folder in made:
        (tmp_path / folder).mkdir(parents=True)
    python = tmp_path / ".run" / "venv" / "bin" / "python"
    python.symlink_to("/bin/sleep")
    with subprocess.Popen([python, "60"]) as cluster:
        refused = subprocess.run(["make", "clean"], cwd=tmp_path, capture_output=True, text=True, check=False)
        cluster.kill()
    assert refused.returncode != 0
    assert "end it first: .run/venv/bin/trainwright local down --delete" in refused.stderr
    assert all((tmp_path / folder).is_dir() for folder in made)
    make("clean", folder=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Makefile", "hack"]
