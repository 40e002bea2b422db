# SPDX-License-Identifier: Apache-2.0
"""Soak of admission and reconcile with random TrainJobs and runtimes, thousands of them.

Each round has a seed of its own, told with what is wrong. Exit code 1 if the manager ended, raised what nobody foresaw,
was answered an internal error, or said nothing about a job.
"""

import argparse
import asyncio
import random
from collections import Counter

from tests.integration.trainer.fuzz import CRDS, fuzz
from tests.managers import start_manager
from trainwright.controller.runtime.testing import ControlPlane

PAIRS = 500


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help=f"rounds of {PAIRS} jobs (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="of the first round, to see it again (default: a random one)")
    arguments = parser.parse_args()
    first = arguments.seed if arguments.seed is not None else random.randrange(10**9)
    counts: Counter[str] = Counter()
    wrong = 0
    for seed in range(first, first + arguments.rounds):
        with ControlPlane(crds=CRDS, jobset=True) as plane:
            start_manager(plane, webhooks=True)
            findings = asyncio.run(fuzz(plane, seed, PAIRS))
        counts += findings.counts
        wrong += len(findings.wrong)
        print(f"seed {seed}: {dict(findings.counts.most_common())}, wrong: {len(findings.wrong)}", flush=True)
        for text in findings.wrong:
            print(f"  {text}", flush=True)
    print(f"jobs: {arguments.rounds * PAIRS}; wrong: {wrong}")
    for what, count in counts.most_common():
        print(f"  {what:40}{count:6}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
