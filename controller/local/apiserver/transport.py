# SPDX-License-Identifier: Apache-2.0
"""The client's transport to an API server in the same process: bytes in, bytes out, no socket.

Requests pass the same authentication, admission and validation as those that come over HTTPS, and no object is shared.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import unquote

from trainwright.controller.local.apiserver.requests import Answer, ServerRequest
from trainwright.controller.local.apiserver.server import APIServer
from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.errors import RequestTimeout


class InProcessTransport:
    """Sends requests to a server object, as the user of a token."""

    def __init__(self, server: APIServer, token: str) -> None:
        self._server = server
        self._token = token
        self._streams: set[InProcessStream] = set()

    async def send(self, request: Request) -> Response:
        """One exchange; see Transport."""
        answer = await self._answer(request)
        body = answer.body
        if answer.stream is not None:
            body = b"".join([chunk async for chunk in answer.stream])
        return Response(answer.status, _headers(answer), body, tuple(answer.warnings))

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator["InProcessStream"]:
        """One stream; see Transport."""
        stream = InProcessStream(await self._answer(request))
        self._streams.add(stream)
        try:
            yield stream
        finally:
            self._streams.discard(stream)
            await stream.close()

    async def close(self) -> None:
        """End all streams."""
        for stream in list(self._streams):
            await stream.close()

    async def _answer(self, request: Request) -> Answer:
        if request.permission is not None:
            request.permission.remaining()
        headers = {name.lower(): value for name, value in request.headers.items()}
        headers["authorization"] = f"Bearer {self._token}"
        asked = ServerRequest(
            method=request.method,
            path=unquote(request.path),
            query=list(request.query.items()),
            headers=headers,
            body=request.body or b"",
        )
        try:
            async with asyncio.timeout(request.timeout):
                return await self._server.handle(asked)
        except TimeoutError as error:
            raise RequestTimeout(f"{request}: no answer within {request.timeout:g} s") from error


class InProcessStream:
    """An answer whose body arrives over time."""

    def __init__(self, answer: Answer) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = _headers(answer)
        self._answer = answer
        self._closed = asyncio.Event()

    async def read(self) -> bytes:
        """The rest of the body."""
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
        """End the stream, and what makes it."""
        stream = self._answer.stream
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


def _headers(answer: Answer) -> Mapping[str, str]:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    headers["content-type"] = answer.content_type
    return headers
