# SPDX-License-Identifier: Apache-2.0
"""The rules of the ladder hold: leaks fail the test that made them, warnings are errors, no test stands outside."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
SETTINGS = """
[pytest]
addopts = --import-mode=importlib --strict-markers -p no:randomly -p no:cacheprovider
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""

LEAKS = {
    "task": (
        """
import asyncio
KEPT = []
async def test_it():
    KEPT.append(asyncio.create_task(asyncio.sleep(60), name="forgotten"))
""",
        "left tasks running: forgotten",
    ),
    "socket": (
        """
import socket
KEPT = []
def test_it():
    KEPT.append(socket.socket())
""",
        "left behind: socket socket:[",
    ),
    "process": (
        """
import subprocess
KEPT = []
def test_it():
    KEPT.append(subprocess.Popen(["sleep", "10"]))
""",
        "left behind: process ",
    ),
    "warning": ("import warnings\ndef test_it():\n    warnings.warn('careful')\n", "UserWarning: careful"),
    "marker": ("import pytest\n@pytest.mark.quick\ndef test_it(): pass\n", "'quick' not found in `markers`"),
}


def run(folder: Path, where: str, code: str) -> tuple[int, str]:
    """Exit code and output of pytest on one test file, with the ladder's own conftest."""
    path = folder / "tests" / where / "test_it.py"
    path.parent.mkdir(parents=True)
    path.write_text(code)
    (folder / "pytest.ini").write_text(SETTINGS)
    (folder / "tests" / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests"], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("kind", LEAKS)
def test_what_a_test_must_not_do_fails_it(kind: str, tmp_path: Path) -> None:
    code, message = LEAKS[kind]
    exit_code, output = run(tmp_path, "unit", code)
    assert exit_code != 0
    assert message in output


def test_a_clean_test_passes(tmp_path: Path) -> None:
    assert run(tmp_path, "unit", "async def test_it(): pass\n")[0] == 0


def test_a_test_outside_of_the_ladder_is_refused(tmp_path: Path) -> None:
    exit_code, output = run(tmp_path, "elsewhere", "def test_it(): pass\n")
    assert exit_code != 0
    assert "is not on the ladder" in output
