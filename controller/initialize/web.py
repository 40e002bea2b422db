# SPDX-License-Identifier: Apache-2.0
"""Requests of the providers: redirects, proxies, time limits, and what answers mean. Only here aiohttp is imported."""

import contextlib
import email.utils
import ipaddress
import time
import urllib.request
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import TypeAlias
from urllib.parse import urljoin, urlsplit

import aiohttp
from yarl import URL

import trainwright
from trainwright.controller.initialize.contract import InitializeError, RemoteFile

CONNECT_SECONDS = 10.0
IDLE_SECONDS = 30.0
"""Without a byte."""
READ_BLOCK = 2**18
_REDIRECTS = 10

Answer: TypeAlias = aiohttp.ClientResponse


class Web:
    """A pool of connections. The authorization goes to its own origin and to no other one."""

    def __init__(
        self, origin: str, *, connections: int, authorization: str = "", plain: bool = False, idle: float = IDLE_SECONDS
    ) -> None:
        """`plain` allows redirects to http of any host, for mirrors that have no certificate themselves."""
        self._origin = origin_of(origin)
        self._connections = connections
        self._authorization = authorization
        self._plain = plain
        self._idle = idle
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    @contextlib.asynccontextmanager
    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> AsyncGenerator[Answer, None]:
        """The answer after redirects, whatever its status. Raises InitializeError if there is none."""
        for _ in range(_REDIRECTS):
            self._check(url)
            host = urlsplit(url).hostname or ""
            with _failures(host):
                answer = await self._send(url, headers or {})
            target = answer.headers.get("Location", "")
            if answer.status in (301, 302, 303, 307, 308) and target:
                answer.release()
                url = urljoin(url, target)
                continue
            try:
                yield answer
            finally:
                # Not read to its end: closing is cheaper than reading the rest.
                answer.close() if not answer.content.at_eof() else answer.release()
            return
        raise InitializeError("ServerError", f"{urlsplit(url).hostname} redirects in a circle")

    async def pieces(self, answer: Answer) -> AsyncGenerator[bytes, None]:
        """The body in pieces. Raises InitializeError if it breaks off."""
        with _failures(answer.url.host or ""):
            async for piece in answer.content.iter_chunked(READ_BLOCK):
                yield piece

    async def range(self, url: str, file: RemoteFile, offset: int, answer: Answer) -> AsyncGenerator[bytes, None]:
        """The body of an answer to a request for the bytes from `offset` on, also if the server sends all of them."""
        skip = offset
        if answer.status == 206:
            first, total = content_range(answer.headers.get("Content-Range", ""))
            if first != offset or total not in (None, file.size):
                raise InitializeError(
                    "Damaged", f"{file.path}: {urlsplit(url).hostname} sent another range than asked for"
                )
            skip = 0
        async with contextlib.aclosing(self.pieces(answer)) as pieces:
            async for piece in pieces:
                if skip >= len(piece):
                    skip -= len(piece)
                    continue
                yield piece[skip:] if skip else piece
                skip = 0

    async def text(self, answer: Answer, limit: int) -> bytes:
        """A body of at most `limit` bytes."""
        data = bytearray()
        async with contextlib.aclosing(self.pieces(answer)) as pieces:
            async for piece in pieces:
                data += piece
                if len(data) > limit:
                    raise InitializeError("ServerError", f"{answer.url.host} answers with more than {limit} bytes")
        return bytes(data)

    async def _send(self, url: str, headers: Mapping[str, str]) -> Answer:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=self._idle),
                auto_decompress=False,
                headers={"User-Agent": f"trainwright/{trainwright.__version__}", "Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        own = {"Authorization": self._authorization} if self._authorization and origin_of(url) == self._origin else {}
        return await self._session.get(
            URL(url, encoded=True), headers={**headers, **own}, allow_redirects=False, proxy=_proxy_of(url)
        )

    def _check(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme == "https" or (parts.scheme == "http" and (self._plain or is_loopback(parts.hostname or ""))):
            return
        raise InitializeError("WrongAddress", f"{parts.scheme}://{parts.hostname} is refused: only https is safe there")


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"https": 443, "http": 80}.get(parts.scheme)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def content_range(text: str) -> tuple[int | None, int | None]:
    """The first byte and the whole size of a Content-Range header; None for what it does not say."""
    span, _, total = text.removeprefix("bytes ").partition("/")
    first = span.partition("-")[0]
    return (int(first) if first.isdecimal() else None), (int(total) if total.isdecimal() else None)


def refused(answer: Answer, what: str) -> InitializeError:
    """What a status says that every server means alike."""
    status, host = answer.status, answer.url.host
    after = retry_after(answer.headers.get("Retry-After"))
    if status in (408, 429):
        return InitializeError(
            "TooManyRequests", f"{host} answers {status}: too many requests", retry=True, after=after
        )
    if status >= 500:
        return InitializeError("ServerError", f"{host} answers {status} for {what}", retry=True, after=after)
    if status in (401, 403):
        return InitializeError("AccessNotGranted", f"{host} answers {status} for {what}: it asks for other rights")
    if status == 416:
        return InitializeError("Damaged", f"{host} has fewer bytes of {what} than it listed")
    if status in (404, 410):
        return InitializeError("NotFound", f"{host} has no {what} (status {status})")
    return InitializeError("ServerError", f"{host} answers {status} for {what}")


def retry_after(value: str | None) -> float | None:
    """A Retry-After header in seconds; None: there is none, or it is not understood."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


@contextlib.contextmanager
def _failures(host: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise InitializeError("Unreachable", f"{host} sends nothing within the time limit", retry=True) from None
    except aiohttp.ClientConnectorCertificateError as error:
        raise InitializeError(
            "Unreachable", f"the certificate of {host} is not trusted ({error.certificate_error}): set SSL_CERT_FILE"
        ) from None
    except aiohttp.ClientConnectorDNSError:
        raise InitializeError("Unreachable", f"{host} does not answer (name not found)", retry=True) from None
    except aiohttp.ClientConnectorError as error:
        raise InitializeError(
            "Unreachable", f"{host} does not answer ({error.os_error.strerror})", retry=True
        ) from None
    except (aiohttp.ClientError, ConnectionError) as error:
        reason = type(error).__name__
        raise InitializeError("Unreachable", f"{host} broke the connection off ({reason})", retry=True) from None


def _proxy_of(url: str) -> str | None:
    """The proxy of the usual variables. Not by aiohttp's trust_env: it would send passwords of ~/.netrc as well."""
    parts = urlsplit(url)
    host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or ""
    return None if urllib.request.proxy_bypass(host) else urllib.request.getproxies().get(parts.scheme)
