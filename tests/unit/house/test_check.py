# SPDX-License-Identifier: Apache-2.0
"""`hack/check` on its own: it finds its tools, checks every shell script, and lists everything that failed.

It runs on a copy whose tools are stand-ins that write down how they were called.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.repository import ROOT

TOOLS = ("ruff", "mypy", "pyright", "lint-imports", "shellcheck", "python", "codespell", "mkdocs")
TOOL = """#!/bin/sh
echo "${{0##*/}} $*" >> calls
exit {code}
"""


class Copy:
    """hack/check with stand-ins for its tools."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".venv" / "bin").mkdir(parents=True)
        (folder / ".venv" / "installed").touch()
        for name in TOOLS:
            self.tool(name)
        (folder / ".ci").mkdir()
        shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
        (folder / "hack").mkdir()
        for path in (ROOT / "hack").iterdir():
            if path.is_file():
                shutil.copy(path, folder / "hack" / path.name)

    def tool(self, name: str, *, code: int = 0) -> None:
        path = self.folder / ".venv" / "bin" / name
        path.write_text(TOOL.format(code=code))
        path.chmod(0o755)

    def run(self, *arguments: str) -> tuple[int, str]:
        """Exit code and what was said on standard error, with nothing on PATH but the system's own folders."""
        done = subprocess.run(
            [self.folder / "hack" / "check", *arguments],
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stderr

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def test_it_runs_on_the_tools_of_the_virtual_environment(copy: Copy) -> None:
    assert copy.run() == (0, "")
    assert {call.split()[0] for call in copy.calls} == set(TOOLS)


def test_every_shell_script_is_checked_whatever_its_first_line(copy: Copy) -> None:
    for name, line in (("one", "#!/usr/bin/env sh"), ("two", "#!/usr/bin/bash"), ("three", "#!/usr/bin/env python3")):
        (copy.folder / "hack" / name).write_text(f"{line}\n")
    copy.run()
    call = next(call for call in copy.calls if call.startswith("shellcheck"))
    assert call.split()[1:] == [".ci/run", "hack/build-image", "hack/check", "hack/lock", "hack/one", "hack/two"]


def test_all_checks_run_though_one_fails(copy: Copy) -> None:
    copy.tool("ruff", code=1)
    code, errors = copy.run()
    assert code == 1
    assert errors == "failed: format lint\n"
    assert any(call.startswith("shellcheck") for call in copy.calls)


@pytest.mark.parametrize(("part", "tools"), [("types", {"mypy", "pyright"}), ("docs", {"codespell", "mkdocs"})])
def test_a_part_alone(part: str, tools: set[str], copy: Copy) -> None:
    assert copy.run(part) == (0, "")
    assert {call.split()[0] for call in copy.calls} == tools


def test_without_a_virtual_environment_it_says_how_to_make_one(copy: Copy) -> None:
    (copy.folder / ".venv" / "installed").unlink()
    code, errors = copy.run()
    assert code == 1
    assert "make install" in errors
