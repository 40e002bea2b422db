# SPDX-License-Identifier: Apache-2.0
"""Figures of the controller runtime, each beside a bare HTTP loop or a plain structure in the same run.

    python tests/bench/runtime.py [queue] [watch] [reconcile] [--pods 10000] [--objects 1000]

`watch` and `reconcile` start a control plane of their own. Nothing here asserts; the budgets are in the design.
"""

import argparse
import asyncio
import gc
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from trainwright.api.kubernetes.core.v1 import ConfigMap, Pod
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.controller.runtime import (
    NO_SERVERS,
    Client,
    ClusterConfig,
    Done,
    HTTPTransport,
    Key,
    Manager,
    ProcessSettings,
    Result,
    load_config,
)
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.client.credentials import TLSFiles
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.collector import tune_collector
from trainwright.controller.runtime.controller.sources import labels_match
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.workqueue.queue import WorkQueue


def resident() -> float:
    """Resident memory of this process, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def show(what: str, figure: float, unit: str, note: str = "") -> None:
    """One line of the report."""
    sys.stdout.write(f"{what:<58} {figure:>12,.1f} {unit:<10} {note}\n")
    sys.stdout.flush()


@asynccontextmanager
async def lag_of(what: str) -> AsyncIterator[None]:
    """Reports the 99th percentile of how late a timer of 5 ms is while the block runs.

    Beside it, how much of that this thread can have caused: the rest is other processes that wanted the processor.
    """
    samples: list[tuple[float, float]] = []

    async def measure() -> None:
        while True:
            before, cpu = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.005)
            late = time.perf_counter() - before - 0.005
            samples.append((late, min(late, time.thread_time() - cpu)))

    task = asyncio.ensure_future(measure())
    try:
        yield
    finally:
        task.cancel()
        if samples:
            (late, latest), (own, most) = (p99_and_max(column) for column in zip(*samples, strict=True))
            show(f"  loop lag p99 during {what}", late, "ms", f"max {latest:.1f}; ours {own:.1f}, max {most:.1f}")


def p99_and_max(seconds: Iterable[float]) -> tuple[float, float]:
    """In milliseconds."""
    ordered = sorted(seconds)
    return ordered[int(len(ordered) * 0.99)] * 1e3, ordered[-1] * 1e3


async def bench_queue(count: int = 200_000) -> None:
    """Add, hand out, done; beside a deque with a set."""
    queue: WorkQueue[Key] = WorkQueue()
    keys = [Key("default", f"object-{n}") for n in range(1000)]
    async with lag_of(f"{count} keys through the queue"):
        started = time.perf_counter()
        for _ in range(0, count, len(keys)):
            for key in keys:
                queue.add(key, reason="changed")
            for _ in keys:
                item = await queue.get()
                assert item is not None
                queue.done(item.key)
            await asyncio.sleep(0)
        took = time.perf_counter() - started
    plain: deque[Key] = deque()
    known: set[Key] = set()
    started = time.perf_counter()
    for _ in range(0, count, len(keys)):
        for key in keys:
            if key not in known:
                known.add(key)
                plain.append(key)
        for _ in keys:
            known.discard(plain.popleft())
    bare = time.perf_counter() - started
    show("queue: keys through add, get, done", count / took, "keys/s", f"a bare deque and set: {count / bare:,.0f}")


def pod(n: int, namespace: str) -> dict[str, Any]:
    """A pod of about 6 KB when it is stored, managedFields included."""
    container = {
        "image": "registry.invalid/team/trainer:v1",
        "command": ["python", "-m", "train"],
        "args": [f"--rank={n}", "--epochs=10"],
        "env": [{"name": f"VARIABLE_{i}", "value": f"value-{i}"} for i in range(15)],
        "resources": {"limits": {"cpu": "2", "memory": "4Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return {
        "metadata": {
            "name": f"pod-{n}",
            "namespace": namespace,
            "labels": {"app": "bench", "index": str(n % 100)},
            "annotations": {"example.com/note": "x" * 200},
        },
        "spec": {
            "containers": [{**container, "name": name} for name in ("main", "sidecar")],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    }


async def in_parallel(work: list[Callable[[], Coroutine[Any, Any, Any]]], width: int = 16) -> None:
    """Run all, `width` at a time."""
    todo = iter(work)

    async def worker() -> None:
        for one in todo:
            await one()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(width):
            tasks.create_task(worker())


async def bench_watch(config: ClusterConfig, namespace: str, pods: int) -> None:
    """Fill caches from a real server, and follow changes of everything."""
    client = Client(HTTPTransport(config))
    await in_parallel([partial(client.create, pod(n, namespace), kind=Pod.RESOURCE) for n in range(pods)])
    for label, streaming, manager in (
        ("streaming list", True, ""),
        ("paged list", False, ""),
        ("streaming list, managedFields kept", True, "OpenAPI-Generator"),
    ):
        gc.collect()
        before = resident()
        cache = Cache(client, streaming=streaming, namespace=namespace, field_manager=manager)
        if manager:
            cache._trim = lambda obj: obj
        informer = cache.informer(Pod)
        started, cpu = time.perf_counter(), time.process_time()
        async with lag_of(f"{label} of {pods} pods"):
            task = asyncio.ensure_future(cache.run())
            await informer.wait_synced()
        show(
            f"{label} of {pods} pods to synced",
            (time.perf_counter() - started) * 1e3,
            "ms",
            f"CPU {(time.process_time() - cpu) * 1e3:.0f} ms",
        )
        gc.collect()
        kept = "nothing trimmed" if manager else "trimmed"
        show(f"  resident memory per pod, {kept}", (resident() - before) * 1024 / pods, "KiB")
        if streaming and not manager:
            await follow(client, cache, namespace, pods)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        del cache, informer
    started = time.perf_counter()
    token, text = "", 0
    async with lag_of("a bare fetch of all pages"):
        while True:
            page = await client.list_page(Pod, namespace, continue_token=token)
            text += sum(len(memoryview(raw)) for raw in page.items)
            token = page.continue_token
            if not token:
                break
    show("  bare: all pages fetched, not decoded", (time.perf_counter() - started) * 1e3, "ms")
    show("  bare: text of a pod", text / pods / 1024, "KiB")
    await client.close()


async def follow(client: Client, cache: Cache, namespace: str, pods: int) -> None:
    """A burst of changes as the server would send it to a watch that was away: all at once."""
    version = cache.informer(Pod).store.resource_version
    patch = {"metadata": {"labels": {"changed": "yes"}}}
    changed = min(pods, 5000)
    await in_parallel([partial(client.patch, Pod.RESOURCE, f"pod-{n}", namespace, patch) for n in range(changed)])
    seen = 0
    done = asyncio.Event()

    def count(event: object) -> None:
        nonlocal seen
        del event
        seen += 1
        if seen == changed:
            done.set()

    replay = Cache(client, streaming=False, namespace=namespace)
    informer = replay.informer(Pod)
    informer.add_handler(count)
    reflector = informer._reflector
    reflector._version = version
    started, cpu = time.perf_counter(), time.process_time()
    async with lag_of("the burst"):
        task = asyncio.ensure_future(reflector._watch())
        await done.wait()
    took = time.perf_counter() - started
    cpu = time.process_time() - cpu
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    show(
        "events from a real watch, decoded and dispatched",
        changed / took,
        "events/s",
        f"CPU {cpu / changed * 1e6:.0f} µs each",
    )
    started = time.perf_counter()
    left = changed
    async with client.watch(Pod, namespace, resource_version=version) as batches:
        async for batch in batches:
            left -= len(batch)
            if left <= 0:
                break
    show("  bare: the same frames split, not decoded", changed / (time.perf_counter() - started), "events/s")


class Copies:
    """The trivial controller: each ConfigMap labelled bench=yes gets one child."""

    def __init__(self, manager: Manager, namespace: str, objects: int, workers: int) -> None:
        self.manager = manager
        self.left = objects
        self.done = asyncio.Event()
        # Children are in the same cache, where the applier looks for them: one scope, and a predicate for parents.
        builder = manager.controller().for_(ConfigMap, namespace=namespace, predicates=[labels_match("bench=yes")])
        builder.reconcile(self.reconcile, workers=workers)

    async def reconcile(self, key: Key) -> Result:
        """One apply."""
        child = ConfigMap(metadata=ObjectMeta(name=f"child-{key.name}", namespace=key.namespace), data={"k": "v"})
        await self.manager.applier.apply([child])
        self.left -= 1
        if self.left == 0:
            self.done.set()
        return Done()


async def bench_reconcile(config: ClusterConfig, make_namespace: Callable[[], str], objects: int) -> None:
    """One apply per object at several widths; beside the same requests in a bare loop."""
    for workers in (1, 8, 32):
        namespace = make_namespace()
        client = Client(HTTPTransport(config))
        parents = [
            ConfigMap(metadata=ObjectMeta(name=f"o{n}", namespace=namespace, labels={"bench": "yes"}))
            for n in range(objects)
        ]
        await in_parallel([partial(client.create, parent) for parent in parents])
        manager = Manager(config, servers=NO_SERVERS, process=ProcessSettings(tune_collector=True))
        copies = Copies(manager, namespace, objects, workers)
        async with lag_of(f"{objects} reconciles with {workers} workers"):
            started, cpu = time.perf_counter(), time.process_time()
            task = asyncio.ensure_future(manager.run())
            await copies.done.wait()
            took, cpu = time.perf_counter() - started, time.process_time() - cpu
        manager.stop()
        await task
        show(
            f"reconciles with one apply each, {workers} workers",
            objects / took,
            "/s",
            f"CPU {cpu / objects * 1e3:.2f} ms each",
        )
        bare = make_namespace()
        started, cpu = time.perf_counter(), time.process_time()
        async with lag_of(f"the same in a bare loop, {workers} at a time"), bare_session(config) as session:
            await in_parallel([partial(raw_apply, session, bare, n) for n in range(objects)], workers)
        took, cpu = time.perf_counter() - started, time.process_time() - cpu
        show(
            f"  bare: the same applies, {workers} at a time",
            objects / took,
            "/s",
            f"CPU {cpu / objects * 1e3:.2f} ms each",
        )
        await client.close()


@asynccontextmanager
async def bare_session(config: ClusterConfig) -> AsyncIterator[aiohttp.ClientSession]:
    """aiohttp as anybody would use it: what our own client is measured against."""
    connector = aiohttp.TCPConnector(ssl=TLSFiles(config).context() or True)
    headers = {"Authorization": f"Bearer {config.token}"}
    async with aiohttp.ClientSession(config.server, connector=connector, headers=headers) as session:
        yield session


def apply_of(namespace: str, n: int) -> Request:
    """An apply of a small object."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"child-o{n}", "namespace": namespace},
        "data": {"k": "v"},
    }
    headers = {"Content-Type": "application/apply-patch+yaml", "Accept": "application/json"}
    path = ConfigMap.RESOURCE.path(namespace, f"child-o{n}")
    return Request("PATCH", path, {"fieldManager": "bare"}, headers, msgspec.json.encode(body))


