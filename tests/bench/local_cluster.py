# SPDX-License-Identifier: Apache-2.0
"""What a local cluster costs a test: CPU time of a start and its end, in this process, after imports."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.repository import ROOT
from trainwright.controller.local.testing.cluster import ClusterHome, LocalCluster

CRDS = ROOT / "config" / "crd"


def costs(times: int, crds: Sequence[Path], *, rbac: bool = False) -> list[float]:
    """CPU seconds of each of so many clusters, one after the other."""
    found = []
    began = time.process_time()  # the first one pays for the thread and the keys
    with ClusterHome() as home:
        for _ in range(times):
            with LocalCluster(crds=crds, rbac=rbac, home=home):
                pass
            found.append(time.process_time() - began)
            began = time.process_time()
    return found


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="clusters of each kind (default: %(default)s)")
    arguments = parser.parse_args()
    for what, crds, rbac in (
        ("API server alone (budget 300 ms)", [], False),
        ("API server alone, with RBAC", [], True),
        ("with this project's three definitions (0.8 MB)", [CRDS], False),
    ):
        first, *others = costs(arguments.times, crds, rbac=rbac)
        print(f"{what}: the first {first * 1000:.0f} ms of CPU, each further one {min(others) * 1000:.0f} ms")


if __name__ == "__main__":
    main()
