# SPDX-License-Identifier: Apache-2.0
"""What 1,000 jobs that report cost the dashboard, and what their history costs the manager: memory and CPU.

The API server is the local one, in a process of its own. Reports are written at the rate that one manager writes them
at most. `trainwright dashboard` runs without a page, with the page of the list, and with that of a job as well; its CPU
is compared with that of a bare client that watches the same TrainJobs and decodes them. The manager runs with and
without the history. Budgets are in brackets.
"""

import argparse
import asyncio
import gc
import http.client
import json
import os
import re
import resource
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import aiohttp
import msgspec

from tests.bench import explain_gate
from tests.bench.burst import cpu_seconds, resident_mib
from trainwright.api.config.v1alpha1 import Configuration, Progress
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap, Namespace
from trainwright.api.times import format_micro_time, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.dashboard.details import row_of
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.assembly.manager import make_manager
from trainwright.controller.trainer.assembly.settings import settings_of
from trainwright.controller.trainer.progress import history as keeping
from trainwright.controller.trainer.progress.curve import POINTS, Sample
from trainwright.controller.views.job import History, observe

REPORTS_A_SECOND = 20
SETTLE_SECONDS = 10.0
SPACE = "default"
DASHBOARD = (sys.executable, "-m", "trainwright.controller.cli.main", "dashboard", "--no-browser")


