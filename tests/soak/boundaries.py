# SPDX-License-Identifier: Apache-2.0
"""Breaks the boundaries between a pod and its cluster: what goes wrong in one pod is the end of that pod alone.

Five boundaries, in turn, on one cluster in this process:

- worker: an exception at one of the calls of the node that the worker of a pod makes. The pod fails with reason
  NodeError and a message that names the exception, and the log has its traceback. Where it only does not learn that
  another pod came or went, it runs on, and so does the other;
- anywhere: an exception from any function of the node that works for a pod (`_thrown`), at whatever the pod does:
  volumes, init containers, probes, hooks, restarts, sidecars, a deletion. The pod comes to an end, and nothing of it
  stays: no process, no port, no temporary folder;
- node: an exception, up to three times, where the node itself works for one pod: its status is written, its owner is
  asked for, its end is noted, its object is deleted. The pod ends as its program does, and nothing of it stays;
- release: an exception when a pod gives back what it held. The pod keeps its phase;
- guard: SIGKILL to the guard of a container whose program has detached children, also in the grace period of a
  pod that ignores SIGTERM. The pod fails or goes, and no process stays.

After each round a pod that was there from the beginning runs as before, with the same process and without a restart,
and a new pod comes to its end.
"""

import argparse
import asyncio
import logging
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.soak._thrown import ERRORS, FAULT, PlannedError, Thrower
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.controller.local.cluster import RunningCluster, local_cluster
from trainwright.controller.local.node.hosting import Hosting
from trainwright.controller.local.node.node import LocalNode
from trainwright.controller.local.node.pod import PodWorker
from trainwright.controller.local.node.ports import free_port
from trainwright.controller.local.node.process.lowlevel import MARKER
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.runtime import Client, Manager, NotFound
from trainwright.controller.runtime.testing.waiting import GaveUp, eventually, is_empty

NAMESPACE = "default"
END_SECONDS = 120.0
AT_ONCE = 4
"""Pods that are broken at the same time."""
CALLS = ("plan", "start", "write_hosts", "release")
BREAKS = "boundaries/breaks"
SLEEPER = "import time; print('up', flush=True); time.sleep(100000)"
DETACHES = (
    "import subprocess, sys, time\n"
    "sleeps = [sys.executable, '-c', 'import time; time.sleep(100000)']\n"
    "for _ in range(3): subprocess.Popen(sleeps, start_new_session=True)\n"
    "print('up', flush=True)\n"
    "time.sleep(100000)"
)

STUBBORN = (
    "import signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: print('told', flush=True))\n"
    "sleeps = [sys.executable, '-c', 'import time; time.sleep(100000)']\n"
    "subprocess.Popen(sleeps, start_new_session=True)\n"
    "print('up', flush=True)\n"
    "time.sleep(100000)"
)
"""Obeys nothing but SIGKILL."""
NODE_CALLS = ("_write_status", "_note_end", "_delete", "_top_of")
NODE_FAULT = "boundaries/node"
"""Annotation of a pod: the call of the node that raises for it, how often, and which error."""


class Failures(logging.Handler):
    """What the cluster logs of pods that failed on the node, instead of printing thousands of tracebacks."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the names of pods whose failure is logged with its traceback."""
        if record.exc_info is not None and record.exc_info[0] is not None:
            self.pods.append(record.getMessage())


