# SPDX-License-Identifier: Apache-2.0
"""The client's transport to an API server in the same process: bytes in, bytes out, no socket.

Requests pass the same authentication, admission and validation as those that come over HTTPS, and no object is shared.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from urllib.parse import unquote

from trainwright.controller.local.apiserver.http.server import APIServer
from trainwright.controller.local.apiserver.request.info import Query, ServerRequest, ServerResponse, Upgrade
from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.errors import OutputTooLarge, RequestTimeout
from trainwright.controller.runtime.tasks import TaskScope

_MESSAGES = 16
"""Messages that a websocket holds in each direction before its writer waits."""
_Queue = asyncio.Queue[bytes | None]


class InProcessTransport:
    """Sends requests to a server object, as the user of a token."""

    def __init__(self, server: APIServer, token: str) -> None:
        self._server = server
        self._token = token
        self._streams: set[InProcessStream] = set()

    async def send(self, request: Request) -> Response:
        answer = await self._answer(request)
        body = answer.body
        if answer.stream is not None:
            body = b"".join([chunk async for chunk in answer.stream])
        return Response(answer.status, _headers(answer), body, tuple(answer.warnings))

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator["InProcessStream"]:
        stream = InProcessStream(await self._answer(request))
        self._streams.add(stream)
        try:
            yield stream
        finally:
            self._streams.discard(stream)
            await stream.close()

    @asynccontextmanager
    async def connect(
        self, request: Request, protocols: Sequence[str], *, limit: int
    ) -> AsyncIterator["InProcessSocket"]:
        headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Protocol": ",".join(protocols)}
        answer = await self._answer(request, headers)
        if answer.upgrade is None:
            yield InProcessSocket(request, "", limit, Response(answer.status, _headers(answer), answer.body))
            return
        protocol = next((one for one in answer.upgrade.protocols if one in protocols), "")
        socket = InProcessSocket(request, protocol, limit, None)
        async with TaskScope("websocket") as tasks:
            tasks.start(f"websocket {request}", socket.serve(answer.upgrade))
            yield socket

    async def close(self) -> None:
        for stream in list(self._streams):
            await stream.close()

    async def _answer(self, request: Request, further: Mapping[str, str] = MappingProxyType({})) -> ServerResponse:
        headers = {name.lower(): value for name, value in (*request.headers.items(), *further.items())}
        headers["authorization"] = f"Bearer {self._token}"
        asked = ServerRequest(
            method=request.method,
            path=unquote(request.path),
            query=_query(request),
            headers=headers,
            impersonation=[header for header in headers.items() if header[0].startswith("impersonate-")],
            body=request.body or b"",
        )
        try:
            async with asyncio.timeout(request.timeout):
                await self._server.priority.wait_for_clients(request.method)
                # Asked after the wait, in which it may have been lost.
                if request.permission is not None:
                    request.permission.remaining()
                return await self._server.handle(asked)
        except TimeoutError as error:
            raise RequestTimeout(f"{request}: no answer within {request.timeout:g} s") from error


class InProcessStream:
    def __init__(self, answer: ServerResponse) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = _headers(answer)
        self._answer = answer

    async def read(self) -> bytes:
        if self._answer.stream is None:
            return self._answer.body
        return b"".join([chunk async for chunk in self._answer.stream])

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body, frame by frame."""
        if self._answer.stream is None:
            yield self._answer.body
            return
        async for chunk in self._answer.stream:
            yield chunk

    async def close(self) -> None:
        stream = self._answer.stream
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


class _Messages:
    """One end of two queues of messages."""

    def __init__(self, protocol: str, incoming: _Queue, outgoing: _Queue) -> None:
        self.protocol = protocol
        self._incoming, self._outgoing = incoming, outgoing

    async def receive(self) -> bytes | None:
        return await self._incoming.get()

    async def send(self, message: bytes) -> None:
        await self._outgoing.put(message)


class InProcessSocket(_Messages):
    """A websocket without a socket; the API server has the other end as its `ServerWebSocket`."""

    def __init__(self, request: Request, protocol: str, limit: int, refusal: Response | None) -> None:
        # As a socket, so that a process that writes faster than the client reads has to wait.
        super().__init__(protocol, asyncio.Queue(_MESSAGES), asyncio.Queue(_MESSAGES))
        self.refusal = refusal
        self._request, self._limit = request, limit

    async def receive(self) -> bytes | None:
        message = await super().receive()
        if message is not None and len(message) > self._limit:
            raise OutputTooLarge(f"{self._request}: a message of {len(message)} bytes exceeds {self._limit}")
        return message

    async def serve(self, upgrade: Upgrade) -> None:
        """Let the API server speak, until it closes the connection or the client leaves."""
        await upgrade.serve(_Messages(self.protocol, self._outgoing, self._incoming))
        await self._incoming.put(None)


def _query(request: Request) -> Query:
    return [
        (name, one) for name, value in request.query.items() for one in ((value,) if isinstance(value, str) else value)
    ]


def _headers(answer: ServerResponse) -> Mapping[str, str]:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    headers["content-type"] = answer.content_type
    return headers
