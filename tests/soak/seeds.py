# SPDX-License-Identifier: Apache-2.0
"""Random input of new seeds, as `make test` sends it with a few known ones: to the end of the night.

- apply: our field manager beside Kubernetes' own, on random schemas, documents and managers;
- fuzz: admission and reconcile with random TrainJobs and runtimes;
- reports: random reports to the status server, most of them wrong, and the memory that they leave behind;
- requests: random requests to the local API server, most of them wrong;
- store: random operations beside a model;
- writer: trainings that write progress without a pause, killed at random moments.

Each round has a seed of its own, told with what is wrong: `--only NAME --seed SEED --rounds 1` repeats it. Exit code 1
if anything is.
"""

import argparse
import asyncio
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.integration.local.apply_fuzz import fuzz as apply_fuzz
from tests.integration.local.apply_fuzz import fuzz_sets
from tests.integration.local.bad_input import bombard as bad_requests
from tests.integration.local.oracle import Oracle
from tests.integration.local.store_model import compare
from tests.integration.trainer.bad_reports import bombard as bad_reports
from tests.integration.trainer.fuzz import CRDS
from tests.integration.trainer.fuzz import fuzz as fuzz_manager
from tests.managers import start_manager
from tests.unit.progress.processes import kill_at_random
from trainwright.controller.runtime.testing import ControlPlane

GROWTH_MIB = 120.0
"""What 10,000 reports may leave in this process, where the API server keeps a history of its own."""


def apply(seed: int) -> list[str]:
    """2,000 sequences of each kind."""
    with Oracle() as oracle:
        return [*apply_fuzz(oracle, seed, 2000).wrong, *fuzz_sets(oracle, seed, 2000).wrong]


def fuzz(seed: int) -> list[str]:
    """500 jobs, each with a runtime."""
    with ControlPlane(crds=CRDS, jobset=True) as plane:
        start_manager(plane, webhooks=True)
        return asyncio.run(fuzz_manager(plane, seed, 500)).wrong


def resident_mib() -> float:
    """Memory of this process."""
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


def reports(seed: int) -> list[str]:
    """10,000 reports."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(bad_reports(Path(folder), seed, 1000))
        before = resident_mib()
        _, wrong, outcomes = asyncio.run(bad_reports(Path(folder), seed, 10_000))
    grown = resident_mib() - before
    lost = [f"{outcomes[name]} values were {name}" for name in ("refused", "failed") if outcomes[name]]
    return [*wrong, *lost, *([f"{grown:.0f} MiB are left behind"] if grown > GROWTH_MIB else [])]


def requests(seed: int) -> list[str]:
    """10,000 requests."""
    return bad_requests(seed, 10_000)[1]


def store(seed: int) -> list[str]:
    """2,000 operations, in memory and in a file."""
    return [text for durable in (False, True) for text in compare(seed, 2000, durable=durable).wrong]


def writer(seed: int) -> list[str]:
    """200 kills."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / str(number) for number in range(200)]
        for place in places:
            place.mkdir()
        return [found for place in places if (found := kill_at_random(place, chance))]


INPUTS: dict[str, Callable[[int], list[str]]] = {
    "apply": apply,
    "fuzz": fuzz,
    "reports": reports,
    "requests": requests,
    "store": store,
    "writer": writer,
}


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="of each input (default: %(default)s)")
    parser.add_argument("--only", choices=INPUTS, action="append", help="only this input (may be repeated)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**9), help="of the first round")
    arguments = parser.parse_args()
    count = 0
    for seed in range(arguments.seed, arguments.seed + arguments.rounds):
        for name in arguments.only or INPUTS:
            wrong = INPUTS[name](seed)
            count += len(wrong)
            print(f"{name}, seed {seed}: {len(wrong)} wrong", *(f"  {text[:600]}" for text in wrong[:10]), sep="\n")
    print(f"wrong: {count}", flush=True)
    return 1 if count else 0


if __name__ == "__main__":
    raise SystemExit(main())
