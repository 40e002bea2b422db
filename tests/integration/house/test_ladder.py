# SPDX-License-Identifier: Apache-2.0
"""The rules of the ladder hold: leaks fail the test that made them, warnings are errors, no test stands outside."""

import re
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
SETTINGS = """
[pytest]
addopts = --import-mode=importlib --strict-markers -p no:randomly -p no:cacheprovider
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
enable_assertion_pass_hook = true
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
    "nothing": ("def test_it(): pass\n", "the test executed no assertion"),
}


CLEAN = "async def test_it(): assert __name__\n"


def run(folder: Path, **tests: str) -> str:
    """Output of pytest on test files, by step and name, with the ladder's own conftest."""
    for place, code in tests.items():
        step, _, name = place.partition("_")
        path = folder / "tests" / step / f"test_{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    (folder / "pytest.ini").write_text(SETTINGS)
    for name in ("assertions.py", "conftest.py", "jobset_definition.py", "rungs.py", "repository.py", "skips.py"):
        (folder / "tests" / name).write_text((TESTS / name).read_text())
    command = [sys.executable, "-m", "pytest", "-rA", "tests"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return f"{done.stdout}{done.stderr}\nexit code {done.returncode}"


def test_what_a_test_must_not_do_fails_it_and_no_other(tmp_path: Path) -> None:
    output = run(tmp_path, unit_clean=CLEAN, **{f"unit_{kind}": code for kind, (code, _) in LEAKS.items()})
    for kind, (_, message) in LEAKS.items():
        assert message in output
        assert re.search(rf"^(FAILED|ERROR) tests/unit/test_{kind}\.py::test_it", output, re.MULTILINE), output
    assert "PASSED tests/unit/test_clean.py::test_it" in output
    assert not re.search(r"^(FAILED|ERROR) tests/unit/test_clean", output, re.MULTILINE)
    assert output.endswith("exit code 1")


def test_an_unknown_marker_is_refused(tmp_path: Path) -> None:
    output = run(tmp_path, unit_marked="import pytest\n@pytest.mark.quick\ndef test_it(): pass\n")
    assert "'quick' not found in `markers`" in output
    assert not output.endswith("exit code 0")


def test_a_test_outside_of_the_ladder_is_refused(tmp_path: Path) -> None:
    output = run(tmp_path, elsewhere_it=CLEAN)
    assert "is not on the ladder" in output
    assert not output.endswith("exit code 0")
