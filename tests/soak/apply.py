# SPDX-License-Identifier: Apache-2.0
"""Soak of server-side apply: our field manager beside Kubernetes' own, on random schemas, documents and managers.

Each sequence has a seed of its own, told with what is wrong. Exit code 1 if an answer differs.
"""

import argparse
import random
from collections import Counter

from tests.integration.local.apply_fuzz import fuzz, fuzz_sets
from tests.integration.local.oracle import Oracle

SEQUENCES = 2000


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rounds", type=int, default=10, help=f"rounds of {SEQUENCES} sequences (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, help="of the first sequence, to see it again (default: a random one)")
    arguments = parser.parse_args()
    first = arguments.seed if arguments.seed is not None else random.randrange(10**9)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    with Oracle() as oracle:
        for seed in range(first, first + arguments.rounds * SEQUENCES, SEQUENCES):
            found = [
                fuzz(oracle, seed, SEQUENCES),
                fuzz_sets(oracle, seed, SEQUENCES),
            ]
            for findings in found:
                counts += findings.counts
                wrong += findings.wrong
            print(f"seeds {seed} to {seed + SEQUENCES - 1}: wrong so far: {len(wrong)}", flush=True)
    for text in wrong[:20]:
        print(f"  {text}", flush=True)
    for what, count in counts.most_common():
        print(f"  {what:40}{count:8}")
    print(f"wrong: {len(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
