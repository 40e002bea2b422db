# SPDX-License-Identifier: Apache-2.0
"""One client's way to the server: credentials, retries, warnings, errors, and what is added to each write.

The verbs are built on it in `reads`, `writes` and `subresources`; `client` puts them together.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import trainwright
from trainwright.controller.runtime.client.answers import error_of
from trainwright.controller.runtime.client.observer import RequestObserver, WriteObserver
from trainwright.controller.runtime.client.permission import READS, permission
from trainwright.controller.runtime.client.retry import send_with_retries
from trainwright.controller.runtime.client.transport import Request, Response, Stream, Transport
from trainwright.controller.runtime.context import writer
from trainwright.controller.runtime.kinds import Codec, Kind, codec_of, kind_of
from trainwright.controller.runtime.objects import AnyObject

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What the client adds to each write unless the call says otherwise (C-7, C-9, C-10)."""

    field_manager: str | None = None
    field_validation: Literal["Ignore", "Warn", "Strict"] | None = None
    dry_run: bool = False


class Session:
    """What all verbs share."""

    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str = "",
        defaults: WriteOptions | None = None,
        timeout: float = 60.0,
        requests: RequestObserver | None = None,
    ) -> None:
        """`timeout` is in seconds and covers one attempt of anything but a watch or a log stream.

        `user_agent` is what this process adds to the product, version and controller that the server is told.
        """
        self.transport = transport
        self._agent = user_agent
        self._defaults = defaults or WriteOptions()
        self._timeout = timeout
        self._requests = requests
        self._writes: WriteObserver | None = None
        self._kinds: dict[tuple[str, str], Kind] = {}

    def observe_writes(self, observer: WriteObserver) -> None:
        """Tell `observer` of every write from now on; clients made by `with_defaults` before do not."""
        self._writes = observer

    def register(self, *kinds: Kind) -> None:
        """Make kinds known, so that dictionaries of theirs can be written without naming the kind each time."""
        for kind in kinds:
            resource = codec_of(kind).resource
            self._kinds.setdefault((resource.api_version, resource.kind), resource)

    async def close(self) -> None:
        """Close the transport."""
        await self.transport.close()

    async def send(self, request: Request) -> Response:
        """Send a request of the caller's own making, with this client's credentials, retries, warnings and errors.

        Raises NotLeading for a write of leader-elected work whose replica does not lead.
        """
        request.headers.setdefault("User-Agent", self._user_agent())
        if request.timeout is not None:
            request.timeout = self._timeout
        if request.method not in READS and (allowed := permission.get()) is not None:
            allowed.check()
            request.permission = allowed
        response, attempts = await send_with_retries(
            self.transport.send, request, on_attempt=self._requests.attempt if self._requests else None
        )
        for warning in response.warnings:
            log.warning("%s: the API server warns: %s", request, warning)
        if response.status >= 400:
            raise error_of(response.status, response.headers, response.body, request=str(request), attempts=attempts)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Open a stream of the caller's own making; an error status is raised. Nothing is repeated here."""
        request.headers.setdefault("User-Agent", self._user_agent())
        request.timeout = None
        async with self.transport.open(request) as stream:
            if self._requests:
                self._requests.attempt(request, stream.status)
            if stream.status >= 400:
                raise error_of(stream.status, stream.headers, await stream.read(), request=str(request))
            yield stream

    def _user_agent(self) -> str:
        """Product and version, the controller on whose behalf this is, and the name of the process."""
        parts = [f"trainwright/{trainwright.__version__}"]
        if controller := writer():
            parts.append(f"({controller})")
        if self._agent:
            parts.append(self._agent)
        return " ".join(parts)

    def _codec(self, obj: AnyObject, kind: Kind | None) -> Codec[Any]:
        return codec_of(kind if kind is not None else kind_of(obj, self._kinds))

    def _options(self, dry_run: bool | None, field_manager: str, *, validation: bool) -> dict[str, str]:
        query: dict[str, str] = {}
        if manager := field_manager or self._defaults.field_manager:
            query["fieldManager"] = manager
        if validation and self._defaults.field_validation:
            query["fieldValidation"] = self._defaults.field_validation
        if self._defaults.dry_run if dry_run is None else dry_run:
            query["dryRun"] = "All"
        return query
