# SPDX-License-Identifier: Apache-2.0
"""What recovery costs, and how soon all ranks run again.

The CPU of one verdict, the memory of a healthy job, and on a local cluster with real processes: writes of the record
for a healthy job and for an attempt that failed, and the time from the end of a rank until all ranks run.
"""

import argparse
import asyncio
import gc
import json
import os
import signal
import statistics
import sys
import tempfile
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.machine import budget
from tests.builders import START, ended, jobset, pod, train_job
from tests.integration.local.node.recovering import begin, end_of, pid
from trainwright.api.trainer.v1alpha1.recovery import Declaration
from trainwright.controller.cli.local.training import training_cluster
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.runtime import Client
from trainwright.controller.trainer.failures.first import failures_by_attempt
from trainwright.controller.trainer.failures.record import Entry
from trainwright.controller.trainer.recovery.attempts import Glance, KnownAttempts, observe
from trainwright.controller.trainer.recovery.progression import advance
from trainwright.plugins.testing import replicated_job

WANTED = Declaration(mode="gang", retries=2)
RANKS, VERDICTS, JOBS, KILLS = 2, 2000, 1000, 5
TURNS = 5
"""Of each verdict: the best one counts, since other work of the machine can only add."""
GRACE_SECONDS = 1.0
"""Of the pods of these jobs."""


def verdicts() -> list[float]:
    """Milliseconds of CPU of verdicts, each on an attempt of a job with as many ranks."""
    job, found = train_job(uid="job"), []
    running = [pod(rank, job="j") for rank in range(8)]
    failed = [*running[:7], pod(7, ended(1), job="j")]
    begun = Glance(job=job, jobset=jobset(replicated_job(completions=8)), pods=running, now=START)
    over = jobset(replicated_job(completions=8), status={"restarts": 1, "restartsCountTowardsMax": 1})
    for number in range(VERDICTS):
        known = KnownAttempts()
        observe(known, begun)
        known.summary = advance(known, begun, {}, WANTED).summary
        entries = {0: Entry.of(failures_by_attempt(failed)[0][0], f"ValueError: {number}")}
        observe(known, replace(begun, pods=failed))
        found.append(min(_verdict(known, replace(begun, jobset=over, pods=[]), entries) for _ in range(TURNS)))
    return sorted(found)


def _verdict(known: KnownAttempts, glance: Glance, entries: dict[int, Entry]) -> float:
    """Of what is known before it: `advance` changes nothing, its caller keeps what it gives."""
    begun = time.process_time()
    observe(known, glance)
    advance(known, glance, entries, WANTED)
    return 1e3 * (time.process_time() - begun)


def bytes_of_a_healthy_job() -> float:
    """Memory of what is known of a job that runs its first attempt."""
    known = []
    pods = [pod(rank) for rank in range(RANKS)]
    glance = Glance(job=train_job(uid="job"), jobset=jobset(replicated_job(completions=RANKS)), pods=pods, now=START)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(JOBS):
            one = KnownAttempts()
            observe(one, glance)
            known.append(one)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / len(known)


def writes(requests: Path, since: int) -> int:
    """How often the record of a job was written, after so many lines of the log of requests."""
    lines = requests.read_text().splitlines()[since:]
    found = [json.loads(line) for line in lines]
    return sum(
        one.get("verb") in ("create", "update", "patch")
        and (one.get("objectRef") or {}).get("resource") == "configmaps"
        and str((one.get("objectRef") or {}).get("name", "")).endswith("-failures")
        for one in found
    )


async def on_a_cluster(folder: Path) -> None:
    """Real processes on a local cluster."""
    requests = folder / "requests.log"
    settings = NodeSettings(name="laptop", folder=folder / "state", isolation=Isolation.REWRITE)
    (folder / "calm").mkdir()
    (folder / "killed").mkdir()
    async with training_cluster(settings, request_log=requests) as cluster:
        client = Client(cluster.api.transport())
        await begin(client, folder / "calm", "calm", steps=20)
        await end_of(client, "calm")
        print(f"writes of the record of a healthy job: {writes(requests, 0)} (budget 0)")
        await begin(client, folder / "killed", "killed", steps=4000, pause=0.05, retries="100")
        seconds, before = [], len(requests.read_text().splitlines())
        for attempt in range(1, KILLS + 1):
            processes = [await pid(folder / "killed", attempt, rank) for rank in range(RANKS)]
            # Progress, so that the next attempt is not held back.
            await asyncio.sleep(3)
            os.kill(processes[attempt % RANKS], signal.SIGKILL)
            begun = time.monotonic()
            for rank in range(RANKS):
                await pid(folder / "killed", attempt + 1, rank)
            seconds.append(time.monotonic() - begun)
        each = writes(requests, before) / KILLS
        print(f"writes of the record for an attempt that failed: {each:.1f} (budget 3)")
        middle = statistics.median(seconds)
        print(
            f"from the end of a rank to all ranks running: {middle:.2f} s at the median, {max(seconds):.2f} s at most, "
            f"with a grace of {GRACE_SECONDS:g} s ({budget(3)})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    found = verdicts()
    print(f"a verdict: {found[len(found) // 2]:.3f} ms, p99 {found[len(found) * 99 // 100]:.3f} ms ({budget(0.1)})")
    print(f"memory of a healthy job: {bytes_of_a_healthy_job() / 1024:.2f} KiB (budget 1)")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(on_a_cluster(Path(folder)))


if __name__ == "__main__":
    main()
