# SPDX-License-Identifier: Apache-2.0
"""Asks a webhook, over HTTPS or in this process. One of the modules that import the HTTP library."""

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

import aiohttp

from trainwright.api.objects import Document

LIMIT = 8 * 2**20
"""Bytes of an answer. A longer one is an error: half a patch must not be applied."""
Answerer: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]
"""Answers a review: the path and the body in, the body out."""


class CallError(Exception):
    """A webhook was not reached, or did not answer as it should."""


class Caller(Protocol):
    """Sends a review."""

    async def send(self, configuration: Document, body: bytes, seconds: float) -> bytes:
        """The answer's body. Raises CallError, and TimeoutError for a webhook of this process.

        Args:
            configuration: `clientConfig` of the webhook.
            body: the review.
            seconds: how long to wait at most.
        """
        ...


class WebhookCaller:
    """Asks webhooks by URL. Those of this process are asked without a socket (`answer_here`)."""

    def __init__(self) -> None:
        self._here: dict[str, Answerer] = {}
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    def answer_here(self, origin: str, answerer: Answerer) -> None:
        """Ask a function about everything below `https://HOST:PORT`."""
        self._here[origin.rstrip("/")] = answerer

    async def send(self, configuration: Document, body: bytes, seconds: float) -> bytes:
        """See Caller."""
        url = configuration.get("url")
        if not url:
            raise CallError(
                "clientConfig.service cannot be reached from a local cluster; "
                "set clientConfig.url to where the webhook listens"
            )
        parts = urlsplit(url)
        here = self._here.get(f"{parts.scheme}://{parts.netloc}")
        if here is not None:
            async with asyncio.timeout(seconds):
                return await here(parts.path, body)
        return await self._post(configuration, url, body, seconds)

    async def _post(self, configuration: Document, url: str, body: bytes, seconds: float) -> bytes:
        bundle = configuration.get("caBundle") or ""
        asked = f"{url}{'&' if '?' in url else '?'}timeout={seconds:g}s"
        try:
            async with self._session(bundle).post(
                asked,
                data=body,
                headers={"Content-Type": "application/json", "Accept": "application/json, */*"},
                timeout=aiohttp.ClientTimeout(total=seconds),
                allow_redirects=False,
            ) as answer:
                content = await _whole(answer)
                if answer.status != 200:
                    raise CallError(
                        f'an error on the server ("{content[:200].decode(errors="replace").strip()}") '
                        "has prevented the request from succeeding"
                    )
                if not content:
                    kind = answer.headers.get("Content-Type", "")
                    raise CallError(f"0-length response with status code: {answer.status} and content type: {kind}")
                return content
        except TimeoutError as error:
            raise CallError(f'Post "{asked}": context deadline exceeded') from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise CallError(f'Post "{asked}": {_reason(error)}') from error

    def _session(self, bundle: str) -> aiohttp.ClientSession:
        session = self._sessions.get(bundle)
        if session is None:
            context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode() if bundle else None)
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as real API servers, which are written in Go
            connector = aiohttp.TCPConnector(limit=0, ssl=context, keepalive_timeout=30)
            session = self._sessions[bundle] = aiohttp.ClientSession(connector=connector)
        return session

    async def close(self) -> None:
        """Close all connections."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    """The body up to its end, however it arrives. Raises ValueError for one over the limit."""
    parts: list[bytes] = []
    size = 0
    async for part in answer.content.iter_any():
        size += len(part)
        if size > LIMIT:
            raise ValueError(f"the answer is longer than {LIMIT} bytes")
        parts.append(part)
    return b"".join(parts)


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        return f"dial tcp {error.host}:{error.port}: connect: connection refused"
    return str(error) or type(error).__name__
