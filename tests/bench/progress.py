# SPDX-License-Identifier: Apache-2.0
"""Reports of progress: what they cost the manager and the API server, and how long their answers take.

One manager with the feature gate TrainJobStatus, TrainJobs with a JobSet each that no controller runs, and tokens of
the API server. First the CPU of one report, on kept connections and on new ones. Then all TrainJobs report every few
seconds; printed are reports, the manager's CPU and memory, API writes a second and the times of the answers. Last the
same while as many more TrainJobs are created. Budgets are in brackets.
"""

import argparse
import asyncio
import random
import ssl
import statistics
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.burst import RUNTIME, TRAINER, BareClient, cpu_seconds, managed, probe, resident_mib, spread
from tests.bench.machine import budget
from tests.managers import start_manager
from tests.reports import audience, path_of, progress
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.ports import free_port

ROOT = Path(__file__).parents[2]
SETTLE_SECONDS = 5.0
KEPT_CONNECTIONS = 200
AT_ONCE = 16
SAMPLES = 2000
"""Reports whose CPU is measured."""


@dataclass
class Answers:
    """What was answered, and when."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0

    def percentile(self, share: float) -> float:
        """Milliseconds."""
        return 1000 * sorted(self.seconds)[int(share * (len(self.seconds) - 1))] if self.seconds else 0.0


class Trainings:
    """All training processes."""

    def __init__(self, port: int, namespace: str, tokens: dict[str, str], *, keep: bool) -> None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        connector = aiohttp.TCPConnector(ssl=tls, limit=KEPT_CONNECTIONS, force_close=not keep)
        self._session = aiohttp.ClientSession(base_url=f"https://127.0.0.1:{port}", connector=connector)
        self._namespace = namespace
        self.tokens = tokens

    async def close(self) -> None:
        await self._session.close()

    async def report(self, name: str, step: int, answers: Answers) -> None:
        metrics = [{"name": key, "value": str(step)} for key in ("loss", "current_step", "total_steps", "epoch")]
        body = progress(step % 100, metrics=metrics, estimatedRemainingSeconds=60)
        headers = {"Authorization": f"Bearer {self.tokens[name]}"}
        begin = time.monotonic()
        async with self._session.post(path_of(self._namespace, name), json=body, headers=headers) as answer:
            await answer.read()
            answers.seconds.append(time.monotonic() - begin)
            answers.refused += answer.status != 200

    async def all_report(self, pause: float, seconds: float) -> Answers:
        """Each training reports every `pause` seconds, from a moment of its own."""
        answers, end = Answers(), time.monotonic() + seconds

        async def train(name: str) -> None:
            at = time.monotonic() + random.uniform(0, pause)
            for step in range(10**9):
                await asyncio.sleep(max(0.0, at - time.monotonic()))
                if time.monotonic() >= end:
                    return
                await self.report(name, step, answers)
                at += pause

        async with asyncio.TaskGroup() as group:
            for name in self.tokens:
                group.create_task(train(name))
        return answers


async def tokens_of(client: BareClient, namespace: str, names: list[str]) -> dict[str, str]:
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await client.call("POST", account, {"metadata": {"name": "reporter"}})
    found = {}

    async def ask(name: str) -> None:
        spec = {"audiences": [audience(namespace, name)], "expirationSeconds": 7200}
        answer = await client.call("POST", f"{account}/reporter/token", {"spec": spec})
        found[name] = answer["status"]["token"]

    await spread(names, ask)
    return found


async def cost(pid: int, trainings: Trainings, reports: int) -> tuple[float, Answers]:
    """Milliseconds of the manager's CPU for each report; a few at a time, each TrainJob in turn."""
    answers = Answers()
    names = list(trainings.tokens)
    queue = iter(range(reports))

    async def worker() -> None:
        for number in queue:
            await trainings.report(names[number % len(names)], 1, answers)

    before = cpu_seconds(pid)
    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(worker())
    return 1000 * (cpu_seconds(pid) - before) / reports, answers


def writes(control_plane: ControlPlane) -> int:
    """How often progress was written so far."""
    calls = control_plane.audit_log.calls(user_agent="trainwright")
    return sum(1 for call in calls if call.verb == "patch" and "fieldManager=trainer-status" in call.uri)


