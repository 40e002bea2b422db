# SPDX-License-Identifier: Apache-2.0
"""What all verbs of a client share: credentials, retries, warnings, errors, defaults of writes, and observers.

The cache is an observer: it must know of a write before it is sent, because the watch event of the write often arrives
before the answer. `reads`, `writes` and `exec` build the verbs on it; `client` combines them.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import trainwright
from trainwright.api.base import Resource
from trainwright.api.objects import AnyObject, Key
from trainwright.controller.runtime.client.answers import error_of
from trainwright.controller.runtime.client.retry import RETRIES, send_with_retries
from trainwright.controller.runtime.client.transport import (
    READS,
    SECONDS,
    Request,
    Response,
    Stream,
    Transport,
    WebSocket,
    permission,
)
from trainwright.controller.runtime.context import writer
from trainwright.controller.runtime.kinds import Codec, Kind, codec_of, kind_of

log = logging.getLogger(__name__)

O = TypeVar("O", bound=AnyObject)  # noqa: E741 - the object that is written


@dataclass(frozen=True, slots=True)
class WriteDefaults:
    """Defaults of each write; a call can override them."""

    field_manager: str | None = None
    field_validation: Literal["Ignore", "Warn", "Strict"] | None = None
    dry_run: bool = False


class PendingWrite:
    """A write that has started. Exactly one of the three methods is called at its end.

    This one is of a client without a cache: its methods do nothing.
    """

    def written(self, codec: Codec[Any], obj: Any) -> None:
        """The server answered with the written object."""

    def deleted(self, uid: str) -> None:
        """The server answered that the object is deleted. `uid` is empty if the answer had none."""

    def failed(self) -> None:
        """The write was refused, or its outcome is unknown. The watch shows what happened."""


class WriteObserver(Protocol):
    """Is called before every write."""

    def begin(self, resource: Resource, key: Key, *, applies: bool = False) -> PendingWrite:
        """A write of this object is about to be sent. `applies`: by server-side apply, which may change nothing."""
        ...


class RequestObserver(Protocol):
    """Is called after every attempt."""

    def attempt(self, request: Request, status: int | None) -> None:
        """An attempt ended with this HTTP status; None: without an answer."""
        ...


class ApiSession:
    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str = "",
        defaults: WriteDefaults | None = None,
        timeout: float = SECONDS,
        requests: RequestObserver | None = None,
    ) -> None:
        """`timeout`: seconds for a whole call with its retries, where the request has no limit of its own.

        Watches and logs that are followed have none.

        `user_agent` is appended to product, version and controller in the User-Agent header.
        """
        self.transport = transport
        self._agent = user_agent
        self._agents: dict[tuple[str, str], str] = {}
        """User-Agent headers by the name of the process and the controller."""
        self._defaults = defaults or WriteDefaults()
        self._timeout = timeout
        self._requests = requests
        self._retries = RETRIES
        self._writes: WriteObserver | None = None
        self._kinds: dict[tuple[str, str], Kind] = {}

    def observe_writes(self, observer: WriteObserver) -> None:
        """Tell `observer` of every write from now on. Clients made earlier by `with_defaults` do not."""
        self._writes = observer

    def register(self, *kinds: Kind) -> None:
        """Register kinds, so that their dictionaries can be written without passing the kind."""
        for kind in kinds:
            resource = codec_of(kind).resource
            self._kinds.setdefault((resource.api_version, resource.kind), resource)

    def known_kinds(self) -> dict[tuple[str, str], Kind]:
        """The registered kinds by apiVersion and kind."""
        return self._kinds

    async def close(self) -> None:
        await self.transport.close()

    async def send(self, request: Request) -> Response:
        """Send a request, with the credentials, retries, warnings and errors of this client.

        Raises RequestTimeout after the limit of the request, NotLeading for a write of leader-elected work on a replica
        that does not lead.
        """
        request.headers.setdefault("User-Agent", self._user_agent())
        limit = request.timeout = self._timeout if request.timeout is None else request.timeout
        if request.method not in READS and (allowed := permission.get()) is not None:
            allowed.check()
            request.permission = allowed
        response, attempts = await send_with_retries(
            self.transport.send,
            request,
            limit=limit,
            on_attempt=self._requests.attempt if self._requests else None,
            retries=self._retries,
        )
        for warning in response.warnings:
            log.warning("%s: warning of the API server: %s", request, warning)
        if response.status >= 400:
            raise error_of(response.status, response.headers, response.body, request=str(request), attempts=attempts)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Open a stream. Raises ApiError for an error status. Nothing is retried."""
        request.headers.setdefault("User-Agent", self._user_agent())
        async with self.transport.open(request) as stream:
            if self._requests:
                self._requests.attempt(request, stream.status)
            if stream.status >= 400:
                raise error_of(stream.status, stream.headers, await stream.read(), request=str(request))
            yield stream

    @asynccontextmanager
    async def connect(self, request: Request, protocols: Sequence[str], *, limit: int) -> AsyncIterator[WebSocket]:
        """Open a websocket. Raises ApiError if the server refuses it. Nothing is retried.

        Raises NotLeading in leader-elected work on a replica that does not lead, because what a websocket is asked for
        (exec, attach, port-forward) can change something.
        """
        request.headers.setdefault("User-Agent", self._user_agent())
        if (allowed := permission.get()) is not None:
            allowed.check()
        async with self.transport.connect(request, protocols, limit=limit) as socket:
            refusal = socket.refusal
            if self._requests:
                self._requests.attempt(request, 101 if refusal is None else refusal.status)
            if refusal is not None:
                raise error_of(refusal.status, refusal.headers, refusal.body, request=str(request))
            yield socket

    def _user_agent(self) -> str:
        """Product and version, the running controller, and the name of the process."""
        controller = writer()
        known = self._agents.get((self._agent, controller))
        if known is None:
            parts = (f"trainwright/{trainwright.__version__}", f"({controller})" if controller else "", self._agent)
            known = self._agents[self._agent, controller] = " ".join(filter(None, parts))
        return known

    def _codec(self, obj: O, kind: Kind | None) -> Codec[O]:
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
