# SPDX-License-Identifier: Apache-2.0
"""Histories and metrics of single jobs: what they cost a manager with 1,000 TrainJobs that report.

    python tests/bench/progress_history.py

Changes of TrainJobs are decoded as a watch decodes them, for five hours of a clock that jumps; each mode runs in a
process of its own. The first does nothing with them, the second keeps histories, whose ConfigMaps go to a client that
counts. Its CPU is printed as a ratio to the decoding of the same changes, which the manager does anyway. Memory that
is free is given back before each measure: a megabyte more or less of it after the imports hid what was to be measured.
Each mode has the records of the jobs, which the manager makes whether it keeps histories or not. Then the
registry is scraped without and with metrics of single jobs. Budgets are in brackets: P-102 and P-111 of the page on
progress, and 2 % of a processor in all.
"""

import argparse
import asyncio
import ctypes
import gc
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self, cast

import msgspec
from prometheus_client import CollectorRegistry, generate_latest

sys.path.insert(0, str(Path(__file__).parents[2]))

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import Key, uid_of
from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Builder, Cache, Controller, Event, EventType, Manager, NotFound
from trainwright.controller.runtime.testing.clock import jumping, settle
from trainwright.controller.trainer.job.records import JobRecords
from trainwright.controller.trainer.progress.curve import KEY, TEXT_BYTES
from trainwright.controller.trainer.progress.history import HistoryKeeper
from trainwright.controller.trainer.progress.metrics import JobProgress, StalledJobs
from trainwright.controller.trainer.progress.writer import Budget, Pace

START = datetime(2026, 5, 6, tzinfo=UTC)
WRITES = 20
"""Writes of progress a second, so that each job shows a change every jobs / 20 seconds."""
CHANGES = 360
"""Of each job; more than the places of a ring."""
SCRAPES, SCRAPE_SECONDS = 20, 15
MODES = ("decoded only", "with histories")


class ConfigMaps:
    """What the keeper uses of a client; keeps no text, so that memory is the manager's."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.writes = 0

    def with_defaults(self, **_: Any) -> Self:
        return self

    async def get(self, _: object, name: str, __: str) -> ConfigMap:
        raise NotFound(name, code=404, reason="NotFound")

    async def create(self, document: dict[str, Any], **_: Any) -> ConfigMap:
        return self._take(document["metadata"]["name"], document["data"])

    async def patch(self, _: object, name: str, __: str, patch: Mapping[str, Any], **___: Any) -> ConfigMap:
        return self._take(name, patch["data"])

    def _take(self, name: str, data: Mapping[str, str]) -> ConfigMap:
        self.writes += 1
        self.sizes[name] = len(data[KEY].encode())
        return msgspec.convert({"metadata": {"name": name, "resourceVersion": str(self.writes)}}, ConfigMap)


class Leader:
    """What the keeper uses of a manager and its cache."""

    def __init__(self, maps: ConfigMaps, held: dict[str, TrainJob]) -> None:
        self.client, self.cache, self.held = maps, self, held
        self.controllers: list[Controller] = []

    def controller(self, name: str) -> Builder:
        return Builder(cast("Cache", self), name, register=self.controllers.append)

    def add(self, runnable: object, *_: object) -> None:
        """The benchmark runs it."""

    async def wait_synced(self, _: object) -> None:
        """There is no list."""

    def list(self, _: type[TrainJob]) -> list[TrainJob]:
        return [*self.held.values()]


def change(number: int, step: int, at: datetime) -> bytes:
    """A TrainJob as a watch shows it."""
    values = {"loss": f"{1 / (1 + step + number):.6g}", "current_step": str(step), "grad_norm": f"{step % 7 / 3:.6g}"}
    status = {
        "jobsStatus": [{"name": "node", "active": 1, "ready": 1, "succeeded": 0, "failed": 0, "suspended": 0}],
        "trainerStatus": {
            "progressPercentage": step * 99 // CHANGES,
            "estimatedRemainingSeconds": 60,
            "lastUpdatedTime": format_time(at),
            "metrics": [{"name": name, "value": value} for name, value in values.items()],
        },
    }
    metadata = {"name": f"job-{number:05}", "namespace": "n", "uid": f"uid-{number}", "resourceVersion": str(step)}
    spec = {"runtimeRef": {"name": "torch"}}
    return json.dumps({"kind": "TrainJob", "metadata": metadata, "spec": spec, "status": status}).encode()


def resident() -> float:
    """MiB that are in use."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


