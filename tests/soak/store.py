# SPDX-License-Identifier: Apache-2.0
"""Soak of the local API server's store: random operations beside a model, and random requests beside the real server.

Each sequence has a seed of its own, told with what is wrong. Exit code 1 if anything is.
"""

import argparse
import asyncio
import random
from collections import Counter

from tests.integration.local.store_difference import differences
from tests.integration.local.store_model import compare
from tests.scenarios.sides import local_side, real_side

SEQUENCES = 20
OPERATIONS = 2000
REQUESTS = 300


async def beside_the_real_server(first: int, rounds: int) -> tuple[Counter[str], list[str]]:
    """Send both servers the same requests; returns what was sent, and what differs."""
    counts, wrong = Counter[str](), list[str]()
    async with real_side() as real, local_side(memory=False) as ours:
        for seed in range(first, first + rounds * SEQUENCES):
            sent, found = await differences(real, ours, seed, REQUESTS)
            counts += sent
            wrong += found
            if (seed - first) % SEQUENCES == SEQUENCES - 1:
                print(f"requests up to seed {seed}: wrong so far: {len(wrong)}", flush=True)
    return counts, wrong


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rounds", type=int, default=20, help=f"rounds of {SEQUENCES} sequences (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, help="of the first sequence, to see it again (default: a random one)")
    arguments = parser.parse_args()
    first = arguments.seed if arguments.seed is not None else random.randrange(10**9)
    counts, wrong = Counter[str](), list[str]()
    for begin in range(first, first + arguments.rounds * SEQUENCES, SEQUENCES):
        for seed in range(begin, begin + SEQUENCES):
            for durable in (False, True):
                findings = compare(seed, OPERATIONS, durable=durable)
                counts += findings.counts
                wrong += [f"seed {seed}{', durable' if durable else ''}: {text}" for text in findings.wrong]
        print(f"operations of seeds {begin} to {begin + SEQUENCES - 1}: wrong so far: {len(wrong)}", flush=True)
    sent, differing = asyncio.run(beside_the_real_server(first, arguments.rounds))
    counts += sent
    wrong += differing
    for text in wrong[:20]:
        print(f"  {text}", flush=True)
    for what, count in counts.most_common():
        print(f"  {what:40}{count:8}")
    print(f"wrong: {len(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
