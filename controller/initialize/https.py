# SPDX-License-Identifier: Apache-2.0
"""`https://host/file#sha256=HEX`: one file. Plain http is for this machine only."""

import base64
import contextlib
import re
from collections.abc import AsyncGenerator, Sequence
from typing import ClassVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from trainwright.controller.initialize.contract import Digest, InitializeError, ProviderRequest, RemoteFile
from trainwright.controller.initialize.web import Web, content_range, is_loopback, refused

_SAFE = "/%:@!$&'()*+,;=~"


class OneFile:
    """Reads one file of a web server."""

    variables: ClassVar[Sequence[str]] = ()
    secrets: ClassVar[Sequence[str]] = ()

    def __init__(self, request: ProviderRequest) -> None:
        try:
            parts = urlsplit(request.address)
            host, port = parts.hostname or "", parts.port
        except ValueError as error:
            raise InitializeError("WrongAddress", f"{request.address} is not an address: {error}") from None
        self._name = unquote(parts.path).rpartition("/")[2]
        if not host or not self._name:
            raise InitializeError("WrongAddress", f"{request.address} names no file: write https://host/path/file")
        if parts.scheme.lower() == "http" and not is_loopback(host):
            raise InitializeError(
                "WrongAddress", f"http://{host} is refused: use https, since a file over http may be changed on the way"
            )
        self._digest = _digest_of(parts.fragment)
        if self._digest is None:
            request.warn(f"the content of {self._name} is not checked: add #sha256=HEX to the address")
        place = f"[{host}]" if ":" in host else host.encode("idna").decode() if not host.isascii() else host
        place = f"{place}:{port}" if port else place
        scheme, path = parts.scheme.lower(), quote(parts.path, safe=_SAFE)
        self._url = urlunsplit((scheme, place, path, quote(parts.query, safe=f"{_SAFE}?"), ""))
        self.source = urlunsplit((scheme, place, path, "", f"sha256={self._digest.hex}" if self._digest else ""))
        self.allow: Sequence[str] = ()
        self._web = Web(
            self._url, connections=request.connections, authorization=_basic(parts.username, parts.password)
        )

    async def resolve(self) -> str:
        """A file has no revision; its hash or its etag tells a change."""
        return ""

    async def files(self, revision: str) -> Sequence[RemoteFile]:  # noqa: ARG002 - there is one
        """The file, with its size. One byte is asked for, since signed addresses often refuse HEAD."""
        async with self._web.get(self._url, {"Range": "bytes=0-0"}) as answer:
            if answer.status == 206:
                size = content_range(answer.headers.get("Content-Range", ""))[1]
            elif answer.status == 200:
                size = answer.content_length
            elif answer.status == 416 and answer.headers.get("Content-Range", "").endswith("/0"):
                size = 0
            else:
                raise refused(answer, self._name)
            if size is None:
                raise InitializeError("ServerError", f"{answer.url.host} does not say how large {self._name} is")
            return [RemoteFile(self._name, size, self._digest, _strong(answer.headers.get("ETag", "")))]

    async def read(self, file: RemoteFile, revision: str, offset: int) -> AsyncGenerator[bytes, None]:  # noqa: ARG002
        """The bytes of the file; refuses another version than the listed one."""
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        if offset and file.etag:
            headers["If-Range"] = file.etag
        async with self._web.get(self._url, headers) as answer:
            if answer.status not in (200, 206):
                raise refused(answer, self._name)
            if file.etag and _strong(answer.headers.get("ETag", "")) not in ("", file.etag):
                raise InitializeError("Damaged", f"{file.path} was changed on {answer.url.host} in the meantime")
            async with contextlib.aclosing(self._web.range(self._url, file, offset, answer)) as pieces:
                async for piece in pieces:
                    yield piece

    async def close(self) -> None:
        """Close the connections."""
        await self._web.close()


def _digest_of(fragment: str) -> Digest | None:
    if not fragment:
        return None
    if not re.fullmatch(r"sha256=[0-9A-Fa-f]{64}", fragment):
        raise InitializeError("WrongAddress", f"#{fragment} is not #sha256= with 64 hexadecimal digits")
    return Digest("sha256", fragment.partition("=")[2].lower())


def _strong(etag: str) -> str:
    """An etag that stands for the same bytes; weak ones do not."""
    return "" if etag.startswith("W/") else etag


def _basic(user: str | None, password: str | None) -> str:
    if user is None:
        return ""
    text = f"{unquote(user)}:{unquote(password or '')}"
    return f"Basic {base64.b64encode(text.encode()).decode()}"
