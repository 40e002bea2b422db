# SPDX-License-Identifier: Apache-2.0
"""A dashboard in this process, and a browser that knows only what a page knows: the address, and the cookie."""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
import msgspec
from yarl import URL

from trainwright.api.objects import Document
from trainwright.controller.dashboard import contract, curves
from trainwright.controller.dashboard.keys import KeptKeys
from trainwright.controller.dashboard.server import Server
from trainwright.controller.dashboard.service import DashboardService
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.client.transport import Request, Response, Stream, Transport
from trainwright.controller.runtime.errors import Unreachable
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.views.reports import KeptReports
from trainwright.controller.views.watch import OutputOf

A = TypeVar("A", bound=msgspec.Struct)
KINDS: dict[str, type[contract.PageAnswer]] = {
    "snapshot": contract.JobList,
    "rows": contract.Rows,
    "connection": contract.Connection,
    "heartbeat": contract.Heartbeat,
    "bye": contract.Heartbeat,
    "job": contract.Job,
    "points": curves.Points,
    "gone": contract.JobGone,
}


@dataclass(slots=True)
class Got:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def as_(self, kind: type[A]) -> A:
        return msgspec.json.decode(self.body, type=kind)

    @property
    def problem(self) -> contract.PageProblem:
        found = self.as_(contract.PageProblem)
        assert found.code == self.status
        return found


