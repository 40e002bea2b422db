# SPDX-License-Identifier: Apache-2.0
"""The soak of the test suite: what it tells of a failure, and that nothing outlives it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import alive, heeding
from tests.repository import ROOT
from tests.soak.repeat import LOGS
from trainwright.controller.runtime.testing.waiting import eventually_sync, is_empty

COMMAND = [sys.executable, "-m", "tests.soak.repeat"]
MIXED = """
import pytest
def test_good(): pass
def test_bad(): assert 1 + 1 == 3
@pytest.fixture
def broken():
    yield
    raise RuntimeError("not taken down")
def test_left(broken): pass
"""
HANGING = """
import os, pathlib, time
def test_it():
    pathlib.Path(__file__).with_name("pid").write_text(str(os.getpid()))
    time.sleep(600)
"""


INI = "[pytest]\naddopts = --maxprocesses=1 -p trainwright.controller.local.testing.pytest_plugin\nmarkers = parity\n"
"""One worker, whatever the Makefile says: each is a process that takes a second."""


def environment() -> dict[str, str]:
    """Without what tells pytest that it runs inside of another."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


@pytest.fixture
def tests(tmp_path: Path) -> Iterator[Path]:
    """A folder for tests that is pytest's root. Logs that are kept go with it."""
    (tmp_path / "pytest.ini").write_text(INI)
    before = {*LOGS.glob("*.log")}
    yield tmp_path
    for log in {*LOGS.glob("*.log")} - before:
        log.unlink()


def test_what_failed_is_named_with_the_way_to_repeat_it_and_the_log_kept(tests: Path) -> None:
    (tests / "test_mixed.py").write_text(MIXED)
    done = subprocess.run(
        [*COMMAND, "--rounds=2", "--way=load", "--way=leaks", str(tests)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout
    runs = re.findall(r"^(\S+), seed (\d+): FAILED \(exit code 1\) in \d+ s: (.*)$", output, re.MULTILINE)
    assert [(way, counts) for way, _, counts in runs] == [
        ("load", "1 failed, 2 passed, 1 error"),
        ("leaks", "1 failed, 2 passed, 1 error"),
    ], output + done.stderr
    assert done.returncode == 1
    command = re.search(
        rf"^    (\S+ .*::test_bad --leaks --timeout=3000 --randomly-seed={runs[1][1]})$", output, re.MULTILINE
    )
    assert command is not None, output
    again = subprocess.run(command[1].split(), cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert "1 failed" in again.stdout
    for log in map(Path, re.findall(r"^  log: (.*)$", output, re.MULTILINE)):
        assert "not taken down" in log.read_text()
    # Not in the summary, where lines are cut off unless CI is set.
    assert len(re.findall(r"^E +assert \(1 \+ 1\) == 3", output, re.MULTILINE)) == 2
    assert re.search(r"2 times \S*test_mixed.py::test_left", output)


def test_a_run_without_tests_is_a_failure(tests: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--rounds=1", str(tests)], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "FAILED (exit code 5)" in done.stdout
    assert "no tests ran" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_it(tests: Path, number: signal.Signals) -> None:
    (tests / "test_hanging.py").write_text(HANGING)
    pid = tests / "pid"
    with subprocess.Popen(
        heeding(*COMMAND, "--rounds=1", str(tests)), cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        eventually_sync(pid.read_text, ignore=(FileNotFoundError,))
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == (-number if number is signal.SIGKILL else 128 + number)
    eventually_sync(lambda: alive(int(pid.read_text())), is_empty)
    if number is not signal.SIGKILL:
        assert "runs that failed: 0" in output