def break_calls(hosting: Hosting, broken_pods: set[str]) -> None:
    """Let a call of the node fail for pods whose annotation names it, and note their names."""

    def breaking(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def broken(pod: dict[str, Any], *arguments: Any, **named: Any) -> Any:
            if (pod["metadata"].get("annotations") or {}).get(BREAKS) == name:
                broken_pods.add(pod["metadata"]["name"])
                raise PlannedError(name)
            return call(pod, *arguments, **named)

        return broken

    for name in CALLS:
        setattr(hosting, name, breaking(name, getattr(hosting, name)))


def break_node_calls(node: LocalNode, broken: Counter[str]) -> None:
    """Let calls of the node fail for pods whose annotation names them, and count that by the name of the pod."""

    def breaking(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        async def broken_later(about: Any, *arguments: Any, **named: Any) -> Any:
            # What is known of the end is noted by a worker's pod, too.
            metadata = (about.pod if isinstance(about, PodWorker) else about)["metadata"]
            where, _, rest = (metadata.get("annotations") or {}).get(NODE_FAULT, "").partition(":")
            if where == name:
                times, _, error = rest.partition(":")
                if broken[metadata["name"]] < int(times):
                    broken[metadata["name"]] += 1
                    planned = ERRORS[int(error)]()
                    raise planned
            return await call(about, *arguments, **named)

        return broken_later

    for name in NODE_CALLS:
        owner = node if hasattr(node, name) else node.ended
        setattr(owner, name, breaking(name, getattr(owner, name)))


class Site:
    """The cluster, and a pod that must not notice anything."""

    def __init__(
        self, cluster: RunningCluster, folder: Path, failures: Failures, broken: set[str], thrower: Thrower
    ) -> None:
        self.cluster, self.folder, self.failures, self.broken = cluster, folder, failures, broken
        self.thrower = thrower
        self.node_broken: Counter[str] = Counter()
        """How often a call of the node has failed for each pod."""
        self.thrown: Counter[str] = Counter()
        """How often each function has raised."""
        self.client: Client = cluster.manager.client
        self.port = free_port()
        """For all pods that declare one; no connection of another program gets it, for which they would wait."""
        self._number = 0
        self._witness: tuple[str, int] = ("", 0)

    async def create(self, program: str, annotations: dict[str, str] | None = None, **fields: Any) -> str:
        """A pod with one container; returns its name. `fields` are further ones of its spec."""
        self._number += 1
        name = f"pod-{self._number}"
        container = {"name": "main", "image": "python", "command": [sys.executable, "-c", program]}
        container |= fields.pop("container", {})
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **fields}
        about = {"name": name, "namespace": NAMESPACE, "annotations": annotations or {}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}
        await self.client.create(body, kind=Pod.RESOURCE)
        return name

    async def status(self, name: str) -> dict[str, Any]:
        """The status of a pod; empty if there is none."""
        with suppress(NotFound):
            found = await self.client.get(Pod.RESOURCE, name, NAMESPACE)
            return dict(found.get("status") or {})
        return {}

    async def until(self, name: str, *phases: str) -> dict[str, Any]:
        """Wait for a phase. Raises GaveUp."""
        return await eventually(
            lambda: self.status(name), lambda status: status.get("phase") in phases, seconds=END_SECONDS
        )

    async def delete(self, name: str) -> None:
        """Delete a pod, and wait until it is gone."""
        with suppress(NotFound):
            await self.client.delete(Pod.RESOURCE, name, NAMESPACE)
        await eventually(lambda: self.status(name), lambda status: not status, seconds=END_SECONDS)

    def log(self, name: str) -> Path | None:
        """The log of a pod; None if it has none yet."""
        return next(iter((self.folder / "state" / "logs").glob(f"{NAMESPACE}_{name}_*/main/0.log")), None)

    def process(self, name: str) -> Any:
        """What runs in a pod."""
        workers = self.cluster.node._workers.values()
        worker = next(one for one in workers if one.pod["metadata"]["name"] == name)
        return worker.runners["main"].process

    async def begin(self) -> None:
        """Start the witness."""
        name = await self.create(SLEEPER)
        await self.until(name, "Running")
        self._witness = (name, self.process(name).pid)

    async def check(self) -> list[str]:
        """What is wrong with the witness, or with a new pod."""
        name, pid = self._witness
        status = await self.status(name)
        found: list[str] = []
        if self.process(name).pid != pid or not alive(pid):
            found.append(f"the process of the witness is another one: {pid}")
        if status.get("phase") != "Running" or status["containerStatuses"][0]["restartCount"]:
            found.append(f"the witness does not run any more: {status}")
        new = await self.create("print('fine')")
        status = await self.until(new, "Succeeded", "Failed")
        if status["phase"] != "Succeeded":
            found.append(f"a new pod failed: {status}")
        await self.delete(new)
        return found


def alive(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def descendants(pid: int) -> list[int]:
    """A process and all that it started, as far as their parents live."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += parents.get(one, [])
    return found


async def break_worker(site: Site, chance: random.Random) -> list[str]:
    """An exception in a pod's worker."""
    call = chance.choice(CALLS[:3])
    name = await site.create(SLEEPER, {BREAKS: call})
    status = await site.until(name, "Failed", "Running")
    if call == "write_hosts" and name not in site.broken:
        # With namespaces the launcher writes the hosts file: nothing was broken, so break something else.
        await site.delete(name)
        return await break_worker(site, chance)
    found: list[str] = []
    if call == "write_hosts":
        # Others came or went: that this pod does not learn their names ends nobody.
        if status["phase"] != "Running":
            found.append(f"a pod that does not learn the names of its peers says {status}")
    elif status.get("reason") != "NodeError" or f"PlannedError: {call}" not in status.get("message", ""):
        found.append(f"a pod whose {call} failed says {status}")
    if not any(f"pod {name}_" in text for text in site.failures.pods):
        found.append(f"the log does not say that {name} failed")
    await site.delete(name)
    return found


HANDLER = {"exec": {"command": ["true"]}}
RUNS = "import time; print('up', flush=True); time.sleep({seconds})"


def lives(chance: random.Random, port: int) -> dict[str, Any]:
    """Fields of a pod that does one of the things that pods do, with a port for those that declare one."""
    init = {"name": "first", "image": "python", "command": ["true"]}
    probe = {**HANDLER, "periodSeconds": 1}
    mounts = [{"name": "v", "mountPath": "/tmp/boundaries/v"}, {"name": "c", "mountPath": "/tmp/boundaries/c"}]
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "kube-root-ca.crt"}}]
    options: tuple[dict[str, Any], ...] = (
        {},
        {"initContainers": [init]},
        {"initContainers": [{**init, "restartPolicy": "Always", "command": ["sleep", "600"]}]},
        {"container": {"readinessProbe": probe, "livenessProbe": probe}},
        {"container": {"lifecycle": {"postStart": HANDLER, "preStop": HANDLER}}},
        {"container": {"volumeMounts": mounts}, "volumes": volumes},
        {"container": {"ports": [{"containerPort": port}]}},
        {"restartPolicy": "Always"},
        {"activeDeadlineSeconds": 1},
    )
    return chance.choice(options)


