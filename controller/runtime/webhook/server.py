# SPDX-License-Identifier: Apache-2.0
"""The HTTPS server that the API server asks (M-32 to M-37, M-42, M-45, M-47). Knows aiohttp, as servers may.

Every request to a known path is answered with HTTP 200 and a review, however broken it is: 400 or 413 inside for what
is no question, 500 for a handler that raised, 504 for one that took too long. It runs on every replica.

Guarantees: a body is never read beyond the limit, a broken request costs one log line, and requests in process are
finished when the server is stopped. The certificate is whatever the context holds at the time of a handshake.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import TypeVar

from aiohttp import web

from trainwright.api.base import Object
from trainwright.api.times import parse_duration
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.manager.servers import parse_address
from trainwright.controller.runtime.webhook.admission import (
    Defaulter,
    Handler,
    Mutating,
    Validating,
    Validator,
    mutate_path,
    validate_path,
)
from trainwright.controller.runtime.webhook.metrics import PathMetrics, WebhookMetrics
from trainwright.controller.runtime.webhook.review import Answer, Malformed, Question, read, write, write_malformed

log = logging.getLogger(__name__)

O = TypeVar("O", bound=Object)  # noqa: E741 - the object, as in the client

BODY_LIMIT = 7 * 2**20
"""A body of this many bytes or more is refused (M-35)."""
READ_SECONDS = 30.0
ANSWER_SECONDS = 10.0
IDLE_SECONDS = 90.0
SHUTDOWN_SECONDS = 10.0
_JSON = "application/json"


class _OneLine(logging.Filter):
    """What aiohttp says of broken connections, without its traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = None
        record.exc_text = None
        return True


_connection_log = logging.getLogger(f"{__name__}.connection")
_connection_log.addFilter(_OneLine())


class WebhookServer:
    """Serves admission on one address. A runnable; `port` 0 takes a free one, see `port` once it listens."""

    def __init__(
        self,
        address: str,
        *,
        tls: ssl.SSLContext | None,
        metrics: WebhookMetrics,
        body_limit: int = BODY_LIMIT,
        read_seconds: float = READ_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        """`tls` None serves plain HTTP, for tests and behind proxies. Limits are in bytes and seconds."""
        self.host, self.port = parse_address(address)
        self._tls = tls
        self._metrics = metrics
        self._limit = body_limit
        self._read_seconds = read_seconds
        self._answer_seconds = answer_seconds
        self._handlers: dict[str, Handler] = {}
        self.listening = asyncio.Event()

    # ------------------------------------------------------------------ putting together

    def mutate(self, kind: type[O], defaulter: Defaulter[O], *, path: str = "") -> None:
        """Call `defaulter` for what the API server sends to the kind's path. Raises ConfigurationError."""
        self.handle(path or mutate_path(kind), Mutating(kind, defaulter))

    def validate(self, kind: type[O], validator: Validator[O], *, path: str = "") -> None:
        """Call `validator` for what the API server sends to the kind's path. Raises ConfigurationError."""
        self.handle(path or validate_path(kind), Validating(kind, validator))

    def handle(self, path: str, handler: Handler) -> None:
        """Answer on a path. Raises ConfigurationError for one that is taken, or once the server listens (M-34)."""
        if path in self._handlers or self.listening.is_set():
            raise ConfigurationError(f"webhook: {path} is taken, or the server listens already")
        self._handlers[path] = handler

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """By path."""
        return self._handlers

    # ------------------------------------------------------------------ life

    async def run(self) -> None:
        """Listen until cancelled, then finish what is in process. Raises ConfigurationError (address in use)."""
        application = web.Application(client_max_size=self._limit)
        for path, handler in self._handlers.items():
            application.router.add_route("*", path, self._route(path, handler))
        runner = web.AppRunner(
            application,
            access_log=None,
            logger=_connection_log,
            keepalive_timeout=IDLE_SECONDS,
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, self.host or None, self.port, ssl_context=self._tls)
            try:
                await site.start()
            except OSError as error:
                raise ConfigurationError(f"webhook: cannot listen on {self.host}:{self.port}: {error}") from error
            self.port = runner.addresses[0][1]
            self.listening.set()
            await asyncio.Event().wait()
        finally:
            self.listening.clear()
            await runner.cleanup()
            await asyncio.sleep(0)  # connections that were cut off end in the next turn of the loop

    # ------------------------------------------------------------------ one request

    def _route(self, path: str, handler: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        metrics = self._metrics.path(path)

        async def handle(request: web.Request) -> web.StreamResponse:
            begin = perf_counter()
            metrics.began()
            status = 500
            try:
                response = await self._answered(request, handler, metrics)
                status = 200
            finally:
                metrics.ended(status, perf_counter() - begin)
            return response

        return handle

    async def _answered(self, request: web.Request, handler: Handler, metrics: PathMetrics) -> web.Response:
        try:
            question = read(await self._body(request))
        except Malformed as error:
            log.warning("%s: refused a request of %s with %d: %s", request.path, request.remote, error.code, error)
            refusal = web.Response(body=write_malformed(error), content_type=_JSON)
            refusal.force_close()  # where its next request would begin is not known
            return refusal
        body = await self._decided(request, handler, question, metrics)
        return web.Response(body=body, content_type=_JSON)

    async def _decided(self, request: web.Request, handler: Handler, question: Question, metrics: PathMetrics) -> bytes:
        limit = self._time_limit(request)
        scope = asyncio.timeout(limit)
        try:
            async with scope:
                answer = await handler.answer(question)
            return write(question, answer)
        except Exception as error:
            if isinstance(error, TimeoutError) and scope.expired():
                log.warning("%s: no answer to %s within %g s", request.path, question.uid, limit)
                late = Answer(allowed=False, code=504, reason="Timeout", message=f"no answer within {limit:g} s")
                return write(question, late)
            metrics.crashed()
            log.exception("%s: the handler raised, question %s", request.path, question.uid)
            message = f"{type(error).__name__} in the webhook; its log has more"
            return write(question, Answer(allowed=False, code=500, reason="InternalError", message=message))

    def _time_limit(self, request: web.Request) -> float:
        """The API server says how long it waits; answering later would be in vain."""
        try:
            asked = parse_duration(request.query.get("timeout", "0")).total_seconds()
        except ValueError:
            asked = 0.0
        return min(asked, self._answer_seconds) if asked > 0 else self._answer_seconds

    async def _body(self, request: web.Request) -> bytes:
        content_type = request.headers.get("Content-Type", "")
        if content_type != _JSON:
            raise Malformed(400, f"the content type is {content_type[:100]!r}, {_JSON} is understood")
        if (request.content_length or 0) >= self._limit:
            raise self._too_large()
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._read_seconds):
                async for part in request.content.iter_any():
                    size += len(part)
                    if size >= self._limit:
                        raise self._too_large()
                    parts.append(part)
        except TimeoutError as error:
            request.content.feed_eof()  # do not wait for the rest once more after the answer
            raise Malformed(400, f"the body did not arrive within {self._read_seconds:g} s") from error
        except (web.RequestPayloadError, OSError) as error:
            raise Malformed(400, f"the body ends early: {error}") from error
        if not parts:
            raise Malformed(400, "the body is empty")
        return b"".join(parts)

    def _too_large(self) -> Malformed:
        return Malformed(413, f"the body is larger than {self._limit - 1} bytes")
