# SPDX-License-Identifier: Apache-2.0
"""How long admission takes while the same process reconciles a burst of the objects that it admits.

A manager in a process of its own validates and defaults ConfigMaps and makes a Service for each. The burst is created
here, first in a namespace without webhooks, then in one with. Printed are the latencies of the creates, and what the
API server itself measured of the webhook calls: their mean, and which part took longer than 25, 100 and 500 ms. Beside
it stands what the manager measured itself: the mean in its handlers, and how late its event loop was at worst. Where
these are small and the API server's figures are not, the processors were busy with something else.
"""

import argparse
import asyncio
import os
import re
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from trainwright.api.kubernetes.core.v1 import ConfigMap, Service
from trainwright.controller.runtime import (
    Client,
    Done,
    Group,
    HTTPTransport,
    Key,
    Manager,
    ProcessSettings,
    Result,
    ServerSettings,
    load_config,
    run,
)
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.waiting import contains, eventually
from trainwright.controller.runtime.webhook.admission import (
    AdmissionRequest,
    AdmissionResponse,
    mutate_path,
    validate_path,
)
from trainwright.controller.runtime.webhook.webhooks import ByURL, Webhooks

AT_ONCE = 16
LABEL = "bench=admission"


def configuration(kind: str, namespace: str, path: str) -> dict[str, Any]:
    """One webhook for the ConfigMaps of a namespace."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    webhook = {
        "name": f"{kind[:5].lower()}.bench.example.com",
        "clientConfig": {"service": {"name": "s", "namespace": "n", "path": path}},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": f"bench-{kind[:5].lower()}"},
        "webhooks": [webhook],
    }


def validate(request: AdmissionRequest[ConfigMap]) -> AdmissionResponse | None:
    """Looks at everything and refuses nothing."""
    assert request.new is not None
    return AdmissionResponse(warnings=tuple(key for key in request.new.data or {} if key == "never"))


def default(request: AdmissionRequest[ConfigMap]) -> None:
    """Fills in one field."""
    assert request.new is not None
    request.new.data = {"added": "yes", **(request.new.data or {})}


def make(kubeconfig: Path, namespace: str, port: int, metrics: int) -> Manager:
    """The manager under load."""
    manager = Manager(
        load_config(kubeconfig),
        field_manager="bench",
        servers=ServerSettings(metrics=f"127.0.0.1:{metrics}", probes=None),
        process=ProcessSettings(tune_collector=True),
    )
    hooks = Webhooks(
        manager.client,
        manager.metrics.registry,
        f"127.0.0.1:{port}",
        configurations=[
            configuration("ValidatingWebhookConfiguration", namespace, validate_path(ConfigMap)),
            configuration("MutatingWebhookConfiguration", namespace, mutate_path(ConfigMap)),
        ],
        certificates=ByURL(url=f"https://127.0.0.1:{port}"),
    )
    hooks.server.validate(ConfigMap, validate)
    hooks.server.mutate(ConfigMap, default)
    manager.add(hooks, Group.WEBHOOKS, "webhooks")

    async def reconcile(key: Key) -> Result:
        parent = manager.cache.get(ConfigMap, key.name, key.namespace)
        if parent is not None:
            document = {
                "metadata": {"name": key.name, "namespace": key.namespace},
                "spec": {"clusterIP": "None", "selector": {"app": key.name}},
            }
            await manager.applier.apply([msgspec.convert(document, Service).typed()], owner=parent)
        return Done()

    manager.controller("bench").for_(ConfigMap, label_selector=LABEL).owns(Service).reconcile(reconcile, workers=16)
    return manager


async def burst(client: Client, namespace: str, count: int) -> list[float]:
    """Create so many; gives the seconds that each took."""
    seconds: list[float] = []
    names = iter(range(count))

    async def worker() -> None:
        for number in names:
            document = {
                "metadata": {"name": f"m{number}", "namespace": namespace, "labels": {"bench": "admission"}},
                "data": {"a": "b"},
            }
            begin = time.perf_counter()
            await client.create(document, kind=ConfigMap.RESOURCE)
            seconds.append(time.perf_counter() - begin)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(worker())
    return sorted(seconds)


async def reconciled(client: Client, namespace: str, count: int) -> None:
    """Wait until each has its Service."""
    while len((await client.list(Service, namespace)).items) < count:  # noqa: ASYNC110 - the world has no event
        await asyncio.sleep(0.2)


Durations: TypeAlias = dict[str, dict[str, float]]
"""Of the calls to each webhook, as the API server measured them: counts by bucket, sum in seconds, count."""


async def measured(client: Client) -> Durations:
    """Of the webhooks of this benchmark."""
    text = (await client.send(Request("GET", "/metrics"))).body.decode()
    return durations(text, ".bench.example.com")


def durations(text: str, suffix: str) -> Durations:
    """From the API server's metrics, of the webhooks whose names end so."""
    found: Durations = {}
    pattern = r"apiserver_admission_webhook_admission_duration_seconds_(bucket|sum|count)\{(.*)\} (\S+)"
    for what, labels, value in re.findall(pattern, text):
        name = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if name["name"].endswith(suffix):
            key = f"le {name['le']}" if what == "bucket" else what
            entry = found.setdefault(name["name"], {})
            entry[key] = entry.get(key, 0.0) + float(value)
    return found


