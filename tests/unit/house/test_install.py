# SPDX-License-Identifier: Apache-2.0
"""`hack/install.py`: what it says to a Python that is too old, and when it replaces .venv."""

import ast
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.assertions import does_not_raise
from tests.repository import ROOT

SCRIPT = ROOT / "hack" / "install.py"


class Folder:
    """The script on a .venv of the test's own, with stand-ins for the programs in it."""

    def __init__(self, folder: Path) -> None:
        self.venv = folder / ".venv"
        (folder / "hack").mkdir()
        (folder / "hack" / "install.py").write_text(SCRIPT.read_text())
        self._script = folder / "hack" / "install.py"

    def make(self, *, version: str, key: str = "version", python: str | None = "exit 0") -> None:
        (self.venv / "bin").mkdir(parents=True)
        (self.venv / "lib" / "package").mkdir(parents=True)
        (self.venv / "pyvenv.cfg").write_text(f"home = /usr/bin\n{key} = {version}\n")
        if python is not None:
            (self.venv / "bin" / "python").write_text(f"#!/bin/sh\n{python}\n")
            (self.venv / "bin" / "python").chmod(0o755)

    def call(self, function: str, *arguments: str) -> Any:
        called: Callable[..., Any] = runpy.run_path(str(self._script))[function]
        return called(*arguments)

    def script(self) -> dict[str, Any]:
        return runpy.run_path(str(self._script))

    def clear(self) -> None:
        script = self.script()
        clear: Callable[[Any], None] = script["clear"]
        clear(script["DEVELOPMENT"])


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


THIS = ".".join(map(str, sys.version_info[:3]))


def test_an_old_python_can_read_the_script() -> None:
    with does_not_raise():
        ast.parse(SCRIPT.read_text(), feature_version=(3, 6))


def test_nothing_new_is_evaluated_before_the_version_is_checked() -> None:
    body = ast.parse(SCRIPT.read_text()).body
    check = next(
        number for number, statement in enumerate(body) if ast.unparse(statement).splitlines() == ["check_python()"]
    )
    definitions = [statement for statement in body if isinstance(statement, ast.FunctionDef)]
    assert [definition.name for definition in definitions if body.index(definition) < check] == ["check_python"]


def test_an_old_python_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 6, 15))
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or later.*\n.*make install PYTHON=") as refusal:
        runpy.run_path(str(SCRIPT))
    assert str(refusal.value).startswith("error: ")


@pytest.mark.parametrize("key", ["version", "version_info"])
def test_a_whole_environment_of_this_python_is_kept(folder: Folder, key: str) -> None:
    folder.make(version=THIS, key=key)
    folder.clear()
    assert (folder.venv / "lib" / "package").is_dir()


@pytest.mark.parametrize(
    ("version", "python"),
    [("3.2.1", "exit 0"), (THIS, "exit 1"), (THIS, None), ("", "exit 0")],
    ids=["another Python", "no pip", "no Python", "no version"],
)
def test_an_unusable_environment_is_emptied(folder: Folder, version: str, python: str | None) -> None:
    folder.make(version=version, python=python)
    folder.clear()
    assert list(folder.venv.iterdir()) == []


def test_a_folder_that_the_environment_links_to_is_kept(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "large-disk").mkdir()
    folder.venv.symlink_to(tmp_path / "large-disk")
    folder.make(version="3.2.1")
    folder.clear()
    assert folder.venv.is_symlink()
    assert list((tmp_path / "large-disk").iterdir()) == []


def test_a_folder_that_is_no_environment_is_kept(folder: Folder) -> None:
    folder.venv.mkdir()
    (folder.venv / "model.pt").touch()
    with pytest.raises(SystemExit, match=r"\.venv holds model\.pt and is not an environment; move it away"):
        folder.clear()
    assert (folder.venv / "model.pt").exists()


def test_an_environment_that_was_not_finished_is_emptied(folder: Folder) -> None:
    (folder.venv / "bin").mkdir(parents=True)
    folder.clear()
    assert list(folder.venv.iterdir()) == []


@pytest.mark.parametrize(("version", "code"), [(THIS, 0), ("3.2.1", 1)])
def test_it_tells_whether_the_environment_is_of_this_python(folder: Folder, version: str, code: int) -> None:
    folder.make(version=version)
    done = subprocess.run(
        [sys.executable, "-W", "error", "hack/install.py", "--is-current"],
        cwd=folder.venv.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_settings_that_lead_elsewhere_are_not_passed_on(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("PYTHONPATH", "PIP_USER", "PIP_TARGET"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("PIP_INDEX_URL", "kept")
    folder.call("run", sys.executable, "-c", "import os; print(sorted(name for name in os.environ if 'P' == name[0]))")
    shown = capfd.readouterr().out
    assert "PIP_INDEX_URL" in shown
    assert not any(name in shown for name in ("PYTHONPATH", "PIP_USER", "PIP_TARGET"))


def test_a_step_that_fails_ends_it_with_its_command(folder: Folder) -> None:
    with pytest.raises(SystemExit, match=r"^error: .* -c raise SystemExit\(3\) failed with code 3$"):
        folder.call("run", sys.executable, "-c", "raise SystemExit(3)")


def test_an_environment_is_set_up_again_when_its_list_changes(folder: Folder) -> None:
    def is_complete(name: str) -> bool:
        script = folder.script()
        found: bool = script["is_complete"](script[name])
        return found

    for name in ("RUN", "TRAININGS"):
        target = folder.script()[name]
        assert not is_complete(name)
        target.requirements.touch()
        (folder.venv.parent / "pyproject.toml").touch()
        target.venv.mkdir(parents=True)
        target.stamp.touch()
        assert is_complete(name)
        later = target.stamp.stat().st_mtime + 1
        os.utime(target.requirements, (later, later))
        assert not is_complete(name)
