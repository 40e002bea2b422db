# SPDX-License-Identifier: Apache-2.0
"""A cluster in virtual time, for tests of when an operator does what: an hour of it takes as long as its work.

    def test_a_job_is_deleted_an_hour_after_its_end(virtual_cluster):
        virtual_cluster.run(boot)                  # the operator
        virtual_cluster.stored.create(job)
        virtual_cluster.stored.advance(3600)
        assert virtual_cluster.stored.get("job", "a", "default") is None

Time stands still between the calls of the test. The pytest fixture is `virtual_cluster`.
"""

import asyncio
import http.client
import json
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Hashable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import parse_qsl

from trainwright.api.objects import Document
from trainwright.api.surroundings import entered
from trainwright.controller.local.apiserver.request.info import ServerRequest, ServerResponse
from trainwright.controller.local.apiserver.store import StoreChange
from trainwright.controller.local.cluster import Snapshot, install
from trainwright.controller.local.testing.late import Handle, make_late
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing.stored import Poster, StoredObjects, documents_of, manifests
from trainwright.controller.runtime.testing.tools import ControlPlaneError
from trainwright.controller.runtime.testing.waiting import SECONDS, eventually_sync
from trainwright.controller.simulation.loop import SimulatedLoop
from trainwright.controller.simulation.node import PodLives
from trainwright.controller.simulation.world import Boot, Replica, World, simulated_world

T = TypeVar("T")
_FIELD_MANAGER = "virtual-cluster"


class Change(NamedTuple):
    seconds: float
    """When, on the clock of the cluster."""
    type: str
    """ADDED, MODIFIED or DELETED."""
    object: Document


class VirtualCluster:
    """An API server with the controllers of the local cluster and an operator, on one event loop; a context manager.

    Args:
        crds: files and folders of CustomResourceDefinitions to install.
        controllers: whether Jobs and JobSets make pods, which a node pretends to run. Else nothing acts on what is
            stored but the operator.
        lives: how pods live.
        seed: decides the lives of pods, and every other chance.

    `world` is what the cluster is made of: its faults, its hooks, the life of replicas.
    """

    def __init__(
        self,
        *,
        crds: Sequence[Path] = (),
        controllers: bool = False,
        lives: PodLives | None = None,
        seed: str = "1",
    ) -> None:
        self.world = World(seed, lives=lives, runs=controllers, snapshot=_snapshot(crds) if crds else None)
        self.world.faults.latency = self.world.undisturbed.latency = 0.0
        self._late: dict[str, float] = {}
        self._slow: dict[str, float] = {}
        self._heard: list[tuple[str, list[tuple[float, str]]]] = []
        self._answer: Handle
        self._loop = SimulatedLoop(end=math.inf)
        self._over = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        self.stored = StoredObjects(_VirtualPoster(self))

    def __enter__(self) -> Self:
        ready = self._loop.create_future()

        async def live() -> None:
            async with simulated_world(self.world):
                make_late(self.world.server, lambda plural: self._late.get(plural, 0.0))
                self._answer, self.world.server.handle = self.world.server.handle, self._handle  # type: ignore[method-assign]
                ready.set_result(None)
                await self._over.wait()

        with entered(self.world.surroundings):
            self._life = self._loop.create_task(live(), name="life of the cluster")
        self._until(asyncio.wait({self._life, ready}, return_when=asyncio.FIRST_COMPLETED))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._life is not None
        try:
            self._over.set()
            self._loop.run_until_complete(self._life)
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def run(self, boot: Boot) -> Replica:
        """Start a replica of an operator; `boot` makes its manager. Returns when it runs."""
        replica = self.world.add_replica(boot)
        self.call(self.world.boot(replica))
        return replica

    def stop(self, replica: Replica) -> float:
        """SIGTERM; returns the seconds until it has ended in its own way."""

        async def end() -> float:
            process = replica.process
            if process is None or process.task is None:
                return 0.0
            began = self.seconds
            self.world.stop(replica)
            await asyncio.wait({process.task})
            return self.seconds - began

        return self.call(end())

    def kill(self, replica: Replica) -> None:
        self.call(self.world.kill(replica))

    def apply(self, *documents: Mapping[str, Any]) -> None:
        self.stored.apply(*documents, field_manager=_FIELD_MANAGER)

    def call(self, work: Awaitable[T]) -> T:
        """Run something on the loop of the cluster, and let time pass until it is done."""
        return self._until(work)

    def changes(self, collection: str) -> list[Change]:
        """A list that grows with each change of a collection, such as `jobs.batch`, from now on."""
        seen: list[Change] = []

        def look(change: StoreChange) -> None:
            if change.collection == collection:
                seen.append(Change(round(self.seconds, 3), change.type, change.object.document()))

        self.world.hooks.change.append(look)
        return seen

    def refuse(self, part: str, error: Exception, *, until: float = math.inf) -> list[float]:
        """Let writes of the operator end with an error, up to a moment; the list grows with the times of each.

        Args:
            part: of the method and the path, such as `PATCH /apis/batch/v1/namespaces/n/jobs`.
            error: is raised by its client, in the place of an answer.
            until: seconds on the clock of the cluster.
        """
        times: list[float] = []

        def meet(process: str, request: Request) -> None:
            if process.startswith("manager-") and part in str(request) and self.seconds < until:
                times.append(round(self.seconds, 3))
                raise error

        self.world.hooks.request.append(meet)
        return times

    def requests(self, part: str) -> list[tuple[float, str]]:
        """A list that grows with the time and the method of each request of the operator, from now on.

        Args:
            part: of the path, such as `/configmaps`.
        """
        seen: list[tuple[float, str]] = []
        self._heard.append((part, seen))
        return seen

    def delay_answers(self, part: str, seconds: float) -> None:
        """Let the operator's writes be answered so much later from now on, once they are carried out; 0 for at once.

        Args:
            part: of the method and the path.
        """
        self._slow[part] = seconds

    async def _handle(self, request: ServerRequest) -> ServerResponse:
        if "manager-" not in request.headers.get("user-agent", ""):
            return await self._answer(request)
        for part, seen in self._heard:
            if part in request.path:
                seen.append((round(self.seconds, 3), request.method))
        answer = await self._answer(request)
        if request.method not in ("GET", "HEAD"):
            what = f"{request.method} {request.path}"
            await asyncio.sleep(max((one for part, one in self._slow.items() if part in what), default=0.0))
        return answer

    def delay_watches(self, plural: str, seconds: float) -> None:
        """Let what watches tell of a kind come so much later from now on; 0 for at once."""
        self._late[plural] = seconds

    @property
    def now(self) -> datetime:
        return self.call(self._now())

    @property
    def seconds(self) -> float:
        return self._loop.time()

    async def _now(self) -> datetime:
        return self.world.surroundings.now()

    def _until(self, work: Awaitable[T]) -> T:
        async def done() -> T:
            return await work

        with entered(self.world.surroundings):
            result = self._loop.run_until_complete(done())
        if self._life is not None and self._life.done():
            self._life.result()
        return result


