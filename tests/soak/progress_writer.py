# SPDX-License-Identifier: Apache-2.0
"""Soak of the progress writer: trainings that write without a pause are killed at random moments.

After each kill the progress file must be a whole report of the training, or not exist. Exit code 1 if one ever was not.
"""

import argparse
import random
import tempfile
from pathlib import Path

from tests.unit.progress.processes import kill_at_random

KILLS = 200


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help=f"rounds of {KILLS} kills (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="of the first round, to see it again (default: a random one)")
    arguments = parser.parse_args()
    first = arguments.seed if arguments.seed is not None else random.randrange(10**9)
    wrong = 0
    for seed in range(first, first + arguments.rounds):
        chance = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            findings = []
            for number in range(KILLS):
                place = Path(folder) / str(number)
                place.mkdir()
                findings += [finding for finding in [kill_at_random(place, chance)] if finding]
        wrong += len(findings)
        print(f"seed {seed}: {KILLS} kills, wrong: {len(findings)}", flush=True)
        for finding in findings:
            print(f"  {finding}", flush=True)
    print(f"kills: {arguments.rounds * KILLS}; files that were damaged: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
