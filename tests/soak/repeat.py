# SPDX-License-Identifier: Apache-2.0
"""Soak of the test suite: `make test` again and again, each run in an order of its own, every second beside a load.

A test that fails in one of ten runs has a cause, in the test or in the product. Printed for each run: seed, duration,
counts; of one that failed also the tests, how to repeat them, and pytest's own words. The logs of such runs are kept.
What became of each run is kept in a file: started again for the same files and tests, it goes on after the last run.
Exit code 1 if one failed.
"""

import argparse
import contextlib
import dataclasses
import hashlib
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


def fingerprint(selection: Sequence[str]) -> str:
    """Twelve hex digits of what is tested: the commit, what changed since, files that nobody added, and the tests."""

    def git(*arguments: str) -> bytes:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout

    found = hashlib.sha256()
    for part in (git("rev-parse", "HEAD"), git("diff", "--binary", "HEAD"), "\0".join(selection).encode()):
        found.update(hashlib.sha256(part).digest())
    for name in sorted(git("ls-files", "-z", "--others", "--exclude-standard").split(b"\0")):
        path = ROOT / os.fsdecode(name)
        # A link is what it names: it may lead to a folder, or to nothing.
        content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found.update(hashlib.sha256(name + b"\0" + content).digest())
    return found.hexdigest()[:12]


class Series:
    """Runs of the same files, kept in a file that is replaced after each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "results.json"
        self.runs: list[Run] = []
        with contextlib.suppress(FileNotFoundError):
            self.runs = [Run(**found) for found in json.loads(self._file.read_text())]
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, done: Run) -> None:
        self.runs.append(done)
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps([dataclasses.asdict(each) for each in self.runs], indent=1) + "\n")
        new.replace(self._file)

    def forget(self) -> None:
        """Begin anew."""
        self.runs.clear()
        for each in self.folder.iterdir():
            each.unlink()


def repeat(rounds: int, selection: Sequence[str], *, anew: bool) -> int:
    """All runs, and a summary, also of fewer when it is interrupted. Gives the exit code."""
    series = Series(ROOT / "build" / "repeat" / fingerprint(selection))
    if anew:
        series.forget()
    print(f"results, and logs of runs that fail: {series.folder}", flush=True)
    for number, done in enumerate(series.runs, 1):
        print(f"run {number}, earlier, seed {done.seed}: {done.line()}", flush=True)
    try:
        for number in range(len(series.runs) + 1, rounds + 1):
            seed = secrets.randbelow(2**31)
            loaded = number % 2 == 0
            what = f"run {number}, {'beside a load' if loaded else 'alone'}, seed {seed}"
            print(f"{what}: …", flush=True)
            log = series.folder / f"run-{number}.log"
            with load() if loaded else contextlib.nullcontext():
                done = run(seed, selection, log)
            series.add(done)
            print(f"{what}: {done.line()}", flush=True)
            if done.passed:
                log.unlink()
            else:
                show_failure(done, selection, log)
    finally:
        bad = [done for done in series.runs if not done.passed]
        print(f"runs: {len(series.runs)} of {rounds}; failed: {len(bad)}")
        for test, times in Counter(test for done in bad for test in done.failed).most_common():
            print(f"  {times} times {test}")
    return 1 if bad else 0


def _terminated(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rounds", type=int, default=20, help="whole runs, with those of earlier starts (default: %(default)s)"
    )
    parser.add_argument("--new", action="store_true", help="forget the runs of earlier starts")
    parser.add_argument(
        "selection", nargs="*", default=all_tests(), metavar="PATH", help="files and folders (default: as make test)"
    )
    arguments = parser.parse_args()
    # An exception, as Ctrl-C is: what was started ends on the way out.
    signal.signal(signal.SIGTERM, _terminated)
    try:
        return repeat(arguments.rounds, arguments.selection, anew=arguments.new)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    raise SystemExit(main())
