# SPDX-License-Identifier: Apache-2.0
"""Soak of the test suite: `make test` again and again, in an order of its own and each time in another way.

- alone;
- load: beside a program on every core;
- late-watches: on local API servers whose watches are late, each kind by a time of its own, as are written statuses;
- leaks: the test that leaves something behind fails, and no later one: nothing depends on when garbage is collected;
- shortest, longest: the unit tests, with delays that are spread at random at the ends of their range.

A test that fails in one of ten runs has a cause, in the test or in the product. Printed for each run: way, seed,
duration, counts; of one that failed also the tests, how to repeat them, and pytest's own words. The logs of such runs
are kept. Exit code 1 if one failed.
"""

import argparse
import contextlib
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
LOGS = ROOT / "build" / "repeat"
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::\S+|\S+\.py\b)", re.MULTILINE)
SUMMARY = re.compile(r"^(?:=+ )?((?:\d+ [a-z]+(?:, )?)+|no tests ran) in [\d.]+s", re.MULTILINE)
_FAILURE_TEXT = re.compile(r"^=+ (ERRORS|FAILURES) =+$", re.MULTILINE)
_TAIL_LINES = 30


@dataclass(frozen=True)
class Way:
    """How the tests are run."""

    options: Sequence[str] = ()
    """Of pytest; `{seed}` is that of the run."""
    variables: Mapping[str, str] = field(default_factory=dict)
    load: bool = False
    tests: str = ""
    """Those that it is of use for; empty: all."""


def _delays(part: float) -> Way:
    is_about_chance = "--deselect=tests/unit/runtime/test_reflector.py::test_watches_end_at_random_times"
    options = ("-p", "tests.soak._chance", is_about_chance)
    return Way(options, {"TRAINWRIGHT_CHANCE": str(part)}, tests="tests/unit")


WAYS = {
    "alone": Way(),
    "load": Way(load=True),
    "late-watches": Way(("--late-watches={seed}",)),
    "leaks": Way(("--leaks", "--timeout=3000")),
    "shortest": _delays(0.0),
    "longest": _delays(0.999_999),
}


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
def guarded(
    command: Sequence[str], output: int | IO[bytes], variables: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """A program that ends, with all that it started, when the block does, or this process in whatever way."""
    environment = {**os.environ, **(variables or {})}
    process, lifeline = start_guarded(
        command, output=output, errors=subprocess.STDOUT, folder=ROOT, environment=environment
    )
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


def failure_text(log: Path) -> str:
    """What pytest says of the failures, or the end of its log where it did not come to that."""
    text = log.read_text(errors="replace")
    found = _FAILURE_TEXT.search(text)
    return text[found.start() :] if found is not None else "\n".join(text.splitlines()[-_TAIL_LINES:])


def run(name: str, selection: Sequence[str], options: Sequence[str]) -> list[str] | None:
    """Run the tests once; returns those that failed, and None if all passed."""
    way, seed = WAYS[name], secrets.randbelow(2**31)
    chosen = [*selection, *all_tests()[1:]] if selection else [way.tests or all_tests()[0], *all_tests()[1:]]
    command = pytest_command(seed, *chosen, *(one.format(seed=seed) for one in (*way.options, *options)))
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{name}-{seed}.log"
    begin = time.monotonic()
    code: int | None = None
    with (
        load() if way.load else contextlib.nullcontext(),
        log.open("wb") as output,
        guarded([*command, "-rfE", *side_by_side()], output, way.variables) as process,
        contextlib.suppress(subprocess.TimeoutExpired),
    ):
        code = process.wait(RUN_SECONDS)
    text = log.read_text(errors="replace")
    counts = (SUMMARY.findall(text) or ["no outcome"])[-1]
    how = "passed" if code == 0 else f"FAILED (exit code {code})" if code is not None else "FAILED, did not end"
    print(f"{name}, seed {seed}: {how} in {time.monotonic() - begin:.0f} s: {counts}", flush=True)
    if code == 0:
        log.unlink()
        return None
    failed = sorted(set(FAILED.findall(text)))
    for test in failed:
        repeated = pytest_command(seed, test, *(one.format(seed=seed) for one in way.options))
        print(f"  {test}\n    {shlex.join([*(f'{key}={part}' for key, part in way.variables.items()), *repeated])}")
    print(f"  log: {log}", failure_text(log), sep="\n", flush=True)
    return failed


def _terminated(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=18, help="whole runs (default: %(default)s)")
    parser.add_argument("--way", choices=WAYS, action="append", help="only in this way; may be repeated")
    parser.add_argument("tests", nargs="*", help="folders, files and tests; all tests by default")
    arguments, options = parser.parse_known_args()
    # An exception, as Ctrl-C is: what was started ends on the way out.
    signal.signal(signal.SIGTERM, _terminated)
    bad: list[list[str]] = []
    try:
        for number in range(arguments.rounds):
            ways = arguments.way or [*WAYS]
            if (failed := run(ways[number % len(ways)], arguments.tests, options)) is not None:
                bad.append(failed)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        print(f"runs that failed: {len(bad)}")
        for test, times in Counter(test for failed in bad for test in failed).most_common():
            print(f"  {times} times {test}")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
