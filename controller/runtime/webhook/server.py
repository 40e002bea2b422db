# SPDX-License-Identifier: Apache-2.0
"""The HTTPS server that the API server calls. One of the few modules that import aiohttp.

Every request to a known path is answered with HTTP 200 and a review. The status inside is 400 or 413 for a malformed
request, 500 for a handler that raised an exception, 504 for one that took too long. It runs on every replica.

Guarantees: a body is never read beyond the limit. A broken request costs one log line. Running requests are finished
when the server stops. Each handshake uses the certificate that the context holds at that time.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import perf_counter
from typing import TypeVar

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from trainwright.api.base import Object
from trainwright.api.times import parse_duration
from trainwright.controller.runtime.errors import ConfigurationError, TransportError
from trainwright.controller.runtime.servers.bounded import BodyIncomplete, BodyTooLarge, read_body
from trainwright.controller.runtime.servers.http import Listener
from trainwright.controller.runtime.webhook.admission import (
    AdmissionHandler,
    Defaulter,
    Mutating,
    Validating,
    Validator,
    mutate_path,
    validate_path,
)
from trainwright.controller.runtime.webhook.conversion import CONVERT_PATH, Conversions
from trainwright.controller.runtime.webhook.review import (
    MalformedReview,
    ReviewRequest,
    ReviewResponse,
    read_review,
    write_malformed,
    write_review,
)

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class WebhookMetrics:
    """The metric families. The label `webhook` holds the path."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "controller_runtime_webhook"
        self.requests = Counter(
            f"{prefix}_requests_total", "Admission requests by HTTP status.", ["webhook", "code"], registry=registry
        )
        self.seconds = Histogram(
            f"{prefix}_latency_seconds", "Duration of an admission.", ["webhook"], buckets=BUCKETS, registry=registry
        )
        self.in_flight = Gauge(f"{prefix}_requests_in_flight", "Running admissions.", ["webhook"], registry=registry)
        self.panics = Counter(
            f"{prefix}_panics_total", "Admissions whose handler raised an exception.", [], registry=registry
        )


log = logging.getLogger(__name__)

O = TypeVar("O", bound=Object)  # noqa: E741 - the object, as in the client

BODY_LIMIT = 7 * 2**20
"""A body of this many bytes or more is refused, as in controller-runtime."""
READ_SECONDS = 30.0
ANSWER_SECONDS = 10.0
IDLE_SECONDS = 90.0
SHUTDOWN_SECONDS = 10.0
_JSON = "application/json"


