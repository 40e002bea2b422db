# SPDX-License-Identifier: Apache-2.0
"""The explanation of one job from objects that are at hand, by number of pods.

Budget: 50 ms for one job. The ratio is to encoding the same objects as JSON once, so that it can be compared across
machines.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.unit.trainer.explain.world import NOW, PLUGINS, World, condition
from trainwright.controller.trainer.why import GivenObjects, explain

SHORT = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available."


def running(pods: int) -> World:
    return World(pods=pods)


def waiting(pods: int) -> World:
    world = World(pods=pods)
    world.unschedulable(SHORT)
    return world


def failed(pods: int) -> World:
    world = World(pods=pods)
    world.terminated(pods - 1, 1, ago=100)
    for index in range(pods - 1):
        world.terminated(index, 143, ago=98)
    return world


def queued(pods: int) -> World:
    del pods
    world = World(jobset=False)
    message = "insufficient unused quota for nvidia.com/gpu in flavor a100, 8 more needed"
    world.workload(condition("QuotaReserved", "Pending", message, "False"))
    return world


def milliseconds(call: Callable[[], object], rounds: int) -> float:
    """Median of the rounds, of one call each."""
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    print(f"{'explain, per TrainJob':28} {'pods':>5} {'ms':>8} {'x encoding':>11}")
    for make in (queued, running, waiting, failed):
        for pods in (4, 64, 512):
            world = make(pods)
            source = GivenObjects(world.objects, unserved=world.unserved)
            took = milliseconds(lambda s=source, w=world: explain(s.picture(w.job, NOW), PLUGINS), rounds)  # type: ignore[misc]
            bare = milliseconds(lambda w=world: msgspec.json.encode(w.objects), rounds)  # type: ignore[misc]
            print(f"{make.__name__:28} {pods:5} {took:8.3f} {took / bare:11.1f}")


if __name__ == "__main__":
    main()
