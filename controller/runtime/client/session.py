# SPDX-License-Identifier: Apache-2.0
"""What all verbs of a client share: credentials, retries, warnings, errors, defaults of writes, and observers.

The cache is an observer: it must know of a write before it is sent, because the watch event of the write often arrives
before the answer. `reads`, `writes` and `exec` build the verbs on it; `client` combines them.

An answer of 429 or 5xx with a numeric Retry-After is retried for every verb, because the server asks for it. A lost
connection is retried for reads only; the outcome of a write is unknown, and the caller decides. A resource version that
the server has not reached yet is not waited for: the caller can list without it. All attempts and the waits between
them share one time limit, so that a server that hangs does not hold its caller for a multiple of it.

An error answer becomes an exception. Its body is normally a `Status`. If it is not (from a proxy, or while a server
starts), the HTTP status decides.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import msgspec

import trainwright
from trainwright.api.base import Resource
from trainwright.api.kubernetes.meta.v1 import Status
from trainwright.api.objects import AnyObject, Key
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
from trainwright.controller.runtime.errors import (
    ApiError,
    ConnectionLost,
    ErrorCause,
    RequestTimeout,
    TransportError,
    error_type,
)
from trainwright.controller.runtime.kinds import Codec, Kind, codec_of, kind_of
from trainwright.controller.runtime.tasks import limited

log = logging.getLogger(__name__)

RETRIES = 10
"""Retries per request, where a client has no other number."""
LOST_SECONDS = 1.0
"""Wait before a read is retried after its connection broke."""
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_DECODER = msgspec.json.Decoder(Status)

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
        response, attempts = await self._send_with_retries(request, limit)
        for warning in response.warnings:
            log.warning("%s: warning of the API server: %s", request, warning)
        if response.status >= 400:
            raise error_of(response.status, response.headers, response.body, request=str(request), attempts=attempts)
        return response

    async def _send_with_retries(self, request: Request, limit: float) -> tuple[Response, int]:
        """Send until the answer is final. Returns the answer and the number of attempts.

        `limit` is in seconds. A retry that it leaves no time for is not waited for: the last answer is final then.
        """
        time = asyncio.get_running_loop().time
        deadline = time() + limit
        attempt = 0

        def late() -> RequestTimeout:
            return RequestTimeout(f"{request}: no answer within {limit:g} s")

        while True:
            attempt += 1
            try:
                # Whatever it waits for counts: a connection, the client's own limit of requests, credentials.
                async with limited(asyncio.timeout_at(deadline), late):
                    response = await self.transport.send(request)
            except TransportError as error:
                self._attempted(request, None)
                repeatable = request.method in READS and isinstance(error, (ConnectionLost, RequestTimeout))
                if not repeatable or attempt > self._retries or time() + LOST_SECONDS >= deadline:
                    if attempt > 1:
                        error.add_note(f"attempt {attempt}")
                    raise
                await asyncio.sleep(LOST_SECONDS)
                continue
            self._attempted(request, response.status)
            wait = _retry_after(response.headers, response.status)
            if wait is None or attempt > self._retries or b'"ResourceVersionTooLarge"' in response.body:
                return response, attempt
            if time() + wait >= deadline:
                return response, attempt
            await asyncio.sleep(wait)

    def _attempted(self, request: Request, status: int | None) -> None:
        if self._requests:
            self._requests.attempt(request, status)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Open a stream. Raises ApiError for an error status. Nothing is retried."""
        request.headers.setdefault("User-Agent", self._user_agent())
        async with self.transport.open(request) as stream:
            self._attempted(request, stream.status)
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
            self._attempted(request, 101 if refusal is None else refusal.status)
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


def error_of(
    code: int, headers: Mapping[str, str], body: bytes | msgspec.Raw, *, request: str = "", attempts: int = 1
) -> ApiError:
    """The exception for an answer with status `code` (400 and above), or for an ERROR frame of a watch (code 0)."""
    status, text = Status(), ""
    try:
        decoded = _DECODER.decode(body)
    except msgspec.MsgspecError:
        text = bytes(body)[:200].decode(errors="replace").strip()
    else:
        if decoded.kind == "Status":
            status = decoded
    code = code or status.code or 500
    details = status.details_or_empty
    header = headers.get("retry-after", "")
    asked = float(header) if header.isdecimal() else details.retry_after_seconds
    causes = tuple(ErrorCause(c.reason or "", c.field_ or "", c.message or "") for c in details.causes or ())
    reason = status.reason or _REASONS.get(code, "")
    return error_type(code, reason, causes)(
        status.message or text or f"HTTP {code}",
        code=code,
        reason=reason,
        causes=causes,
        retry_after=asked,
        request=request,
        attempts=attempts,
    )


def _retry_after(headers: Mapping[str, str], status: int) -> float | None:
    """Seconds to wait before a retry; None: do not retry."""
    if status != 429 and status < 500:
        return None
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        return None  # a date, which the API server never sends