async def break_anywhere(site: Site, chance: random.Random) -> list[str]:
    """An exception from a function that works for a pod."""
    # Most of the calls are those of the start; those of the end come after some hundred.
    call = int(chance.paretovariate(0.5)) if chance.random() < 0.5 else chance.randint(1, 400)
    program = RUNS.format(seconds=chance.choice((0, 0.5, 600)))
    name = await site.create(program, {FAULT: str(call)}, **lives(chance, site.port))
    uid = (await site.client.get(Pod.RESOURCE, name, NAMESPACE))["metadata"]["uid"]
    try:
        status = await eventually(
            lambda: site.status(name),
            lambda status: status.get("phase") in ("Running", "Succeeded", "Failed"),
            seconds=END_SECONDS,
        )
        await asyncio.sleep(chance.choice((0.0, 0.2, 1.5)))
        await site.delete(name)
        await eventually(lambda: uid in site.cluster.node._workers, lambda there: not there, seconds=END_SECONDS)
    except GaveUp as error:
        status = await site.status(name)
        fault = site.thrower.faults.get(name)
        where = fault.where or "nowhere" if fault is not None else "it has no worker"
        return [f"{call}, {where}: the pod hangs: {error}; it says {status}"]
    fault = site.thrower.faults[name]
    site.thrown[fault.where or "nowhere"] += 1
    left = await asyncio.to_thread(marked, uid)
    found = [f"{call}, {fault.where}: process {pid} outlived the pod" for pid in left]
    folder = site.folder / "state" / "pods" / uid
    try:
        await eventually(folder.exists, lambda there: not there, seconds=END_SECONDS)
    except GaveUp:
        found.append(f"{call}, {fault.where}: its folder is left: {[str(one) for one in folder.rglob('*')][:20]}")
    if (
        fault.where
        and status.get("reason") == "NodeError"
        and not any(f"pod {name}_" in one for one in site.failures.pods)
    ):
        found.append(f"{call}, {fault.where}: the log does not say that {name} failed")
    return found