def report(number: int) -> dict[str, Any]:
    """The status that a training with three metrics has after so many reports."""
    metrics = {"loss": 1 / (number + 1), "accuracy": number / 1000, "current_step": number, "total_steps": 1000}
    told = [{"name": name, "value": format(value, ".6g")} for name, value in metrics.items()]
    now = format_micro_time(wall_clock())
    counts = {"name": "node", "active": 1, "ready": 1, "succeeded": 0, "failed": 0, "suspended": 0}
    status = {"progressPercentage": min(100, number // 10), "metrics": told, "lastUpdatedTime": now}
    return {"status": {"jobsStatus": [counts], "trainerStatus": status}}


# ---------------------------------------------------------------------- one process, no server


def histories(jobs: int) -> None:
    """Memory of full histories, and the time that the list of all jobs takes."""
    begin = wall_clock() - timedelta(seconds=50 * POINTS)
    document = {"metadata": {"name": "a", "namespace": "b", "uid": "u"}, "spec": {"runtimeRef": {"name": "r"}}}
    job = TrainJob()
    gc.collect()
    tracemalloc.start()
    kept = []
    for _ in range(jobs):
        kept.append(history := History())
        for number in range(POINTS):
            values = {"loss": 1 / (number + 1), "accuracy": float(number), "current_step": float(number)}
            at = begin.timestamp() + 50 * number
            history.add(Sample(at=at, percentage=number % 100, values=values, attempt=1))
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"{jobs} full histories of {POINTS} points: {size / 2**20:.1f} MiB, {size / jobs / 1024:.1f} KiB each (10)")
    job = msgspec.convert({**document, **report(500)}, TrainJob)
    now = wall_clock()
    for what in ("first", "again"):
        before = time.process_time()
        for history in kept:
            if what == "first":
                observe(job, history)
            row_of(job, history, now)
        print(f"  their rows, {what}: {1000 * (time.process_time() - before):.0f} ms of CPU")


# ---------------------------------------------------------------------- processes beside the API server


async def load(kubeconfig: Path, jobs: int, seconds: float) -> None:
    """Write reports, each job in turn, at an even rate."""
    client = Client(HTTPTransport(load_config(kubeconfig)))
    clock, begin = time.monotonic, time.monotonic()
    for number in range(int(seconds * REPORTS_A_SECOND)):
        await asyncio.sleep(max(0.0, begin + number / REPORTS_A_SECOND - clock()))
        name = f"job-{number % jobs}"
        await client.patch(TrainJob.RESOURCE, name, SPACE, report(number // jobs + number % 900), subresource="status")
    await client.close()


async def bare(kubeconfig: Path) -> None:
    """List and watch TrainJobs with an HTTP client and `json`, and nothing else, until this process is ended."""
    config = load_config(kubeconfig)
    context = ssl.create_default_context(cadata=(config.ca_data or b"").decode() or None)
    path = "/apis/trainer.kubeflow.org/v1alpha1/trainjobs"
    headers = {"Authorization": f"Bearer {config.token}"}
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(
        config.server, headers=headers, connector=connector, read_bufsize=2**20
    ) as session:
        async with session.get(path) as answer:
            version = (await answer.json())["metadata"]["resourceVersion"]
        query = f"?watch=true&resourceVersion={version}&timeoutSeconds=3600"
        async with session.get(path + query, timeout=aiohttp.ClientTimeout()) as answer:
            print("watches", flush=True)
            async for line in answer.content:
                json.loads(line)


async def manager(kubeconfig: Path, jobs: int, seconds: float, *, history: bool) -> None:
    """Run a manager in this process while reports are written; prints its CPU, its memory and the histories written.

    Each history is written once in these seconds, instead of every five minutes.
    """
    interval, keeping.INTERVAL_SECONDS = keeping.INTERVAL_SECONDS, seconds
    configuration = Configuration(
        feature_gates={"ProgressPull": True},  # pulls from no pod: there are none
        progress=Progress(history=history),
    )
    made = await make_manager(load_config(kubeconfig), settings_of(configuration), user_agent="bench")
    client = Client(HTTPTransport(load_config(kubeconfig)))
    async with TaskScope("bench") as tasks:
        running = tasks.start("manager", made.run())
        await made.wait_ready()
        await eventually(lambda: client.list(JobSet, SPACE), lambda found: len(found.items) == jobs, seconds=900)
        await asyncio.sleep(SETTLE_SECONDS)
        writer = await asyncio.create_subprocess_exec(*own("--load", kubeconfig, jobs, seconds))
        before = resource.getrusage(resource.RUSAGE_SELF)
        await writer.wait()
        after = resource.getrusage(resource.RUSAGE_SELF)
        stored = sum(
            (config_map.metadata.name or "").endswith("-progress")
            for config_map in (await client.list(ConfigMap, SPACE)).items
            if config_map.metadata is not None
        )
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(used, resident_mib(os.getpid()), stored, interval)
        made.stop()
        await asyncio.wait({running})
    await client.close()


def own(task: str, kubeconfig: Path, jobs: int, seconds: float, *more: str) -> list[str]:
    """This script, for a task in a process of its own."""
    return [sys.executable, __file__, task, str(kubeconfig), f"--jobs={jobs}", f"--seconds={seconds}", *more]


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ})
    try:
        yield started
    finally:
        started.terminate()
        started.wait()


class Page:
    """An open page: reads a stream in a thread."""

    def __init__(self, port: int, cookie: str, path: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._connection.request("GET", *entered(cookie, path))
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.status
        self.bytes = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while line := self._answer.readline():
            self.bytes += len(line)


@contextmanager
def dashboard(kubeconfig: Path) -> Iterator[tuple[int, int, str, float]]:
    """Its process, its port, the cookie of a browser, and the seconds until the page could be opened."""
    begin = time.monotonic()
    with process(*DASHBOARD, f"--kubeconfig={kubeconfig}", "--all-namespaces") as started:
        assert started.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)(/\?token=\S+)", started.stdout.readline())
        assert found is not None
        seconds = time.monotonic() - begin
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]))
        connection.request("GET", found[2])
        cookie = connection.getresponse().headers["Set-Cookie"]
        yield started.pid, int(found[1]), cookie, seconds


def entered(cookie: str, path: str) -> tuple[str, None, dict[str, str]]:
    """Path, body and headers of a request with a cookie, which is for the paths below its own."""
    value, *attributes = cookie.split("; ")
    place = next(one.removeprefix("Path=") for one in attributes if one.startswith("Path="))
    return place + path, None, {"Cookie": value}


