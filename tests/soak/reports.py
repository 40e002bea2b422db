# SPDX-License-Identifier: Apache-2.0
"""Soak of the status server: random reports, most of them wrong.

Each must be answered in JSON, none with a defect, and what is accepted must be what the API server stores. Printed for
each round: the seed, the answers by code, what became of the accepted values, the memory of this process, in which the
server runs, and what was wrong. Exit code 1 if anything was, or if the memory grows from round to round.
"""

import argparse
import asyncio
import random
import tempfile
from pathlib import Path

from tests.integration.trainer.bad_reports import bombard

REPORTS = 10_000
GROWTH_MIB = 30.0
"""More than the first round left behind: the API server in this process keeps a history of its own."""


def resident_mib() -> float:
    """Memory of this process."""
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help=f"of {REPORTS} reports (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="of the first round, to see it again (default: a random one)")
    arguments = parser.parse_args()
    first = arguments.seed if arguments.seed is not None else random.randrange(10**9)
    failed, least = False, float("inf")
    for seed in range(first, first + arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            codes, wrong, outcomes = asyncio.run(bombard(Path(folder), seed, REPORTS))
        memory = resident_mib()
        least = min(least, memory)
        shown = dict(sorted(codes.items()))
        print(f"seed {seed}: {shown}, {dict(outcomes)}, {memory:.0f} MiB, {len(wrong)} wrong", flush=True)
        for text in wrong[:10]:
            print(f"  {text[:600]}", flush=True)
        failed = failed or bool(wrong) or bool(outcomes["refused"] or outcomes["failed"]) or memory > least + GROWTH_MIB
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
