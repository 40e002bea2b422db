# SPDX-License-Identifier: Apache-2.0
"""HTTPS in front of the API server, on the loopback interface. The only module here that imports the HTTP library."""

import hashlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from aiohttp import WSMsgType, web

from trainwright.controller.local.apiserver.errors import too_large
from trainwright.controller.local.apiserver.http.server import APIServer
from trainwright.controller.local.apiserver.request.bodies import LIMIT
from trainwright.controller.local.apiserver.request.info import ServerRequest, ServerResponse, Upgrade, User, failure
from trainwright.controller.runtime.servers.http import listening

HOST = "127.0.0.1"
"""The only address that is listened on: whoever reaches the server can start processes."""
_KEEPALIVE_SECONDS = 90.0
_SHUTDOWN_SECONDS = 2.0
_HEARTBEAT_SECONDS = 30.0
"""How often the client of a websocket is pinged, so that one that went away is noticed."""


@asynccontextmanager
async def served(server: APIServer, tls: ssl.SSLContext, port: int = 0) -> AsyncIterator[int]:
    """Serve for the length of the block; yields the port.

    Args:
        server: answers the requests.
        tls: certificate and key.
        port: to listen on; 0 for a free one.

    Raises:
        ConfigurationError: the port cannot be used.
    """
    application = web.Application(client_max_size=LIMIT + 1)
    application.router.add_route("*", "/{path:.*}", partial(_answer, server))
    runner = web.AppRunner(
        application,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=_SHUTDOWN_SECONDS,
        keepalive_timeout=_KEEPALIVE_SECONDS,
        auto_decompress=False,  # as kube-apiserver, which reads a body as it is
    )
    async with listening("API server", runner, HOST, port, tls=tls) as used:
        yield used


async def _answer(server: APIServer, request: web.Request) -> web.StreamResponse:
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge:
        return _whole(failure(too_large(f"limit is {LIMIT}")))
    headers = [(name.lower(), _text(value)) for name, value in request.headers.items()]
    asked = ServerRequest(
        method=request.method,
        path=_text(request.path),
        query=[(_text(name), _text(value)) for name, value in request.query.items()],
        headers=dict(headers),
        impersonation=[header for header in headers if header[0].startswith("impersonate-")],
        body=body,
        client_certificate_user=_client_certificate_user(request),
    )
    with server.priority.client_request(request.method):
        answer = await server.handle(asked)
    if answer.upgrade is not None:
        return await upgraded(request, answer.upgrade)
    if answer.stream is None:
        return _whole(answer)
    response = web.StreamResponse(status=answer.status, headers=_headers(answer))
    response.content_type = answer.content_type
    response.enable_chunked_encoding()
    await response.prepare(request)
    try:
        with suppress(ConnectionError):
            async for chunk in answer.stream:
                await response.write(chunk)
    finally:
        if isinstance(answer.stream, AsyncGenerator):
            await answer.stream.aclose()
    return response


def _text(sent: str) -> str:
    """What was sent, without the surrogates that stand for bytes that are not UTF-8: no answer could quote them."""
    return sent if sent.isascii() else sent.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _client_certificate_user(request: web.Request) -> User | None:
    """The user of the client's certificate, which TLS has verified: its common name, its organizations as groups.

    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates
    """
    connection = request.get_extra_info("ssl_object")
    if connection is None:
        return None
    subject = (connection.getpeercert() or {}).get("subject", ())
    pairs = [pair for part in subject for pair in part]
    name = next((value for field, value in pairs if field == "commonName"), "")
    if not name:
        return None
    groups = tuple(value for field, value in pairs if field == "organizationName")
    digest = hashlib.sha256(connection.getpeercert(binary_form=True)).hexdigest()
    return User(name, groups, extra={"authentication.kubernetes.io/credential-id": (f"X509SHA256={digest}",)})


async def upgraded(request: web.Request, upgrade: Upgrade) -> web.StreamResponse:
    """Make a connection a websocket, and speak over it until its end."""
    response = web.WebSocketResponse(protocols=upgrade.protocols, heartbeat=_HEARTBEAT_SECONDS, compress=False)
    await response.prepare(request)
    with suppress(ConnectionError):
        await upgrade.serve(_Socket(response))
        await response.close()
    return response


class _Socket:
    def __init__(self, response: web.WebSocketResponse) -> None:
        self._response = response

    @property
    def protocol(self) -> str:
        return self._response.ws_protocol or ""

    async def receive(self) -> bytes | None:
        message = await self._response.receive()
        if message.type == WSMsgType.BINARY:
            data: bytes = message.data
            return data
        return message.data.encode() if message.type == WSMsgType.TEXT else None

    async def send(self, message: bytes) -> None:
        await self._response.send_bytes(message)


def _whole(answer: ServerResponse) -> web.Response:
    headers = _headers(answer)
    if answer.content_type:
        headers["Content-Type"] = answer.content_type
    response = web.Response(status=answer.status, body=answer.body, headers=headers)
    for text in answer.warnings:
        response.headers.add("Warning", f'299 - "{_escaped(text)}"')
    return response


def _headers(answer: ServerResponse) -> dict[str, str]:
    return {"Cache-Control": "no-cache, private", **answer.headers}


def _escaped(text: str) -> str:
    """A warning as a quoted string (RFC 7234, 5.5), without what cannot be in a header."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')