def listed(port: int, cookie: str) -> tuple[int, int]:
    """How many jobs the list has, and its bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", *entered(cookie, "/api/v1/jobs"))
    body = connection.getresponse().read()
    return len(json.loads(body)["jobs"]), len(body)


def during(pid: int, kubeconfig: Path, jobs: int, seconds: float) -> float:
    """CPU seconds of a process while reports are written."""
    before = cpu_seconds(pid)
    subprocess.run(own("--load", kubeconfig, jobs, seconds), check=True)
    return cpu_seconds(pid) - before


def measure_dashboard(kubeconfig: Path, jobs: int, seconds: float) -> None:
    with process(*own("--bare", kubeconfig, jobs, seconds)) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "watches\n"
        least = during(client.pid, kubeconfig, jobs, seconds)
    print(f"{REPORTS_A_SECOND} reports a second of {jobs} jobs for {seconds:g} s")
    print(f"  a bare client that watches them        {100 * least / seconds:6.2f} % of a processor")
    with dashboard(kubeconfig) as (pid, port, cookie, took):
        begin = time.monotonic()
        while listed(port, cookie)[0] < jobs and time.monotonic() - begin < 120:
            time.sleep(0.05)
        count, size = listed(port, cookie)
        print(f"  dashboard: page after {took:.2f} s, {count} jobs after {time.monotonic() - begin:.2f} s more, "
              f"{size / 1024:.0f} KiB")  # fmt: skip
        time.sleep(SETTLE_SECONDS)
        pages: list[Page] = []
        for what, path in (
            ("no page", ""),
            ("the list is open", "/api/v1/jobs/stream"),
            ("and one job", f"/api/v1/jobs/{SPACE}/job-0/stream"),
        ):
            if path:
                pages.append(Page(port, cookie, path))
                time.sleep(2)
            used = during(pid, kubeconfig, jobs, seconds)
            print(f"  dashboard, {what:<24}     {100 * used / seconds:6.2f} % of a processor (2), "
                  f"{used / max(least, 0.01):4.1f} times the bare client")  # fmt: skip
        sent = sum(page.bytes for page in pages)
        print(f"  dashboard, memory                      {resident_mib(pid):6.0f} MiB; sent {sent / 2**20:.1f} MiB")


def measure_manager(kubeconfig: Path, jobs: int, seconds: float) -> None:
    found = {}
    for history in (False, True):
        command = own("--manager", kubeconfig, jobs, seconds, *(["--history"] if history else []))
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found[history] = [float(word) for word in done.stdout.split()[-4:]]
        cpu, memory, stored, _ = found[history]
        print(f"  manager {'with' if history else 'without'} history: {100 * cpu / seconds:.2f} % of a processor, "
              f"{memory:.0f} MiB, {stored:.0f} histories stored")  # fmt: skip
    (cpu, memory, *_), (cpu_with, memory_with, stored, interval) = found[False], found[True]
    each = (cpu_with - cpu) / max(1.0, stored)
    print(f"  the history: {1000 * each:.1f} ms of CPU for each write; each job every {interval:.0f} s: "
          f"{100 * each * jobs / interval:.2f} % of a processor (2); {memory_with - memory:.0f} MiB (10)")  # fmt: skip


async def prepare(kubeconfig: Path, jobs: int) -> None:
    client = Client(HTTPTransport(load_config(kubeconfig)))
    # The manager keeps its certificate there.
    await client.create({"metadata": {"name": "kubeflow-system"}}, kind=Namespace.RESOURCE)
    await explain_gate.create(client, jobs)
    await client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000, help="how many TrainJobs (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load (default: %(default)s)")
    for internal in ("--load", "--bare", "--manager"):
        parser.add_argument(internal, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--history", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    jobs, seconds = arguments.jobs, arguments.seconds
    if arguments.load:
        asyncio.run(load(arguments.load, jobs, seconds))
    elif arguments.bare:
        asyncio.run(bare(arguments.bare))
    elif arguments.manager:
        asyncio.run(manager(arguments.manager, jobs, seconds, history=arguments.history))
    else:
        histories(jobs)
        with (
            tempfile.TemporaryDirectory() as folder,
            process(sys.executable, explain_gate.__file__, "--serve", folder) as server,
        ):
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            kubeconfig = Path(folder) / "kubeconfig"
            asyncio.run(prepare(kubeconfig, jobs))
            measure_dashboard(kubeconfig, jobs, seconds)
            measure_manager(kubeconfig, jobs, seconds)


if __name__ == "__main__":
    main()
