# SPDX-License-Identifier: Apache-2.0
"""`make soak SOAK_ARGS=node`: the tests with a real kubelet and real containers, after making what they need.

The first time, it builds kubelet and images, which takes half an hour. Needs root on Linux; elsewhere it fails with the
reason.
"""

import argparse
import sys

from tests.soak._rounds import repeated


def main() -> int:
    """Exit code 1 if a round failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.node", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="how often (default: 1)")
    arguments = parser.parse_args()
    return repeated(["make", "--no-print-directory", "test", "CLUSTER=node"], arguments.rounds)


if __name__ == "__main__":
    sys.exit(main())
