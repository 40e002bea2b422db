# SPDX-License-Identifier: Apache-2.0
"""The session of docs/users/first-hour.md, given again from its first line to its last, with an empty home.

The page is the session: a block of console has commands behind `$ `, each with what it prints; a block with a name is a
file that the reader writes at that point. Each printed line of the page must come, in order; `…` is any text. Lines
that the page leaves out are allowed, except tracebacks.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.test_e2e_pages import first_missing
from tests.pages import blocks_of
from tests.repository import ROOT

PAGE = ROOT / "docs" / "users" / "first-hour.md"
MARK = "@@ command "
SECONDS = 240
"""For a machine that does other things, too; alone it takes less than a minute."""


@dataclass
class Step:
    """A command of the session."""

    command: str
    shown: str = ""
    """What the page says that it prints."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """An empty home, and no cluster of it afterwards."""
    folder = tmp_path / "home"
    folder.mkdir()
    yield folder
    down = [sys.executable, "-m", "trainwright.controller.cli.main", "local", "down", "--delete"]
    subprocess.run(down, env=environment(folder), cwd=tmp_path, capture_output=True, check=False)


def environment(home: Path) -> dict[str, str]:
    """Of a shell that has `trainwright`, with a home of its own."""
    programs = home.parent / "programs"
    programs.mkdir(exist_ok=True)
    command = programs / "trainwright"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m trainwright.controller.cli.main "$@"\n')
    command.chmod(0o755)
    return {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(home), "LANG": "C.UTF-8"}


def session(page: Path, folder: Path, test: str = "tests/e2e/test_first_hour.py") -> tuple[str, list[Step]]:
    """The session of a page as one script, which announces each command, and its commands.

    Args:
        page: what is replayed.
        folder: gets the files of the page.
        test: the test that the page names before each block of the session.
    """
    lines: list[str] = []
    steps: list[Step] = []
    for block in blocks_of(page):
        if block.title:
            file = folder / f"{len(lines)}-{block.title}"
            file.write_text(block.text)
            lines.append(f"cp {shlex.quote(str(file))} {shlex.quote(block.title)}")
        elif block.language == "console" and block.mark == f"not run: {test} replays it":
            for line in block.text.splitlines():
                if line.startswith("$ "):
                    steps.append(Step(line.removeprefix("$ ")))
                    # `$?` is that of the command before, as for somebody who types.
                    lines.append(f"code=$?; echo '{MARK}{len(steps)}'; (exit $code)\n{steps[-1].command}")
                else:
                    steps[-1].shown += f"{line}\n"
    return "\n".join(lines), steps


def replay(script: str, steps: list[Step], folder: Path, variables: dict[str, str], seconds: int = SECONDS) -> None:
    """Give the session in a folder; fails at the first command that does not print what the page shows."""
    done = subprocess.run(
        ["bash"],
        input=script,
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=seconds,
    )
    printed = re.split(rf"^{MARK}\d+\n", done.stdout, flags=re.MULTILINE)[1:]
    assert len(printed) == len(steps), done.stdout
    for step, output in zip(steps, printed, strict=True):
        missing = first_missing(step.shown, output)
        assert missing is None, f"$ {step.command}\ndoes not print {missing!r} there, but:\n{output}"
        assert "Traceback" in step.shown or "Traceback" not in output, f"$ {step.command}\n{output}"


def test_the_session_goes_as_the_page_shows_it(home: Path, tmp_path: Path) -> None:
    folder, files = tmp_path / "project", tmp_path / "files"
    folder.mkdir()
    files.mkdir()
    script, steps = session(PAGE, files)
    assert len(steps) > 20
    replay(script, steps, folder, environment(home))
    assert sorted(path.name for path in folder.iterdir()) == ["data.csv", "train.py"]
    assert [path for path in home.rglob("*") if not path.is_dir()] == []
    subprocess.run(["sh", "-c", uninstall()], env=environment(home), check=True)
    assert [path.relative_to(home).as_posix() for path in home.rglob("*")] == [".local", ".local/state"]


def uninstall() -> str:
    """The command of the page about local clusters that deletes what is left."""
    (block,) = [one for one in blocks_of(PAGE.parent / "local.md") if "pip uninstall trainwright" in one.text]
    (line,) = [one for one in block.text.splitlines() if one.startswith("rm -rf ")]
    return line
