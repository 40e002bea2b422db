# SPDX-License-Identifier: Apache-2.0
"""One simulated cluster: an API server, the workload controllers, a pretended node, and the replicas of an operator."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cryptography.hazmat.primitives.asymmetric import ec

from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import Document
from trainwright.api.surroundings import entered
from trainwright.controller.local.apiserver.admission.calling import CallError
from trainwright.controller.local.apiserver.http.server import APIServer
from trainwright.controller.local.apiserver.http.transport import InProcessTransport
from trainwright.controller.local.apiserver.identity.tokens import SigningKey
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore
from trainwright.controller.local.apiserver.store.objects import StoreChange
from trainwright.controller.local.cluster import JOBSET_WEBHOOKS, Snapshot, assembled, compacting, install_jobset
from trainwright.controller.local.controllers import CONTROLLERS, declare_controllers, jobset_objects
from trainwright.controller.local.reviews import answerer
from trainwright.controller.runtime import NO_SERVERS, Client, ClusterConfig, KubernetesError, Manager, ProcessSettings
from trainwright.controller.runtime.errors import ApiError
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.webhook.admission import AdmissionHandler
from trainwright.controller.simulation.loop import Chance, SimulatedLoop, SimulatedSurroundings, Trace
from trainwright.controller.simulation.network import FaultProfile, Hooks, Network, SimulatedElector, called
from trainwright.controller.simulation.node import PodLives, SimulatedNode

TOKEN = "simulated"  # noqa: S105 - of a server that only this process reaches
PROCESS = ProcessSettings(watchdog=False)
"""For managers of a simulation: nothing of the real process is watched or tuned."""
CONFIG = ClusterConfig(server="https://simulated", token=TOKEN)
_CONTROLLERS = tuple(name for name in CONTROLLERS if name not in ("accounts", "claims", "roles"))
_RESTART_SECONDS = 2.0
_RETRY_SECONDS = 5.0
_ROLL_SECONDS = 6.0
_SIGNING_KEY = SigningKey(ec.generate_private_key(ec.SECP256R1()))
"""One for all worlds: its tokens are in no trace."""


@dataclass(slots=True)
class Process:
    """One life of one replica, from its start to its end: what a manager is made of."""

    name: str
    network: Network
    surroundings: SimulatedSurroundings
    elector: SimulatedElector | None
    handlers: Callable[[str, bytes], Awaitable[bytes]] | None = None
    version: int = 0
    """How many upgrades came before it; the scenario decides what another version is."""
    manager: Manager | None = None
    task: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        return self.task is not None and not self.task.done()

    def answer(self, handlers: Mapping[str, AdmissionHandler]) -> None:
        self.handlers = answerer(handlers)


Boot: TypeAlias = Callable[[Process], Awaitable[Manager]]
"""Makes the manager of a process: with its network as transport, its elector, and `PROCESS`."""


@dataclass(slots=True)
class Replica:
    """A place in the Deployment of the operator, in which one process follows another."""

    number: int
    boot: Boot
    lives: int = 0
    skew: float = 0.0
    """Seconds by which the clock of its machine is ahead."""
    drift: float = 0.0
    """By which part of its time the clock of its machine is fast."""
    process: Process | None = field(default=None)


class World:
    """A cluster in a SimulatedLoop, made with `simulated_world`; without `runs`, nothing acts on what is stored.

    `lease`: of the operator's leader election; empty: each replica leads.
    """

    def __init__(
        self,
        seed: str,
        *,
        lives: PodLives | None = None,
        lease: str = "",
        keep: bool = False,
        runs: bool = True,
        snapshot: Snapshot | None = None,
    ) -> None:
        self.seed, self.lease = seed, lease
        self.chance = Chance(seed)
        self.trace = Trace(keep=keep)
        self.faults = FaultProfile()
        """Of the network of the operator's replicas."""
        self.undisturbed = FaultProfile()
        """Of the network of everybody else: latency alone."""
        self.replicas: list[Replica] = []
        self.version = 0
        """Of the operator that is deployed: how many upgrades there were."""
        self.notes: dict[str, Any] = {}
        """What a scenario lets its rules know."""
        self.deaths: list[str] = []
        """Processes that ended by an error."""
        self.hooks = Hooks()
        self.surroundings = SimulatedSurroundings(self.chance, "server")
        self.store: ObjectStore
        self.admin: Client
        self.workloads: Network
        self.node: SimulatedNode
        self._lives = lives or PodLives()
        self._runs, self._begins_with = runs, snapshot
        self._scope: TaskScope
        self._webhooks_away_until = self._slept = 0.0

    # ------------------------------------------------------------------ life of the cluster

    async def _start(self, scope: TaskScope) -> None:
        self._scope = scope
        self.store = ObjectStore(None, now=lambda: self.surroundings.now().timestamp(), observe=self._changed)
        self._server = await assembled(
            self.store,
            token=TOKEN,
            signing_key=_SIGNING_KEY,
            snapshot=self._begins_with,
            address=lambda: CONFIG.server,
            now=self.surroundings.now,
        )
        scope.start("definitions", self._server.definitions.run())
        scope.start("compaction", compacting(self.store, self.surroundings.now))
        self.admin = Client(self.transport(), user_agent="admin")
        self.workloads = self.network("workloads", self.undisturbed)
        manager = Manager(CONFIG, user_agent="workloads", servers=NO_SERVERS, process=PROCESS, transport=self.workloads)
        self._server.webhooks.answer_here(JOBSET_WEBHOOKS, answerer(jobset_objects.HANDLERS))
        await install_jobset(self.admin)
        if not self._runs:
            return
        declare_controllers(manager, only=_CONTROLLERS)
        self.node = SimulatedNode(manager, f"{self.seed}/pods", self._lives, self._reported)
        scope.start("workloads", manager.run())
        await manager.wait_ready()
        await self.node.register()
        scope.start("node", self.node.beat())

    async def _reported(self, pod: Document) -> None:
        for hear in self.hooks.report:
            await hear(pod)

    async def _end(self) -> None:
        running = [one.task for one in self.processes if one.task is not None and not one.task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    def network(self, name: str, faults: FaultProfile) -> Network:
        chance = self.chance.of(f"network/{name}")
        return Network(self.transport(), name, faults, self.trace, chance, self.hooks)

    @property
    def server(self) -> APIServer:
        return self._server.server

    def snapshot(self) -> Snapshot:
        return self._server.snapshot()

    def transport(self) -> InProcessTransport:
        """The way of the administrator to the API server, without a network."""
        return InProcessTransport(self.server, TOKEN)

    def stored(self, collection: str) -> list[dict[str, Any]]:
        """All objects of a collection, such as `pods` or `jobsets.jobset.x-k8s.io`."""
        return [one.document() for one in self.store.collection(collection).listed()]

    def _changed(self, change: StoreChange) -> None:
        name = change.name
        body = b"" if change.collection == "secrets" else change.object.body
        self.trace.add(
            "store", f"{change.version} {change.type} {change.collection} {name.namespace}/{name.name}", body
        )
        called(self.hooks.change, change)

    # ------------------------------------------------------------------ replicas of the operator

    @property
    def processes(self) -> list[Process]:
        return [one.process for one in self.replicas if one.process is not None]

    def add_replica(self, boot: Boot) -> Replica:
        self.replicas.append(Replica(len(self.replicas), boot))
        return self.replicas[-1]

    async def boot(self, replica: Replica) -> None:
        """Start a process of the replica, with caches and a memory of its own, until it runs."""
        while True:
            replica.lives += 1
            name = f"{replica.number}.{replica.lives}"
            process = replica.process = self._process(replica, f"manager-{name}")
            with entered(process.surroundings):
                try:
                    process.manager = await replica.boot(process)
                except KubernetesError as error:
                    self.trace.add("process", f"{process.name} did not start: {error}")
                else:
                    if process.version == self.version:
                        self.trace.add("process", f"{process.name} starts")
                        process.task = self._scope.start(process.name, self._run(process))
                        return
                    # An upgrade stops what runs; this one would have run on in the version of before.
                    self.trace.add("process", f"{process.name} is replaced before it runs")
            await asyncio.sleep(_RETRY_SECONDS)

    def _process(self, replica: Replica, name: str) -> Process:
        surroundings = SimulatedSurroundings(self.chance, name)
        surroundings.skew = replica.skew + self._slept
        network = self.network(name, self.faults)
        elector = None
        if self.lease:
            elector = SimulatedElector(network, surroundings, self.lease, drift=1.0 + replica.drift)
        return Process(name, network, surroundings, elector, version=self.version)

    async def _run(self, process: Process) -> None:
        assert process.manager is not None
        try:
            async with TaskScope(process.name) as tasks:
                if process.elector is not None:
                    tasks.start(f"{process.name}/election", process.elector.run())
                await process.manager.run()
        except Exception as error:  # a Deployment starts the next one
            self.trace.add("process", f"{process.name} ended: {type(error).__name__}: {error}")
            self.deaths.append(f"{process.name} {type(error).__name__}: {error}")
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()  # killed, which is no reason for others to end

    async def kill(self, replica: Replica) -> None:
        """SIGKILL: no request goes out any more, and nothing is written down."""
        process = replica.process
        if process is None or not process.is_up:
            return
        assert process.task is not None
        self.trace.add("process", f"{process.name} is killed")
        process.network.cut_off()
        _loop().thaw(process.surroundings)
        process.task.cancel()
        await asyncio.wait({process.task})

    def stop(self, replica: Replica) -> None:
        """SIGTERM: the process ends in its own way."""
        process = replica.process
        if process is not None and process.is_up and process.manager is not None:
            self.trace.add("process", f"{process.name} is stopped")
            process.manager.stop()

    async def pause(self, process: Process, seconds: float) -> None:
        """Freeze a process; afterwards it goes on, and none of its own timers has told it."""
        loop = _loop()
        loop.freeze(process.surroundings)
        try:
            await asyncio.sleep(seconds)
        finally:
            loop.thaw(process.surroundings)

    async def next_write(self, seconds: float, *, name: str = "", kind: str = "") -> Replica | None:
        """Wait until a replica sends a write; that replica.

        Args:
            seconds: how long to wait at most.
            name: of the object, or what its name begins with; empty: any, but no lease and no event.
            kind: a part of the path, such as `podgroup`.
        """
        waiter: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def look(process: str, path: str) -> None:
            is_named = any(f"{one}-".startswith(f"{name}-") for one in path.split("/"))
            is_meant = is_named and kind in path if name else "/leases" not in path and "/events" not in path
            if is_meant and process.startswith("manager-") and not waiter.done():
                waiter.set_result(process)

        self.hooks.sent.append(look)
        await asyncio.wait({waiter}, timeout=seconds)
        self.hooks.sent.remove(look)
        sender = waiter.result() if waiter.done() else ""
        return next((one for one in self.replicas if one.process is not None and one.process.name == sender), None)

    def set_clock(self, replica: Replica, skew: float) -> None:
        """The wall clock of the replica's machine jumps: from now on it is ahead by so many seconds."""
        replica.skew = skew
        if replica.process is not None:
            replica.process.surroundings.skew = skew + self._slept

    def sleep(self, seconds: float) -> None:
        """All machines were asleep, as a laptop: the time of day is later, and no timer has run meanwhile."""
        self._slept += seconds
        self.surroundings.skew = self._slept
        for replica in self.replicas:
            self.set_clock(replica, replica.skew)

    def upgrade(self) -> None:
        """Another version is deployed: processes that start from now on are of it, one replica after the other."""
        self.version += 1
        self.start("upgrade", self._roll())

    async def _roll(self) -> None:
        for replica in self.replicas:
            self.stop(replica)
            await asyncio.sleep(_ROLL_SECONDS)

    def forget_changes(self, seconds: float) -> None:
        """The API server forgets its changes while no replica can watch: whoever resumes a watch is answered 410."""
        for process in self.processes:
            process.network.blind(seconds)
        self.start("compaction", self._forget(seconds))

    async def _forget(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.store.compact(keep=0.0)

    def lose_webhooks(self, seconds: float) -> None:
        """The Service of the webhooks has no endpoints for a while."""
        self._webhooks_away_until = asyncio.get_running_loop().time() + seconds

    def lose_node(self, seconds: float, *, evicts: bool) -> None:
        """The node does not answer for a while; with `evicts`, its pods are given up meanwhile."""
        self.node.lose(seconds)
        if evicts:
            self.start("eviction", self._evict(seconds / 2))

    async def _evict(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        for pod in self.stored("pods"):
            metadata = pod["metadata"]
            if pod["spec"].get("nodeName") and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                status = {"phase": "Failed", "reason": "NodeLost", "message": "the node is gone (simulated)"}
                with suppress(ApiError):  # others delete pods, too
                    name, space = metadata["name"], metadata["namespace"]
                    await self.admin.patch(Pod.RESOURCE, name, space, {"status": status}, subresource="status")
                    await self.admin.delete(Pod.RESOURCE, name, space, uid=metadata["uid"], grace_period=0)

    async def keep_up(self) -> None:
        """As a Deployment: what has ended is started again after a moment. Runs until cancelled."""
        while True:
            await asyncio.sleep(_RESTART_SECONDS)
            for replica in self.replicas:
                if replica.process is None or not replica.process.is_up:
                    await self.boot(replica)

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self._scope.start(name, work)

    # ------------------------------------------------------------------ webhooks of the operator

    def serve_webhooks(self, origin: str) -> None:
        """Answer webhooks below `https://HOST` by any replica that is up, as a Service does."""
        self._server.webhooks.answer_here(origin, self._answer)

    async def _answer(self, path: str, body: bytes) -> bytes:
        up = [one for one in self.processes if one.is_up and one.handlers is not None]
        if not up or asyncio.get_running_loop().time() < self._webhooks_away_until:
            raise CallError("connection refused (simulated)")
        chosen = self.chance.of("service").choice(up)
        await asyncio.sleep(self.faults.latency)
        assert chosen.handlers is not None
        return await chosen.handlers(path, body)

    def holder(self) -> str:
        lease = self.store.get("leases.coordination.k8s.io", ObjectName("default", self.lease))
        return "" if lease is None else (lease.document().get("spec") or {}).get("holderIdentity") or ""


def _loop() -> SimulatedLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    return loop


@asynccontextmanager
async def simulated_world(world: World) -> AsyncIterator[World]:
    """Run a world for the length of the block, inside a SimulatedLoop."""
    with entered(world.surroundings):
        async with TaskScope("world") as scope:
            await world._start(scope)  # noqa: SLF001 - one thing in two parts
            try:
                yield world
            finally:
                await world._end()  # noqa: SLF001 - as above
                await world._server.webhooks.close()  # noqa: SLF001 - as above
