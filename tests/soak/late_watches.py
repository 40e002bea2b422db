# SPDX-License-Identifier: Apache-2.0
"""The suite on local API servers whose watches are late, each kind by a time of its own, and statuses are written late.

Finds tests that take one sign for another, as the event of one kind for that of another, and such races in the
product. Each round has a seed of its own. Processes that a user starts (`trainwright local`) are as always. Exit code 1
if a test failed.
"""

import argparse
import secrets
import sys

from tests.soak._rounds import repeated
from tests.soak.repeat import all_tests, side_by_side


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", help="folders, files, tests and options of pytest; all tests by default")
    parser.add_argument("--rounds", type=int, default=2, help="how often (default: 2)")
    parser.add_argument("--seed", help="of all rounds; by default each has its own, which pytest shows")
    arguments, options = parser.parse_known_args()
    failed = 0
    for _ in range(arguments.rounds):
        seed = arguments.seed or secrets.token_hex(4)
        print(f"--late-watches={seed}", flush=True)
        chosen = all_tests()  # folders, and what is left out of them
        if arguments.tests:
            chosen = [*arguments.tests, *chosen[1:]]
        command = [sys.executable, "-m", "pytest", f"--late-watches={seed}", *side_by_side()]
        failed += repeated([*command, *chosen, *options], 1)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