def own_measure(port: int) -> str:
    """What the manager measured of itself since it started."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()

    def total(name: str) -> float:
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))

    latency = "controller_runtime_webhook_latency_seconds"
    mean = 1000 * total(f"{latency}_sum") / total(f"{latency}_count")
    lag = 1000 * total("event_loop_lag_seconds")
    return f"{'in the manager':24} mean {mean:.1f} ms  event loop late by {lag:.0f} ms at worst"


def line(what: str, seconds: list[float]) -> str:
    """Percentiles of one burst."""
    at = {q: seconds[min(len(seconds) - 1, int(len(seconds) * q / 100))] * 1000 for q in (50, 90, 99)}
    return f"{what:24} p50 {at[50]:6.1f} ms  p90 {at[90]:6.1f} ms  p99 {at[99]:6.1f} ms"


def print_growth(before: Durations, after: Durations) -> None:
    """A line for each webhook. The budget, p99 of 100 ms, holds where at most 1 % of the calls took longer."""
    for name, entry in sorted(after.items()):
        grown = {key: value - before.get(name, {}).get(key, 0.0) for key, value in entry.items()}
        calls = grown["count"]
        over = "  ".join(
            f"over {1000 * float(le):.0f} ms: {100 * (1 - grown[f'le {le}'] / calls):.1f} %"
            for le in ("0.025", "0.1", "0.5")
        )
        print(f"{name:24} calls {calls:.0f}  mean {1000 * grown['sum'] / calls:.1f} ms  {over}")


async def bench(count: int) -> None:
    """Both bursts."""
    with ControlPlane() as plane:
        client = Client(HTTPTransport(load_config(plane.kubeconfig)), user_agent="bench")
        bare, hooked = plane.create_namespace("bare"), plane.create_namespace("hooked")
        port, metrics = free_port(), free_port()
        command = [sys.executable, __file__, "--manager", str(plane.kubeconfig), hooked, str(port), str(metrics)]
        plane.launch("manager", command)
        probe = {"metadata": {"name": "p", "namespace": hooked}}
        await eventually(lambda: client.create(probe, kind=ConfigMap.RESOURCE, dry_run=True), contains("data"))
        without = await burst(client, bare, count)
        await reconciled(client, bare, count)
        before = await measured(client)
        with_hooks = await burst(client, hooked, count)
        await reconciled(client, hooked, count)
        after = await measured(client)
        of_itself = await asyncio.to_thread(own_measure, metrics)
        await client.close()
    print(line("create without webhooks", without))
    print(line("create with two webhooks", with_hooks))
    print(f"ratio of the medians     {with_hooks[count // 2] / without[count // 2]:.2f}")
    print_growth(before, after)
    print(of_itself)
    print(f"{'load of the machine':24} {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="objects of a burst (default: 1000)")
    parser.add_argument("--manager", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.manager:
        kubeconfig, namespace, port, metrics = arguments.manager
        return run(lambda: make(Path(kubeconfig), namespace, int(port), int(metrics)))
    asyncio.run(bench(arguments.count))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
