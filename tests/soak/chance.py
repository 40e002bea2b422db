# SPDX-License-Identifier: Apache-2.0
"""Soak of the unit tests with delays at the ends of their range.

Delays of retries, watches and looks are spread at random, so that clients do not act all at once. A test that waits for
the sum of such delays may pass thousands of times before they are all long. Here they are all as short, and all as
long, as they can be. Printed for each value: what pytest prints. Exit code 1 if a test failed.
"""

import argparse
import os
import subprocess
import sys

from tests.repository import ROOT

LONGEST = 0.999_999
ABOUT_CHANCE = ("tests/unit/runtime/test_reflector.py::test_watches_end_at_random_times",)
"""Tests that prove that a delay is spread at all."""


def parts(rounds: int) -> list[float]:
    """Values from 0 to nearly 1, the ends first."""
    between = [LONGEST * number / (rounds - 1) for number in range(1, rounds - 1)]
    return [0.0, LONGEST, *between][:rounds]


def passes(part: float, selection: list[str]) -> bool:
    """Run the tests with this part of each range."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.soak._chance", *selection]
    command += [f"--deselect={test}" for test in ABOUT_CHANCE]
    environment = {**os.environ, "TRAINWRIGHT_CHANCE": str(part)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="values, spread evenly (default: %(default)s, the ends)")
    parser.add_argument(
        "selection", nargs="*", default=["tests/unit"], metavar="PATH", help="files and folders of tests"
    )
    arguments = parser.parse_args()
    failed = []
    for part in parts(arguments.rounds):
        print(f"chance {part:g}: …", flush=True)
        if not passes(part, arguments.selection):
            failed.append(part)
    print(f"values: {arguments.rounds}; failed: {', '.join(f'{part:g}' for part in failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