_snapshots: dict[Hashable, Snapshot] = {}


def _snapshot(crds: Sequence[Path]) -> Snapshot:
    """What a cluster with these definitions begins with; made by the first call."""
    files = [file for path in crds for file in manifests(path)]
    key = tuple((file, file.stat().st_mtime_ns) for file in files)
    if key not in _snapshots:
        with VirtualCluster() as cluster:
            found = [one for file in files for one in documents_of(file)]
            cluster.call(install(cluster.world.admin, found, owner=_FIELD_MANAGER))
            cluster.stored.advance(2.0)  # until the new kinds are served
            _snapshots[key] = cluster.world.snapshot()
    return _snapshots[key]


class _VirtualPoster(Poster):
    def __init__(self, cluster: VirtualCluster) -> None:
        self._cluster = cluster

    def _send(
        self,
        method: str,
        path: str,
        body: object,
        *,
        accept: str = "application/json",
        content_type: str = "application/json",
    ) -> tuple[int, Document]:
        headers = {"Accept": accept, **({} if body is None else {"Content-Type": content_type})}
        request = _request(method, path, headers, None if body is None else json.dumps(body).encode())
        answer = self._cluster.call(self._cluster.world.transport().send(request))
        try:
            return answer.status, json.loads(answer.body)
        except ValueError:
            return answer.status, {"message": answer.body.decode(errors="replace")}

    def advance(self, seconds: float) -> None:
        self._cluster.call(asyncio.sleep(seconds))

    def until(
        self, look: Callable[[], T], holds: Callable[[T], object], *, seconds: float = SECONDS, what: str = ""
    ) -> T:
        return eventually_sync(
            look, holds, seconds=seconds, what=what, now=lambda: self._cluster.seconds, sleep=self.advance
        )

    def frames(self, path: str) -> Generator[bytes, None, None]:
        chunks = self._chunks(path)
        try:
            while (chunk := self._cluster.call(_next(chunks))) is not None:
                yield chunk
        finally:
            self._cluster.call(chunks.aclose())

    async def _chunks(self, path: str) -> AsyncGenerator[bytes, None]:
        async with self._cluster.world.transport().open(_request("GET", path)) as stream:
            if stream.status >= http.client.BAD_REQUEST:
                raise ControlPlaneError(f"GET {path} failed: {(await stream.read()).decode(errors='replace')}")
            async for chunk in stream.chunks():
                yield chunk


async def _next(chunks: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(chunks, None)


def _request(method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None) -> Request:
    place, _, query = path.partition("?")
    return Request(method, place, dict(parse_qsl(query)), headers or {}, body)