async def raw_apply(session: aiohttp.ClientSession, namespace: str, n: int) -> None:
    """The request alone, with nothing decoded."""
    asked = apply_of(namespace, n)
    async with session.request(
        asked.method, asked.path, params=asked.query, headers=asked.headers, data=asked.body
    ) as answer:
        answer.raise_for_status()
        await answer.read()


async def own_apply(client: Client, namespace: str, n: int) -> None:
    """The same over our transport."""
    assert (await client.transport.send(apply_of(namespace, n))).status < 300


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Makes the loop that the manager uses; None: asyncio's own."""
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return uvloop.new_event_loop


def main() -> None:
    """Run what was asked for, or everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("parts", nargs="*", choices=["queue", "watch", "reconcile", []], help="default: all")
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--objects", type=int, default=1_000)
    options = parser.parse_args()
    parts = options.parts or ["queue", "watch", "reconcile"]
    tune_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        if "queue" in parts:
            runner.run(bench_queue())
        if {"watch", "reconcile"} & set(parts):
            with ControlPlane() as control_plane:
                config = load_config(control_plane.kubeconfig)
                if "watch" in parts:
                    runner.run(bench_watch(config, control_plane.create_namespace(), options.pods))
                if "reconcile" in parts:
                    runner.run(bench_reconcile(config, control_plane.create_namespace, options.objects))


if __name__ == "__main__":
    main()
