# SPDX-License-Identifier: Apache-2.0
"""Programs of ours do not import from the folder that a command is given in, nor from PYTHONPATH."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import trainwright
from tests.repository import ROOT
from trainwright.controller.cli.local import daemon
from trainwright.controller.cli.local.options import LocalOptions
from trainwright.controller.local.interpreter import forget_user_folders, isolated_python
from trainwright.plugins.registry import ENTRY_POINTS

SHADOWS = ("queue", "random", "yaml", "msgspec", "aiohttp", "trainwright")
CLI = "trainwright.controller.cli.main"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose modules have the names of others, and which is a plugin that was never installed."""
    for name in SHADOWS:
        (tmp_path / f"{name}.py").write_text("raise SystemExit(f'{__file__} was imported')\n")
    info = tmp_path / "mine.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\nmine = queue:Mine\n")
    return tmp_path


def run(project: Path, *command: str, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=project,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("variable", ["", ".", "HERE"])
def test_a_program_of_ours_finds_its_own_modules(project: Path, variable: str) -> None:
    names = run(
        project,
        *isolated_python(),
        "-c",
        f"import importlib.metadata as found, {', '.join(SHADOWS)}\n"
        f"print([one.name for one in found.entry_points(group={ENTRY_POINTS!r})])",
        PYTHONPATH=variable.replace("HERE", str(project)),
    )
    assert "mine" not in names


def test_the_command_as_a_module_finds_its_own_too(project: Path) -> None:
    (project / "trainwright.py").unlink()  # found before any line of ours runs
    assert trainwright.__version__ in run(project, sys.executable, "-m", CLI, "--version")
    assert "mine" not in run(project, sys.executable, "-m", CLI, "plugins")


def test_the_cluster_in_the_background_is_started_like_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    def popen(command: list[str], **_: Any) -> Any:
        started.append(command)
        raise daemon.ClusterStartError

    monkeypatch.setattr("subprocess.Popen", popen)
    with pytest.raises(daemon.ClusterStartError):
        daemon.start_in_background(LocalOptions(name="a", folder=tmp_path / "a"))
    assert started[0][: len(isolated_python()) + 2] == [*isolated_python(), "-m", CLI]


def test_folders_of_the_variable_are_forgotten(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = list(filter(None, sys.path))
    site = next(entry for entry in kept if entry.endswith("site-packages"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(project), site)))
    monkeypatch.setattr(sys, "path", [str(project), "", *kept])
    forget_user_folders()
    assert sys.path == kept


def test_a_plugin_in_a_folder_of_the_variable_is_left_out_and_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.leave_out_user_plugins()
    monkeypatch.setattr(sys, "path", [str(project), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(project))
    daemon.leave_out_user_plugins()
    said = capsys.readouterr().err
    assert said.startswith(
        "warning: plugin mine (distribution mine 1) is not loaded: it is in a folder of PYTHONPATH only"
    )
    assert said.count("warning") == 1


def test_an_installation_that_the_variable_names_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isolated_python() == [sys.executable, "-P", "-E"]
    monkeypatch.setenv("PYTHONPATH", str(Path(trainwright.__file__).parent.parent))
    assert isolated_python() == [sys.executable, "-P"]
    before = list(sys.path)
    forget_user_folders()
    assert sys.path == before


ELSEWHERE = {
    Path("controller/local/interpreter.py"): "the one that the others call",
    Path("controller/runtime/testing/build.py"): "pip, in a folder of our own and without PYTHONPATH",
}


def test_no_other_program_is_started_with_the_current_folder() -> None:
    for path in (ROOT / "controller").rglob("*.py"):
        if path.relative_to(ROOT) in ELSEWHERE:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.List) and node.elts and ast.unparse(node.elts[0]) == "sys.executable":
                assert ast.unparse(node.elts[1]) == "'-I'", f"{path}:{node.lineno}"
