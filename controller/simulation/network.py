# SPDX-License-Identifier: Apache-2.0
"""How one simulated process reaches the API server: latency, faults of networks and servers, and leader election.

Election follows the real rules, without the thread and the kernel's timer.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import msgspec

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.http.transport import InProcessTransport
from trainwright.controller.local.apiserver.store import StoreChange
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.client.transport import Request, Response, Stream, Transport, WebSocket
from trainwright.controller.runtime.errors import ConnectionLost, RequestTimeout, Unreachable
from trainwright.controller.runtime.leaderelection.candidate import Candidate, LeaseLock
from trainwright.controller.runtime.leaderelection.fence import Fence, Timing
from trainwright.controller.runtime.leaderelection.statistics import ElectionStatistics
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.simulation.loop import AT_SERVER, SimulatedSurroundings, Trace

_READS = ("GET", "HEAD")
_NO_FAULTS = ("latency", "slow_seconds")
_LIMIT_SECONDS = 60.0
"""How long an answer that never comes is waited for, by a request without a limit of its own."""


@dataclass(slots=True)
class FaultProfile:
    """The faults of a network. Apart from `latency` and `slow_seconds`: probabilities for each request or frame."""

    latency: float = 0.002
    """Mean seconds of one way."""
    refused: float = 0.0
    """The request is not sent."""
    lost_before: float = 0.0
    """A write is not carried out, and the connection breaks."""
    lost_after: float = 0.0
    """A write is carried out, and the connection breaks before the answer."""
    slow_request: float = 0.0
    """A write waits until it is sent, for a while or until its limit has passed, as for a free connection."""
    slow_answer: float = 0.0
    """A write is carried out, and the answer is late by up to `slow_seconds`."""
    timeout_after: float = 0.0
    """A write is carried out, and the answer is waited for until the limit of the request."""
    error_500: float = 0.0
    """A write is carried out, and answered 500."""
    conflict: float = 0.0
    """409 instead of a write."""
    too_many: float = 0.0
    """429 with Retry-After."""
    unauthorized: float = 0.0
    """401, as while a token is renewed."""
    cut_watch: float = 0.0
    """A stream breaks before a frame."""
    slow_frame: float = 0.0
    """A frame is late by up to `slow_seconds`, and later ones wait behind it."""
    slow_seconds: float = 20.0
    """Of an answer or a frame that is late."""

    def calm(self) -> None:
        for one in fields(self):
            if one.name not in _NO_FAULTS:
                setattr(self, one.name, 0.0)

    @property
    def active(self) -> Mapping[str, float]:
        return {name: value for name, value in asdict(self).items() if value and name not in _NO_FAULTS}

    def without(self, name: str) -> "FaultProfile":
        return replace(self, **{name: 0.0})


@dataclass(slots=True)
class Hooks:
    """Functions that are called about what happens in a world."""

    change: list[Callable[[StoreChange], None]] = field(default_factory=list)
    """With each change of the store, before anybody is told."""
    sent: list[Callable[[str, str], None]] = field(default_factory=list)
    """With the process and the path when a write is sent, which is some time before the server begins."""
    request: list[Callable[[str, Request], None]] = field(default_factory=list)
    """With the process and the request when the server begins to carry out a write. What it raises takes the place of
    the write."""
    fault: list[Callable[[str, str], None]] = field(default_factory=list)
    """With the fault and the path of the request that it meets."""
    report: list[Callable[[Document], Awaitable[None]]] = field(default_factory=list)
    """With a pod each time it reports, as `PodLives.reports` says."""


def called(functions: Sequence[Callable[..., None]], *arguments: Any) -> None:
    """Call them all; they may change the list."""
    for function in list(functions):
        function(*arguments)


class Network:
    """A transport with faults, which processes may share and which may change meanwhile."""

    def __init__(
        self,
        inner: InProcessTransport,
        name: str,
        faults: FaultProfile,
        trace: Trace,
        chance: random.Random,
        hooks: "Hooks",
    ) -> None:
        self._inner, self.name, self._trace, self._chance, self._hooks = inner, name, trace, chance, hooks
        self.faults = faults
        self.flying: Counter[str] = Counter()
        """How many writes of each path are on their way, from the call to its end."""
        self._paused_until = self._blind_until = 0.0
        self._down = False

    def pause(self, seconds: float) -> None:
        """Stand still: what is sent or received waits, and goes on afterwards, as in a frozen process."""
        self._paused_until = max(self._paused_until, asyncio.get_running_loop().time() + seconds)

    def blind(self, seconds: float) -> None:
        """Watches break at their next frame, and none can be opened meanwhile."""
        self._blind_until = max(self._blind_until, asyncio.get_running_loop().time() + seconds)

    def cut_off(self) -> None:
        """The process is dead: nothing goes out any more."""
        self._down = True

    async def send(self, request: Request) -> Response:
        if request.method in _READS:
            return await self._send(request)
        self.flying[request.path] += 1
        called(self._hooks.sent, self.name, request.path)
        try:
            return await self._send(request)
        finally:
            self.flying[request.path] -= 1
            self.flying += Counter()  # without paths of which none is left

    async def _send(self, request: Request) -> Response:
        await self._way()
        # Numbers are drawn whether or not a fault is on, so that turning one off does not shift the others.
        faults, draws, writes = self.faults, [self._chance.random() for _ in range(8)], request.method not in _READS
        what = f"{self.name} {request}"
        if draws[0] < faults.refused:
            raise self._fault("refused", Unreachable(f"{request}: refused (simulated)"), request)
        if draws[1] < faults.too_many:
            self._note("429", request)
            return _status(429, "TooManyRequests", {"retry-after": "1"})
        if draws[2] < faults.unauthorized:
            self._note("401", request)
            return _status(401, "Unauthorized", {})
        if not writes:
            answer = await self._at_server(request)
            self._trace.add("read", f"{what} {answer.status}")
            await self._way()
            return answer
        if draws[3] < faults.lost_before:
            raise self._fault("lost-before", ConnectionLost(f"{request}: lost (simulated)"), request)
        if draws[4] < faults.conflict and request.method in ("PUT", "PATCH"):
            self._note("409", request)
            return _status(409, "Conflict", {})
        limit = await self._turn(request, draws)
        if request.permission is not None:
            request.permission.check()  # the last look before the bytes go out, as at a socket
        called(self._hooks.request, self.name, request)
        answer = await self._at_server(request)
        self._trace.add("write", f"{what} {answer.status}", _shown(request))
        self._alive()
        if draws[5] < faults.lost_after:
            raise self._fault("lost-after", ConnectionLost(f"{request}: lost (simulated)"), request)
        late = faults.slow_seconds * draws[0] if 1.0 - draws[7] < faults.slow_answer else 0.0
        if draws[6] < faults.timeout_after or late >= limit:
            self._note("timeout-after", request)
            await asyncio.sleep(limit)
            raise RequestTimeout(f"{request}: no answer (simulated)")
        if late:
            self._note("slow-answer", request, f"{late:.3f} ")
            await asyncio.sleep(late)
        if draws[7] < faults.error_500:
            self._note("500-after", request)
            return _status(500, "InternalError", {})
        await self._way()
        return answer

    async def _turn(self, request: Request, draws: Sequence[float]) -> float:
        """Wait until a write may be sent; returns the seconds that are left of its limit. Raises RequestTimeout."""
        limit = _LIMIT_SECONDS if request.timeout is None else request.timeout
        if 1.0 - draws[3] >= self.faults.slow_request:
            return limit
        late = min(1.5 * limit * draws[1], limit)
        self._note("slow-request", request, f"{late:.3f} ")
        await asyncio.sleep(late)
        await self._held()
        if late == limit:
            raise RequestTimeout(f"{request}: not sent (simulated)")
        return limit - late

    async def _at_server(self, request: Request) -> Response:
        before = AT_SERVER.set(True)
        try:
            return await self._inner.send(request)
        finally:
            AT_SERVER.reset(before)

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Stream]:
        await self._way()
        what = f"{self.name} {request}"
        if self._chance.random() < self.faults.refused or self._is_blind:
            raise self._fault("refused", Unreachable(f"{request}: refused (simulated)"), request)
        async with self._inner.open(request) as stream:
            self._trace.add("watch", f"{what} {request.query.get('resourceVersion', '')} {stream.status}")
            yield _Stream(stream, self, request)

    def connect(
        self, request: Request, protocols: Sequence[str], *, limit: int
    ) -> AbstractAsyncContextManager[WebSocket]:
        return self._inner.connect(request, protocols, limit=limit)

    async def close(self) -> None:
        await self._inner.close()

    async def frame(self, request: Request) -> None:
        """Wait as long as the next frame takes. Raises ConnectionLost."""
        faults, draws = self.faults, [self._chance.random() for _ in range(3)]
        if draws[0] < faults.cut_watch or self._is_blind:
            raise self._fault("cut", ConnectionLost(f"{request}: cut (simulated)"), request)
        late = faults.latency * (0.2 + 1.6 * draws[2])
        if draws[1] < faults.slow_frame:
            late += faults.slow_seconds * draws[2]
            self._note("slow", request, f"{late:.3f} ")
        await asyncio.sleep(late)
        await self._held()

    async def _way(self) -> None:
        await asyncio.sleep(self.faults.latency * (0.2 + 1.6 * self._chance.random()))
        await self._held()

    async def _held(self) -> None:
        loop = asyncio.get_running_loop()
        while (left := self._paused_until - loop.time()) > 0:  # noqa: ASYNC110 - it may be paused for longer meanwhile
            await asyncio.sleep(left)
        self._alive()

    @property
    def _is_blind(self) -> bool:
        return asyncio.get_running_loop().time() < self._blind_until

    def _alive(self) -> None:
        if self._down:
            raise Unreachable(f"{self.name} is dead (simulated)")

    def _fault(self, kind: str, error: Exception, request: Request) -> Exception:
        self._note(kind, request)
        return error

    def _note(self, kind: str, request: Request, more: str = "") -> None:
        self._trace.add("fault", f"{kind} {more}{self.name} {request}")
        called(self._hooks.fault, kind, request.path)


class _Stream:
    def __init__(self, inner: Stream, network: Network, request: Request) -> None:
        self._inner, self._network, self._request = inner, network, request

    @property
    def status(self) -> int:
        return self._inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._inner.headers

    async def read(self) -> bytes:
        return await self._inner.read()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._inner.chunks()) as chunks:
            async for chunk in chunks:
                await self._network.frame(self._request)
                yield chunk


def _shown(request: Request) -> bytes:
    """The body for the digest. Keys in Secrets are chance by design, so theirs does not count."""
    return b"" if "/secrets" in request.path else request.body or b""


def _status(code: int, reason: str, headers: Mapping[str, str]) -> Response:
    status = {"apiVersion": "v1", "kind": "Status", "status": "Failure"}
    body = {**status, "reason": reason, "code": code, "message": f"{reason} (simulated)"}
    return Response(code, {"content-type": "application/json", **headers}, msgspec.json.encode(body))


class SimulatedElector:
    """One candidate for a Lease; an Elector of the manager. Whoever makes it runs `run`.

    `drift`: by how much the clock of the process is fast; 1.0: it is right.
    """

    def __init__(
        self,
        transport: Transport,
        surroundings: SimulatedSurroundings,
        lease: str,
        namespace: str = "default",
        *,
        drift: float = 1.0,
    ) -> None:
        loop, timing = asyncio.get_running_loop(), Timing()

        def clock() -> float:
            return loop.time() * drift

        self.permission = Fence(timing, clock)
        client = Client(transport, user_agent=f"{surroundings.name} leader-election", timeout=timing.request)
        self._candidate = Candidate(
            LeaseLock(client, lease, namespace),
            surroundings.name,
            self.permission,
            timing=timing,
            clock=clock,
            now=surroundings.now,
            chance=surroundings.random().random,
        )
        self._lease = f"{namespace}/{lease}"
        self._elected, self._left, self._ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._reason = "this replica left the election"

    @property
    def leads(self) -> bool:
        return self.permission.open

    def watch_loop(self, silence: Callable[[], float]) -> None:
        """The loop of a simulation is never late."""

    async def run(self) -> None:
        """Stand for election, hold the lease, and lose or leave it."""
        try:
            async with TaskScope("election") as tasks:
                await tasks.first(tasks.start("election/life", self._live()), self._left)
        finally:
            self.permission.revoke()
            self._ended.set()

    async def _live(self) -> None:
        await self._candidate.acquire()
        self._elected.set()
        self._reason = await self._candidate.hold()

    async def wait_elected(self) -> None:
        await self._elected.wait()

    async def wait_lost(self) -> str:
        """Wait until it leads no more; returns the reason."""
        await self._ended.wait()
        return self._reason

    async def close(self, *, release: bool) -> None:
        self._left.set()
        await self._ended.wait()
        if release:
            await self._candidate.release()

    def unready(self) -> str | None:
        return None

    def statistics(self) -> ElectionStatistics:
        candidate = self._candidate
        return ElectionStatistics(self._lease, candidate.identity, self.leads, candidate.holder, 0, None, 0, "")
