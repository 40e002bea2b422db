# SPDX-License-Identifier: Apache-2.0
"""The soak of the test suite: what it tells of a failure, and that nothing outlives it."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import alive, heeding
from tests.repository import ROOT
from tests.soak.repeat import fingerprint
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


def environment() -> dict[str, str]:
    """Without what tells pytest that it runs inside of another."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    """A folder for tests that is pytest's root, to which the names of tests are relative."""
    # One worker, whatever the Makefile says: each is a process that takes a second.
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --maxprocesses=1\n")
    return tmp_path


def logs_of(output: str) -> Path:
    """The folder that is named first."""
    found = re.match(r"results, and logs of runs that fail: (.*)\n", output)
    assert found is not None, output
    return Path(found[1])


def soak(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *arguments], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )


def test_what_failed_is_named_with_the_way_to_repeat_it_and_the_log_kept(tests: Path) -> None:
    (tests / "test_mixed.py").write_text(MIXED)
    first = soak("--rounds=1", str(tests))
    # Started again, it goes on with the second.
    done = soak("--rounds=2", str(tests))
    output = first.stdout + done.stdout
    runs = re.findall(r"^run \d, (.*), seed (\d+): FAILED \(exit code 1\) in \d+ s: (.*)$", output, re.MULTILINE)
    assert [(how, counts) for how, _, counts in runs] == [
        ("alone", "1 error, 1 failed, 2 passed"),
        ("earlier", "1 error, 1 failed, 2 passed"),
        ("beside a load", "1 error, 1 failed, 2 passed"),
    ]
    (alone, earlier, loaded) = (seed for _, seed, _ in runs)
    assert alone == earlier
    assert alone != loaded, "each has an order of its own"
    assert [first.returncode, done.returncode] == [1, 1], output
    commands = [
        re.search(rf"^    (\S+ .*::test_bad --randomly-seed={seed})$", output, re.MULTILINE) for seed in (alone, loaded)
    ]
    command = commands[0]
    assert command is not None
    assert commands[1] is not None
    again = subprocess.run(
        command[1].split(), cwd=tests, env=environment(), capture_output=True, text=True, check=False
    )
    assert "1 failed" in again.stdout
    logs = [Path(log).read_text() for log in re.findall(r"^  log: (.*)$", output, re.MULTILINE)]
    assert len(logs) == 2
    for text in (first.stdout, done.stdout, *logs):
        assert "assert (1 + 1) == 3" in text
        assert "not taken down" in text
    assert "2 times test_mixed.py::test_left" in done.stdout
    shutil.rmtree(logs_of(done.stdout))


def test_a_run_without_tests_is_a_failure(tests: Path) -> None:
    done = soak("--rounds=1", str(tests))
    assert done.returncode == 1
    assert "FAILED (exit code 5)" in done.stdout
    assert "no tests ran" in done.stdout
    folder = logs_of(done.stdout)
    again = soak("--rounds=1", str(tests))
    assert again.returncode == 1, "that of an earlier start is not forgotten"
    assert "run 1, earlier" in again.stdout
    anew = soak("--rounds=1", "--new", str(tests))
    assert "earlier" not in anew.stdout
    assert "run 1, alone" in anew.stdout
    assert logs_of(anew.stdout) == folder
    shutil.rmtree(folder)


def test_runs_of_other_tests_are_another_series() -> None:
    assert fingerprint(["tests/unit"]) == fingerprint(["tests/unit"])
    assert fingerprint(["tests/unit"]) != fingerprint(["tests/e2e"])


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
        assert "runs: 0 of 1; failed: 0" in output
    shutil.rmtree(logs_of(output))
