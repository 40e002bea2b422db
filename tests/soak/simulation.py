# SPDX-License-Identifier: Apache-2.0
"""Lives simulated worlds with new seeds for hours, and tells which fault and action met jobs in which state.

A broken rule prints its seed, and the command that tells and shrinks its story.
"""

import argparse

from tests.simulation.__main__ import main as simulated


def main() -> int:
    """Exit code 0, or 1 if a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.simulation", description=__doc__)
    parser.add_argument("--rounds", type=int, default=240, help="minutes (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default: %(default)s)")
    arguments = parser.parse_args()
    return simulated(["--minutes", str(arguments.rounds), "--jobs", str(arguments.jobs), "--coverage", "--quiet"])


if __name__ == "__main__":
    raise SystemExit(main())