def marked(uid: str) -> list[int]:
    """The processes that belong to a pod, by their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            variables = (folder / "environ").read_bytes().split(b"\0")
            if any(one.startswith(MARKER.encode()) and uid.encode() in one for one in variables):
                found.append(int(folder.name))
    return found


async def break_node(site: Site, chance: random.Random) -> list[str]:
    """An exception where the node itself works for one pod."""
    call, times, error = chance.choice(NODE_CALLS), chance.randint(1, 3), chance.randrange(len(ERRORS))
    # The object of a pod that has ended goes without the node.
    runs = call in ("_note_end", "_delete")
    name = await site.create(SLEEPER if runs else "print('fine')", {NODE_FAULT: f"{call}:{times}:{error}"})
    uid = (await site.client.get(Pod.RESOURCE, name, NAMESPACE))["metadata"]["uid"]
    what = f"{call}, {times} times {ERRORS[error]()!r}"
    try:
        status = await site.until(name, "Running" if runs else "Succeeded", "Failed")
        await site.delete(name)
        await eventually(lambda: uid in site.cluster.node._workers, lambda there: not there, seconds=END_SECONDS)
        await eventually((site.folder / "state" / "pods" / uid).exists, lambda there: not there, seconds=END_SECONDS)
    except GaveUp as gave_up:
        return [f"{what}: the pod hangs, or its folder is left: {gave_up}"]
    found = [] if status["phase"] != "Failed" else [f"{what}: the pod says {status}"]
    if not site.node_broken[name]:
        found.append(f"{what}: nothing was broken")
    return found + [f"{what}: process {pid} outlived the pod" for pid in await asyncio.to_thread(marked, uid)]


async def break_release(site: Site, chance: random.Random) -> list[str]:
    """An exception when a pod gives back what it held."""
    del chance
    name = await site.create("print('fine')", {BREAKS: "release"})
    status = await site.until(name, "Succeeded", "Failed")
    await site.delete(name)
    return [] if status["phase"] == "Succeeded" else [f"a pod that could not be released says {status}"]


async def kill_guard(site: Site, chance: random.Random) -> list[str]:
    """SIGKILL to a guard."""
    if chance.random() < 0.3:
        return await kill_stopping_guard(site)
    name = await site.create(DETACHES)
    await site.until(name, "Running")
    process = site.process(name)
    await asyncio.sleep(chance.choice((0.0, 0.05, 0.3)))  # before, while and after the program detaches its children
    running = descendants(process.guard_pid)
    os.kill(process.guard_pid, signal.SIGKILL)
    status = await site.until(name, "Failed", "Succeeded")
    found = [] if status["phase"] == "Failed" else [f"a pod without its guard says {status}"]
    try:
        await eventually(lambda: [pid for pid in running if alive(pid)], is_empty, seconds=END_SECONDS)
    except GaveUp as error:
        found.append(f"processes {error.last} outlived their guard")
    await site.delete(name)
    return found


async def kill_stopping_guard(site: Site) -> list[str]:
    """SIGKILL to the guard of a pod that is being deleted, and whose program ignores that."""
    # Longer than anything waits here: if the pod goes, it goes by the end of its guard.
    name = await site.create(STUBBORN, terminationGracePeriodSeconds=1000)
    await site.until(name, "Running")
    await said(site, name, "up")
    guard = site.process(name).guard_pid
    running = descendants(guard)
    await site.client.delete(Pod.RESOURCE, name, NAMESPACE)
    await said(site, name, "told")
    os.kill(guard, signal.SIGKILL)
    found: list[str] = []
    try:
        await eventually(lambda: [pid for pid in running if alive(pid)], is_empty, seconds=END_SECONDS)
    except GaveUp as error:
        found.append(f"processes {error.last} outlived their guard in the grace period")
    try:
        await eventually(lambda: site.status(name), lambda status: not status, seconds=END_SECONDS)
    except GaveUp as error:
        found.append(f"a pod that lost its guard in the grace period does not go: {error}")
    return found


async def said(site: Site, name: str, text: str) -> None:
    """Wait for a line in the log of a pod. Raises GaveUp."""

    def lines() -> list[str]:
        log = site.log(name)
        return log.read_text().split() if log is not None else []

    await eventually(lines, lambda found: text in found, seconds=END_SECONDS)


BOUNDARIES = {
    "worker": break_worker,
    "anywhere": break_anywhere,
    "node": break_node,
    "release": break_release,
    "guard": kill_guard,
}


@asynccontextmanager
async def site(folder: Path) -> AsyncIterator[Site]:
    """A cluster whose node fails where pods ask for it."""
    original = LocalNode.declare

    def declare(self: LocalNode, manager: Manager) -> None:
        original(self, manager)
        break_calls(self._hosting, broken)
        break_node_calls(self, node_broken)

    failures, broken, node_broken, thrower = Failures(), set[str](), Counter[str](), Thrower()
    thrower.install()
    logging.getLogger().addHandler(failures)
    LocalNode.declare = declare  # type: ignore[method-assign]
    try:
        async with local_cluster(NodeSettings(name="boundaries", folder=folder / "state")) as cluster:
            made = Site(cluster, folder, failures, broken, thrower)
            made.node_broken = node_broken
            await made.begin()
            yield made
    finally:
        thrower.remove()
        LocalNode.declare = original  # type: ignore[method-assign]
        logging.getLogger().removeHandler(failures)


async def run(rounds: range, seconds: float, seed: int, folder: Path, *, names: Sequence[str]) -> int:
    """Break boundaries; returns how often one did not hold."""
    counts, wrong = Counter[str](), 0
    until = time.monotonic() + seconds
    async with site(folder) as made:
        for number in rounds:
            if time.monotonic() > until:
                break
            for name in names:
                # Each draws by itself: in which order they run is not drawn.
                chances = [random.Random(f"{seed}/{number}/{name}/{index}") for index in range(AT_ONCE)]
                again = f"python -m tests.soak.boundaries --seed={seed} --first={number} --rounds=1 {name}"
                try:
                    results = await asyncio.gather(*(BOUNDARIES[name](made, chance) for chance in chances))
                    counts[name] += AT_ONCE
                    found = [text for result in results for text in result]
                    found += await made.check()
                except BaseException:  # also a cancellation: so a cluster ends whose node has died
                    print(f"round {number}, {name}: raised\n  again: {again}", flush=True)
                    raise
                for text in found:
                    print(f"round {number}, {name}: {text}\n  again: {again}", flush=True)
                wrong += len(found)
            if number % 10 == 0:
                print(f"round {number}: {dict(counts)}, {wrong} wrong", flush=True)
        print(f"raised: {dict(made.thrown.most_common())}")
    broken = ", ".join(f"{name} {count} times" for name, count in counts.items())
    print(f"boundaries broken: {broken}; seed {seed}; {wrong} did not hold")
    return wrong


def main() -> int:
    """Run the program; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("boundaries", nargs="*", metavar="BOUNDARY", help=f"of {', '.join(BOUNDARIES)}; default: all")
    parser.add_argument("--rounds", type=int, default=1000, help="of each boundary (default: %(default)s)")
    parser.add_argument("--first", type=int, default=1, help="number of the first round (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no round later than this")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of the choices")
    arguments = parser.parse_args()
    if unknown := set(arguments.boundaries) - set(BOUNDARIES):
        parser.error(f"no such boundary: {', '.join(sorted(unknown))}")
    rounds = range(arguments.first, arguments.first + arguments.rounds)
    names = arguments.boundaries or [*BOUNDARIES]
    with tempfile.TemporaryDirectory() as folder:
        wrong = asyncio.run(run(rounds, arguments.seconds, arguments.seed, Path(folder), names=names))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
