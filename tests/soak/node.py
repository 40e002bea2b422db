# SPDX-License-Identifier: Apache-2.0
"""`make soak SOAK_ARGS=node`: the tests with a real kubelet and real containers, after making what they need.

The first time, it builds kubelet and images, which takes half an hour. Needs root on Linux; elsewhere it fails with the
reason.
"""

import argparse
import subprocess
import sys
import time

from tests.repository import ROOT


def main() -> int:
    """Exit code 1 if a round failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.node", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="how often (default: 1)")
    arguments = parser.parse_args()
    failed = 0
    for number in range(1, arguments.rounds + 1):
        began = time.monotonic()
        command = ["make", "--no-print-directory", "test", "CLUSTER=node"]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        failed += code != 0
        print(f"round {number}: exit code {code} after {time.monotonic() - began:.0f} s", flush=True)
    print(f"{arguments.rounds} rounds, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
