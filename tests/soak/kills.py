# SPDX-License-Identifier: Apache-2.0
"""Soak of a manager that is killed at each point of a TrainJob's life and started again.

The points and what is looked at are in `_killing.py`. They are gone through again and again, so that what depends on
who is quicker gets its chances. `make test` kills managers in simulated worlds. Exit code 1 if a job ever ended
otherwise than without a kill.
"""

import argparse
import asyncio

from tests.repository import ROOT
from tests.soak._killing import POINTS, kill_everywhere
from trainwright.controller.runtime.testing import ControlPlane


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="rounds of all points (default: %(default)s)")
    arguments = parser.parse_args()
    bad = 0
    for number in range(1, arguments.rounds + 1):
        with ControlPlane.complete(crds=[ROOT / "config" / "crd"], audit=True) as plane:
            found = asyncio.run(kill_everywhere(plane, at_once=4))
        wrong = {point: faults for point, faults in found.items() if faults}
        bad += len(wrong)
        print(f"round {number}: {len(found) - len(wrong)} of {len(found)} as without a kill", flush=True)
        for point, faults in wrong.items():
            print(f"  {point}: {'; '.join(faults)}", flush=True)
    print(f"kills: {arguments.rounds * len(POINTS)}; jobs that ended otherwise: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