@jumping
async def run(found: dict[str, float], jobs: int, *, keep: bool) -> None:
    """All changes of all jobs; finds CPU seconds beside those of making the changes."""
    decoder, maps, held = msgspec.json.Decoder(TrainJob), ConfigMaps(), dict[str, TrainJob]()
    loop = asyncio.get_running_loop()
    began = loop.time()

    def clock() -> datetime:
        return START + timedelta(seconds=loop.time() - began)

    records, leader = JobRecords(), Leader(maps, held)
    keeper = HistoryKeeper(
        cast("Manager", leader),
        Budget(Pace(), loop.time),
        CollectorRegistry(),
        records,
        attempt_of=lambda _: 1,
        now=clock,
    )
    (controller,) = leader.controllers
    running = asyncio.gather(controller.run(), keeper.run())
    await settle()
    making, before = 0.0, resident()
    cpu = time.process_time()
    for step in range(CHANGES):
        for number in range(jobs):
            mark = time.process_time()
            raw = change(number, step, clock())
            making += time.process_time() - mark
            job = decoder.decode(raw)
            old = held.get(job.name)
            held[job.name] = job
            key = Key("n", job.name)
            records.of(key, uid_of(job)).part(object)
            if keep:
                kind = EventType.ADDED if old is None else EventType.MODIFIED
                records.handle(Event(kind, key, old, job))
        await asyncio.sleep(jobs / WRITES)
    cpu = time.process_time() - cpu - making
    memory = resident() - before
    seconds = loop.time() - began
    controller.request_stop()
    keeper.request_stop()
    await running
    sizes = max(maps.sizes.values(), default=0)
    found.update(cpu=cpu, mib=memory, seconds=seconds, writes=maps.writes, largest=sizes)


def scrape(jobs: int, *, single: bool) -> float:
    """Milliseconds of CPU of a scrape."""
    decoder, registry = msgspec.json.Decoder(TrainJob), CollectorRegistry()
    held = [decoder.decode(change(number, number % CHANGES, START)) for number in range(jobs)]
    for made in (StalledJobs, JobProgress) if single else (StalledJobs,):
        made(registry, lambda: held)
    generate_latest(registry)
    cpu = time.process_time()
    for _ in range(SCRAPES):
        generate_latest(registry)
    return 1000 * (time.process_time() - cpu) / SCRAPES


def in_a_process(jobs: int, mode: str) -> dict[str, float]:
    command = [sys.executable, __file__, f"--jobs={jobs}", f"--mode={mode}"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return cast("dict[str, float]", found)


def show(jobs: int) -> None:
    without, kept = (in_a_process(jobs, mode) for mode in MODES)
    more = kept["cpu"] - without["cpu"]
    mib = kept["mib"] - without["mib"]
    share = 100 * more / kept["seconds"]
    print(f"{jobs} TrainJobs, a change of each every {jobs / WRITES:g} s, {kept['seconds'] / 3600:.1f} h")
    print(f"  CPU of histories / of decoding      {more / without['cpu']:8.2f}")
    print(f"  CPU of histories                    {share:8.2f} % of a processor")
    print(f"  memory of histories                 {1024 * mib / jobs:8.1f} KiB a job  (10)")
    rate = kept["writes"] / kept["seconds"]
    print(f"  writes of histories                 {rate:8.2f} /s  ({jobs / 300:.1f}: one in 5 min)")
    print(f"  largest history                     {kept['largest'] / 1024:8.1f} KiB  ({TEXT_BYTES / 1024:.0f})")
    plain, single = scrape(jobs, single=False), scrape(jobs, single=True)
    print(f"  a scrape with / without single jobs {single / plain:8.2f}")
    print(f"  a scrape with single jobs           {single:8.2f} ms")
    total = share + 100 * (single - plain) / 1000 / SCRAPE_SECONDS
    print(f"  both, a scrape every {SCRAPE_SECONDS} s           {total:8.2f} % of a processor  (2)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000, help="how many TrainJobs (default: %(default)s)")
    parser.add_argument("--mode", choices=MODES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.mode:
        found: dict[str, float] = {}
        run(found, arguments.jobs, keep=arguments.mode == MODES[1])
        print(json.dumps(found))
    else:
        show(arguments.jobs)


if __name__ == "__main__":
    main()