class Events:
    """A stream that is being read."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer

    async def next(self, *names: str, seconds: float = 60.0) -> tuple[str, Any]:
        """The next event of one of these names; the others are passed over."""
        async with asyncio.timeout(seconds):
            while True:
                name, data = await self._event()
                if not names or name in names:
                    return name, data

    async def until(self, name: str, is_right: Callable[[Any], bool]) -> Any:
        """The data of the first event of this name that is right."""
        while True:
            _, data = await self.next(name)
            if is_right(data):
                return data

    async def _event(self) -> tuple[str, Any]:
        fields: dict[str, str] = {}
        while True:
            # Not readline: a snapshot is longer than the limit of a line.
            line = (await self.answer.content.readuntil(b"\n")).decode().rstrip("\n")
            if not line and "event" in fields:
                return fields["event"], msgspec.json.decode(fields["data"], type=KINDS[fields["event"]])
            name, _, value = line.partition(": ")
            fields[name] = value


class Browser:
    """Opens pages of one dashboard."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.root = f"http://127.0.0.1:{server.port}"
        self.place = ""
        """The path of the page, which only who has brought the token is told."""
        # The jar does not keep cookies of addresses by default.
        self._session = aiohttp.ClientSession(
            cookie_jar=aiohttp.CookieJar(unsafe=True), read_bufsize=2**23, max_line_size=2**23
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def enter(self) -> Got:
        """Bring the token."""
        got = await self.get(self.server.address.removeprefix(self.root))
        self.place = got.headers.get("Location", "").rstrip("/")
        return got

    async def get(self, path: str, *, method: str = "GET", **headers: str) -> Got:
        """Ask; `_` in names of headers stands for `-`. Redirects are not followed."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        url = URL(self._address(path), encoded=True)  # as it is: two dots stay two dots
        async with self._session.request(method, url, headers=named, allow_redirects=False) as answer:
            return Got(answer.status, answer.headers, await answer.read())

    def _address(self, path: str) -> str:
        return self.root + ("" if path.startswith(("/?token=", "/proof")) else self.place) + path

    async def act(self, path: str, **headers: str) -> Got:
        """Ask for a change, as the page does; `headers` replace those of the page."""
        session = (await self.get("/api/v1/session")).as_(contract.PageSession)
        given = {"Origin": self.root, "X_Trainwright_Action": session.action_token, **headers}
        return await self.get(path, method="POST", **{name: value for name, value in given.items() if value})

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[Events]:
        async with self._session.get(self._address(path)) as answer:
            assert answer.status == 200
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            yield Events(answer)

    @asynccontextmanager
    async def raw(self, path: str) -> AsyncIterator[aiohttp.ClientResponse]:
        async with self._session.get(self._address(path)) as answer:
            yield answer

    @contextmanager
    def unread(self, path: str) -> Iterator[None]:
        """Ask, and read nothing of the answer."""
        cookies = self._session.cookie_jar.filter_cookies(URL(self._address("/")))
        cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in cookies.items())
        head = f"GET {self.place}{path} HTTP/1.1\r\nHost: 127.0.0.1:{self.server.port}\r\nCookie: {cookie}\r\n\r\n"
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", self.server.port))
            client.sendall(head.encode())
            yield


@dataclass(slots=True)
class Faulty:
    """A transport whose server can be lost, and whose user lacks rights."""

    inner: Transport | None = None
    lost: bool = False
    forbidden: set[str] = field(default_factory=set)
    """Last parts of paths, such as `log` or `pods`."""
    refused: bool = False
    """The credentials have expired."""
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    """Set: the server answers requests. Else it takes them and is silent; streams that are open go on."""
    unwatchable: bool = False
    """The user may list, and not watch."""
    asked: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.answers.set()

    async def send(self, request: Request) -> Response:
        self.asked.append(request)
        await self.answers.wait()
        return self._fault(request) or await self._inner.send(request)

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Stream]:
        self.asked.append(request)
        fault = self._fault(request)
        if fault is not None:
            yield _Refusal(fault)
            return
        async with self._inner.open(request) as stream:
            yield _Breakable(stream, self)

    def connect(self, request: Request, protocols: Sequence[str], *, limit: int) -> Any:
        self.asked.append(request)
        return self._inner.connect(request, protocols, limit=limit)

    async def close(self) -> None:
        if self.inner is not None:
            await self.inner.close()

    @property
    def _inner(self) -> Transport:
        assert self.inner is not None
        return self.inner

    def _fault(self, request: Request) -> Response | None:
        if self.lost:
            raise Unreachable(f"{request}: connection refused")
        if self.refused:
            return _status(401, "Unauthorized", "Unauthorized")
        parts = request.path.split("/")
        if self.unwatchable and "watch" in request.query:
            return _status(403, "Forbidden", f'{parts[-1]} is forbidden: User "eve" cannot watch resource')
        if self.forbidden & set(parts[-2:]):
            return _status(403, "Forbidden", f'{parts[-1]} is forbidden: User "eve" cannot do that')
        return None


class _Refusal:
    def __init__(self, answer: Response) -> None:
        self._answer = answer
        self.status, self.headers = answer.status, answer.headers

    async def read(self) -> bytes:
        return self._answer.body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield self._answer.body


class _Breakable:
    """A stream that breaks when the server is lost."""

    def __init__(self, stream: Stream, transport: Faulty) -> None:
        self._stream, self._transport = stream, transport
        self.status, self.headers = stream.status, stream.headers

    async def read(self) -> bytes:
        return await self._stream.read()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._stream.chunks()) as chunks:
            while True:
                reading = asyncio.ensure_future(anext(chunks, b""))
                try:
                    while not reading.done():
                        await asyncio.wait({reading}, timeout=0.02)
                        if self._transport.lost:
                            raise Unreachable("the connection broke")
                finally:
                    reading.cancel()
                    await asyncio.wait({reading})
                if not reading.result():
                    return
                yield reading.result()


def _status(code: int, reason: str, message: str) -> Response:
    body: Document = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return Response(code, {"content-type": "application/json"}, msgspec.json.encode(body))


@asynccontextmanager
async def dashboard(
    transport: Transport,
    namespace: str = "",
    *,
    files: dict[str, Path] | None = None,
    context: str = "test",
    kept: KeptKeys | None = None,
    reports: KeptReports | None = None,
    output_of: OutputOf | None = None,
    changes: bool = False,
) -> AsyncIterator[tuple[Browser, DashboardService]]:
    """Serve the jobs of a namespace for the length of the block; yields a browser that has brought the token."""
    client = Client(transport, user_agent="trainwright-dashboard")
    cluster = contract.Cluster(context=context, server="https://test", namespace=namespace)
    site = DashboardService(
        client,
        cluster,
        reports=reports,
        output_of=output_of,
        changes=changes,
    )
    server = Server(site, files=files, kept=kept)
    ready = asyncio.Event()
    async with TaskScope("test dashboard") as tasks:
        tasks.start("test dashboard/server", server.run(ready.set))
        await ready.wait()
        async with Browser(server) as browser:
            await browser.enter()
            yield browser, site
