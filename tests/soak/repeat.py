# SPDX-License-Identifier: Apache-2.0
"""Soak of the test suite: `make test` again and again, each run in an order of its own, every second beside a load.

A test that fails in one of ten runs has a cause, in the test or in the product. Printed for each run: seed, duration,
counts; of one that failed also the tests, how to repeat them, and pytest's own words. The logs of such runs are kept.
Exit code 1 if one failed.
"""

import argparse
import contextlib
import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn

from tests.repository import ROOT
from trainwright.controller.runtime.testing.component import start_guarded

RUN_SECONDS = 7200.0
"""A run that has not ended by then hangs, and is ended. The load ends by itself then. Slow machines take an hour."""
LOAD = (
    "import sys, time; end = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: sum(range(100_000))"
)
"""Keeps one core busy, for so many seconds."""
_FAILURE_TEXT = re.compile(r"^=+ (ERRORS|FAILURES) =+$", re.MULTILINE)
_TAIL_LINES = 30


@dataclass
class Run:
    """What became of one run."""

    seed: int
    seconds: float
    code: int | None
    """Exit code of pytest; None if it did not end in time."""
    counts: dict[str, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    """Ids of tests."""

    @property
    def passed(self) -> bool:
        return self.code == 0

    def line(self) -> str:
        counts = ", ".join(f"{number} {name}" for name, number in sorted(self.counts.items())) or "no outcome"
        how = (
            "passed" if self.passed else "FAILED" if self.code is not None else f"FAILED, ended after {RUN_SECONDS:g} s"
        )
        code = f" (exit code {self.code})" if self.code else ""
        return f"{how}{code} in {self.seconds:.0f} s: {counts}"


def all_tests() -> list[str]:
    """What `make test` runs."""
    return _of_makefile("TESTS")


def side_by_side() -> list[str]:
    """How `make test` spreads the tests over workers."""
    return _of_makefile("SIDE_BY_SIDE")


def _of_makefile(name: str) -> list[str]:
    found = re.search(rf"^{name} := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    return shlex.split(found[1])


def pytest_command(seed: int, *arguments: str) -> list[str]:
    """Pytest in this order."""
    return [sys.executable, "-m", "pytest", *arguments, f"--randomly-seed={seed}"]


@contextlib.contextmanager
def guarded(command: Sequence[str], output: int | IO[bytes]) -> Iterator["subprocess.Popen[bytes]"]:
    """A program that ends, with all that it started, when the block does, or this process in whatever way."""
    process, lifeline = start_guarded(command, output=output, errors=subprocess.STDOUT, folder=ROOT)
    try:
        yield process
    finally:
        os.close(lifeline)
        process.wait()


@contextlib.contextmanager
def load() -> Iterator[None]:
    """Keep every core busy for the length of the block."""
    with contextlib.ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            stack.enter_context(guarded([sys.executable, "-c", LOAD, str(RUN_SECONDS)], subprocess.DEVNULL))
        yield


def run(seed: int, selection: Sequence[str], log: Path) -> Run:
    """One run of the tests; what pytest prints goes into the log."""
    outcomes = log.with_suffix(".json")
    record = ["-p", "tests.soak._outcomes", "--outcomes", str(outcomes)]
    begin = time.monotonic()
    with (
        log.open("wb") as output,
        guarded(pytest_command(seed, *selection, *side_by_side(), *record), output) as process,
    ):
        try:
            code = process.wait(RUN_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
    done = Run(seed, time.monotonic() - begin, code)
    if outcomes.exists():
        found = json.loads(outcomes.read_text())
        done.counts, done.failed = found["counts"], found["failed"]
        outcomes.unlink()
    return done


def failure_text(log: Path) -> str:
    """What pytest says of the failures, or the end of its log where it did not come to that."""
    text = log.read_text(errors="replace")
    found = _FAILURE_TEXT.search(text)
    return text[found.start() :] if found is not None else "\n".join(text.splitlines()[-_TAIL_LINES:])


def show_failure(failed: Run, selection: Sequence[str], log: Path) -> None:
    """Print what is needed to repeat it and to understand it."""
    for test in failed.failed:
        print(f"  {test}\n    {shlex.join(pytest_command(failed.seed, test))}")
    print(f"  the whole run\n    {shlex.join(pytest_command(failed.seed, *selection, *side_by_side()))}")
    print(f"  log: {log}")
    print(failure_text(log), flush=True)


def repeat(rounds: int, selection: Sequence[str]) -> int:
    """All runs, and a summary, also of fewer when it is interrupted. Gives the exit code."""
    folder = ROOT / "build" / "repeat" / time.strftime("%Y-%m-%d-%H%M%S", time.gmtime())
    folder.mkdir(parents=True)
    print(f"logs of runs that fail: {folder}", flush=True)
    runs: list[Run] = []
    try:
        for number in range(1, rounds + 1):
            seed = secrets.randbelow(2**31)
            loaded = number % 2 == 0
            what = f"run {number}, {'beside a load' if loaded else 'alone'}, seed {seed}"
            print(f"{what}: …", flush=True)
            log = folder / f"run-{number}.log"
            with load() if loaded else contextlib.nullcontext():
                done = run(seed, selection, log)
            runs.append(done)
            print(f"{what}: {done.line()}", flush=True)
            if done.passed:
                log.unlink()
            else:
                show_failure(done, selection, log)
    finally:
        bad = [done for done in runs if not done.passed]
        print(f"runs: {len(runs)} of {rounds}; failed: {len(bad)}")
        for test, times in Counter(test for done in bad for test in done.failed).most_common():
            print(f"  {times} times {test}")
        if not any(folder.iterdir()):
            folder.rmdir()
    return 1 if bad else 0


def _terminated(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="whole runs (default: %(default)s)")
    parser.add_argument(
        "selection", nargs="*", default=all_tests(), metavar="PATH", help="files and folders (default: as make test)"
    )
    arguments = parser.parse_args()
    # An exception, as Ctrl-C is: what was started ends on the way out.
    signal.signal(signal.SIGTERM, _terminated)
    try:
        return repeat(arguments.rounds, arguments.selection)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    raise SystemExit(main())
