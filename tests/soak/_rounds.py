# SPDX-License-Identifier: Apache-2.0
"""One command again and again, and tests that need a program which is not built for every run."""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.repository import ROOT
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.tools import ControlPlaneError


def repeated(command: Sequence[str], rounds: int) -> int:
    """Run it in the repository, a line each; gives exit code 1 if a round failed."""
    failed = 0
    for number in range(1, rounds + 1):
        began = time.monotonic()
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        failed += code != 0
        print(f"round {number}: exit code {code} after {time.monotonic() - began:.0f} s", flush=True)
    print(f"{rounds} rounds, {failed} failed")
    return 1 if failed else 0


def tests_with(program: str, tests: str, *also: str, description: str | None) -> int:
    """The command line of a soak that builds a program, which takes minutes, and runs tests; gives its exit code.

    `also` names modules that are run as often as the tests.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=1, help="how often (default: 1)")
    arguments = parser.parse_args()
    try:
        provide([program])
    except ControlPlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    commands = [["pytest", tests], *([module] for module in also)]
    return max([repeated([sys.executable, "-m", *command], arguments.rounds) for command in commands])
