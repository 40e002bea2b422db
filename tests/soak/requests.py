# SPDX-License-Identifier: Apache-2.0
"""Soak of the local API server's front: random requests, most of them wrong.

Each must be answered, and none with a defect of the server. Printed for each round: the seed, the answers by code, and
what was wrong. Exit code 1 if anything was.
"""

import argparse
import random

from tests.integration.local.bad_input import bombard

REQUESTS = 10_000


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help=f"of {REQUESTS} requests (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="of the first round, to see it again (default: a random one)")
    arguments = parser.parse_args()
    first = arguments.seed if arguments.seed is not None else random.randrange(10**9)
    failed = False
    for seed in range(first, first + arguments.rounds):
        codes, wrong = bombard(seed, REQUESTS)
        print(f"seed {seed}: {dict(sorted(codes.items()))}, {len(wrong)} wrong", flush=True)
        for text in wrong[:10]:
            print(f"  {text[:400]}", flush=True)
        failed = failed or bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