def lag(address: str) -> float:
    """Seconds that the manager's event loop was late; its part in the time of an answer."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("event_loop_lag_seconds "))


async def measure(control_plane: ControlPlane, jobs: int, pause: float, seconds: float) -> None:
    names = [f"job-{index:05}" for index in range(jobs)]
    more = [f"more-{index:05}" for index in range(jobs)]
    namespace, warm = control_plane.create_namespace("reports"), control_plane.create_namespace("warm")
    client, port = BareClient(control_plane), free_port()
    metrics = f"127.0.0.1:{free_port()}"
    gate: dict[str, Any] = {"featureGates": {"TrainJobStatus": True}, "statusServer": {"port": port}}
    gate["metrics"] = {"bindAddress": metrics, "secureServing": False}
    kept = fresh = None
    try:
        await client.call("POST", f"{TRAINER}/clustertrainingruntimes", RUNTIME)
        pid = start_manager(control_plane, webhooks=True, **gate).program_pid
        await probe(client, warm, "first")
        await managed(client, namespace, names)
        tokens = await tokens_of(client, namespace, names)
        kept = Trainings(port, namespace, tokens, keep=True)
        fresh = Trainings(port, namespace, tokens, keep=False)
        await asyncio.sleep(SETTLE_SECONDS)
        before = resident_mib(pid)
        idle = writes(control_plane)
        print(f"{jobs} TrainJobs; before the first report {before:.0f} MiB and {idle} writes of progress (0)")
        # The first report of each verifies its token.
        await cost(pid, kept, jobs)
        await asyncio.sleep(min(seconds, jobs / 20))
        per_kept, _ = await cost(pid, kept, SAMPLES)
        per_fresh, _ = await cost(pid, fresh, SAMPLES)
        print(f"  CPU of a report, kept connection      {per_kept:8.2f} ms  ({budget(0.6)})")
        print(f"  CPU of a report, new TLS connection   {per_fresh:8.2f} ms  ({budget(3)})")
        for what, limit, created in (("they report", 50, []), ("as many are created", 100, more)):
            cpu, count, begin = cpu_seconds(pid), writes(control_plane), time.monotonic()
            async with asyncio.TaskGroup() as group:
                load = group.create_task(kept.all_report(pause, seconds))
                burst = group.create_task(managed(client, namespace, created)) if created else None
            answers, took = load.result(), time.monotonic() - begin
            cpu, count = cpu_seconds(pid) - cpu, writes(control_plane) - count
            print(
                f"  {what}, every {pause:g} s for {seconds:g} s" + (f" (burst {burst.result():.1f} s)" if burst else "")
            )
            rate = len(answers.seconds) / took
            print(f"    reports                             {rate:8.1f} /s, {answers.refused} refused")
            print(f"    answers p50 / p99                   {answers.percentile(0.5):8.1f} / "
                  f"{answers.percentile(0.99):.1f} ms  (p99 {limit})")  # fmt: skip
            print(f"    mean                                {1000 * statistics.fmean(answers.seconds):8.1f} ms")
            print(f"    lag of the manager's event loop     {1000 * lag(metrics):8.1f} ms at most in the last minute")
            print(f"    API writes of progress              {count / took:8.1f} /s  (20)")
            print(f"    CPU of the manager                  {100 * cpu / took:8.1f} % of a processor")
            print(f"    memory of the manager               {resident_mib(pid):8.0f} MiB, {before:.0f} before")
    finally:
        for trainings in (kept, fresh):
            if trainings is not None:
                await trainings.close()
        await client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000, help="how many TrainJobs (default: %(default)s)")
    parser.add_argument("--pause", type=float, default=5.0, help="seconds between two reports (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load (default: %(default)s)")
    arguments = parser.parse_args()
    jobset_crd = provide(["jobset-manager"]).manifests["jobset-crd.yaml"]
    with ControlPlane(crds=[ROOT / "config" / "crd", jobset_crd], audit=True) as control_plane:
        asyncio.run(measure(control_plane, arguments.jobs, arguments.pause, arguments.seconds))


if __name__ == "__main__":
    main()