class _OneLine(logging.Filter):
    """Removes the traceback from aiohttp's messages about broken connections."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = None
        record.exc_text = None
        return True


_connection_log = logging.getLogger(f"{__name__}.connection")
_connection_log.addFilter(_OneLine())


class WebhookServer(Listener):
    """Serves admission on one address. A runnable; port 0 takes a free port, read `port` once it listens."""

    def __init__(
        self,
        address: str,
        *,
        tls: ssl.SSLContext | None,
        metrics: WebhookMetrics,
        read_seconds: float = READ_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        """`tls` None serves plain HTTP, for tests and behind proxies. Limits are in seconds."""
        super().__init__("webhook", address)
        self._tls = tls
        self._metrics = metrics
        self._read_seconds = read_seconds
        self._answer_seconds = answer_seconds
        self._handlers: dict[str, AdmissionHandler] = {}
        self._conversions: Conversions | None = None
        self._draining = False

    # ------------------------------------------------------------------ putting together

    def mutate(self, kind: type[O], defaulter: Defaulter[O], *, path: str = "") -> None:
        """Call `defaulter` for requests to the mutating path of the kind. Raises ConfigurationError; see `handle`."""
        self.handle(path or mutate_path(kind), Mutating(kind, defaulter))

    def validate(self, kind: type[O], validator: Validator[O], *, path: str = "") -> None:
        """Call `validator` for requests to the validating path of the kind. Raises ConfigurationError; see `handle`."""
        self.handle(path or validate_path(kind), Validating(kind, validator))

    def convert(self, conversions: Conversions) -> None:
        """Answer ConversionReviews at `CONVERT_PATH`. Call it before the server runs."""
        self._conversions = conversions

    def handle(self, path: str, handler: AdmissionHandler) -> None:
        """Answer a path. Raises ConfigurationError if it has a handler, or if the server listens already."""
        if path in self._handlers or self.listening.is_set():
            raise ConfigurationError(
                f"webhook server: cannot add {path}: it has a handler already, or the server is listening"
            )
        self._handlers[path] = handler

    @property
    def handlers(self) -> Mapping[str, AdmissionHandler]:
        return self._handlers

    @property
    def paths(self) -> set[str]:
        """All that is answered."""
        return {*self._handlers, *([CONVERT_PATH] if self._conversions is not None else ())}

    # ------------------------------------------------------------------ life

    async def run(self) -> None:
        """Listen until cancelled, then finish running requests. Raises ConfigurationError if the address is in use."""
        application = web.Application(client_max_size=BODY_LIMIT)
        for path, handler in self._handlers.items():
            application.router.add_route("*", path, self._route(path, partial(self._answered, handler=handler)))
        if self._conversions is not None:
            converted = partial(self._converted, conversions=self._conversions)
            application.router.add_route("*", CONVERT_PATH, self._route(CONVERT_PATH, converted))
        runner = web.AppRunner(
            application,
            access_log=None,
            logger=_connection_log,
            keepalive_timeout=IDLE_SECONDS,
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
        await self.serve(runner, self._tls)

    def begin_drain(self) -> None:
        """Close each connection after its next answer, so that the client opens one to another replica."""
        self._draining = True

    # ------------------------------------------------------------------ one request

    def _route(
        self, path: str, answer: Callable[[web.Request], Awaitable[web.Response]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        requests = {code: self._metrics.requests.labels(path, str(code)) for code in (200, 500)}  # all start at 0
        seconds, in_flight = self._metrics.seconds.labels(path), self._metrics.in_flight.labels(path)

        async def handle(request: web.Request) -> web.StreamResponse:
            begin = perf_counter()
            in_flight.inc()
            status = 500
            try:
                response = await answer(request)
                status = 200
            finally:
                in_flight.dec()
                requests[status].inc()
                seconds.observe(perf_counter() - begin)
            if self._draining:
                response.force_close()
            return response

        return handle

    async def _answered(self, request: web.Request, handler: AdmissionHandler) -> web.Response:
        try:
            review = read_review(await self._body(request))
        except MalformedReview as error:
            return _refused(request, error)
        body = await self._decided(request, handler, review)
        return web.Response(body=body, content_type=_JSON)

    async def _converted(self, request: web.Request, conversions: Conversions) -> web.Response:
        try:
            return web.Response(body=conversions.answer(await self._body(request)), content_type=_JSON)
        except MalformedReview as error:
            return _refused(request, error)

    async def _decided(self, request: web.Request, handler: AdmissionHandler, review: ReviewRequest) -> bytes:
        limit = self._time_limit(request)
        scope = asyncio.timeout(limit)
        try:
            async with scope:
                answer = await handler.answer(review)
            return write_review(review, answer)
        except Exception as error:
            if isinstance(error, TimeoutError) and scope.expired():
                log.warning("%s: the handler did not answer review %s within %g s", request.path, review.uid, limit)
                return _unanswered(review, 504, "Timeout", f"the webhook did not answer within {limit:g} s")
            if isinstance(error, TransportError):
                # Not a defect: the handler asked the API server for an object, and got no answer.
                log.warning("%s: the API server did not answer during review %s: %s", request.path, review.uid, error)
                message = "the webhook got no answer from the API server; try again"
                return _unanswered(review, 503, "ServiceUnavailable", message)
            self._metrics.panics.inc()
            log.exception("%s: the handler raised an exception for review %s", request.path, review.uid)
            message = f"the webhook failed with {type(error).__name__}; see its log"
            return _unanswered(review, 500, "InternalError", message)

    def _time_limit(self, request: web.Request) -> float:
        """The timeout that the API server sends, at most the own limit: a later answer would be ignored."""
        try:
            asked = parse_duration(request.query.get("timeout", "0")).total_seconds()
        except ValueError:
            asked = 0.0
        return min(asked, self._answer_seconds) if asked > 0 else self._answer_seconds

    async def _body(self, request: web.Request) -> bytes:
        content_type = request.headers.get("Content-Type", "")
        if content_type != _JSON:
            raise MalformedReview(400, f"the content type is {content_type[:100]!r}; send {_JSON}")
        try:
            if (request.content_length or 0) >= BODY_LIMIT:
                raise BodyTooLarge
            body = await read_body(request, limit=BODY_LIMIT - 1, seconds=self._read_seconds)
        except BodyTooLarge:
            raise MalformedReview(413, f"the body is larger than {BODY_LIMIT - 1} bytes") from None
        except BodyIncomplete as error:
            raise MalformedReview(400, str(error)) from error
        if not body:
            raise MalformedReview(400, "the body is empty")
        return body


def _refused(request: web.Request, error: MalformedReview) -> web.Response:
    log.warning("%s: refused a request from %s with %d: %s", request.path, request.remote, error.code, error)
    refusal = web.Response(body=write_malformed(error), content_type=_JSON)
    refusal.force_close()  # the start of a next request on this connection is unknown
    return refusal


def _unanswered(review: ReviewRequest, code: int, reason: str, message: str) -> bytes:
    return write_review(review, ReviewResponse(allowed=False, code=code, reason=reason, message=message))
