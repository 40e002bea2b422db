# SPDX-License-Identifier: Apache-2.0
"""Soak of the versions that are supported: the tests of the whole chain on pairs of Kubernetes and JobSet.

The pairs are the Go modules in hack/versions, and those that all tests use. Programs that are missing are built, which
takes minutes for each pair. Printed for each pair: a line of the table in docs/admins/versions.md, and the tests that
failed with pytest's own words. Exit code 1 if one failed.
"""

import argparse
import dataclasses
import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.repository import ROOT
from tests.soak.repeat import FAILED, SUMMARY, failure_text, guarded, pytest_command, side_by_side
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.tools import MODULES, MODULES_VARIABLE, ControlPlaneError

SELECTION = ("tests/e2e",)


@dataclass(frozen=True)
class Pair:
    """Kubernetes and JobSet, of these versions."""

    kubernetes: str
    jobset: str
    modules: Path | None
    """The folder of their Go modules; None for those that all tests use."""

    @contextmanager
    def chosen(self) -> Iterator[None]:
        """Let the control planes that start meanwhile be of this pair."""
        before = os.environ.pop(MODULES_VARIABLE, None)
        if self.modules is not None:
            os.environ[MODULES_VARIABLE] = str(self.modules)
        try:
            yield
        finally:
            os.environ.pop(MODULES_VARIABLE, None)
            if before is not None:
                os.environ[MODULES_VARIABLE] = before


def pairs() -> list[Pair]:
    """The oldest first."""
    folders = (None, *(path for path in (ROOT / "hack" / "versions").iterdir() if path.is_dir()))
    found = []
    for folder in folders:
        with Pair("", "", folder).chosen():
            # Copies: a module remembers its version.
            versions = {module.name: dataclasses.replace(module).version for module in MODULES}
        found.append(Pair(versions["kubernetes"].removeprefix("v"), versions["jobset"].removeprefix("v"), folder))
    return sorted(found, key=lambda pair: [int(part) for part in pair.kubernetes.split(".")])


def run(pair: Pair, selection: Sequence[str], log: Path) -> tuple[bool, str]:
    """Run the tests; whether all passed, and a line of the table."""
    seed = secrets.randbelow(2**31)
    command = [*pytest_command(seed, *selection), *side_by_side(), "-p", "tests.soak._on_a_cluster"]
    begin = time.monotonic()
    with pair.chosen(), log.open("wb") as output:
        # Before the tests: their time limits are for tests.
        provide()
        with guarded(command, output) as process:
            code = process.wait()
    text = log.read_text(errors="replace")
    summary = SUMMARY.findall(text)
    outcome = summary[-1] if summary else f"no outcome, exit code {code}"
    seconds = time.monotonic() - begin
    return code == 0, f"| {pair.kubernetes} | {pair.jobset} | {outcome} | {seconds:.0f} s, seed {seed} |"


def soak(wanted: Sequence[Pair], selection: Sequence[str], rounds: int) -> int:
    """Run all pairs; gives the exit code."""
    folder = ROOT / "build" / "versions" / time.strftime("%Y-%m-%d-%H%M%S", time.gmtime())
    folder.mkdir(parents=True)
    print(f"logs: {folder}", flush=True)
    lines, sound = [], True
    for number in range(1, rounds + 1):
        for pair in wanted:
            print(f"round {number}: Kubernetes {pair.kubernetes}, JobSet {pair.jobset} …", flush=True)
            log = folder / f"{pair.kubernetes}-{number}.log"
            try:
                passed, line = run(pair, selection, log)
            except ControlPlaneError as error:
                passed, line = False, f"| {pair.kubernetes} | {pair.jobset} | cannot be built | {error} |"
            print(line, flush=True)
            lines.append(line)
            sound = sound and passed
            if not passed and log.exists():
                print(failure_text(log), flush=True)
                for test in FAILED.findall(log.read_text(errors="replace")):
                    print(f"  {test}", flush=True)
    print("| Kubernetes | JobSet | tests | |", "| --- | --- | --- | --- |", *lines, sep="\n")
    return 0 if sound else 1


def main() -> int:
    """Parse the command line and run."""
    known = {pair.kubernetes: pair for pair in pairs()}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1, help="of all pairs (default: %(default)s)")
    parser.add_argument("--kubernetes", choices=sorted(known), action="append", help="only the pair with this version")
    parser.add_argument(
        "selection", nargs="*", default=SELECTION, metavar="PATH", help="files and folders of tests (default: all)"
    )
    arguments = parser.parse_args()
    # An exception, as Ctrl-C is: what was started ends on the way out.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    wanted = [pair for version, pair in known.items() if version in (arguments.kubernetes or known)]
    try:
        return soak(wanted, arguments.selection, arguments.rounds)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    raise SystemExit(main())
