# SPDX-License-Identifier: Apache-2.0
"""Answers reports of training processes, as Kubeflow Trainer's status server does.

The order of the checks is fixed: route, declared length, token, body, empty or not, TrainJob, pod, rate of this
TrainJob, schema. So a report without content for an unknown TrainJob is answered with 200, a body that is too large is
refused before its token is looked at, and pods of others use up nothing of a TrainJob's rate. Every answer is JSON: the
accepted value, or a Status.

Decoding is as lenient as that of Kubeflow Trainer, which is Go's: unknown keys, the case of keys, and everything after
the first JSON value are ignored; invalid text becomes U+FFFD.

It knows HTTP only as `BoundedCall` and `BoundedAnswer`; `controller.runtime.servers.bounded` serves it.
"""

import asyncio
import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from trainwright.api.objects import Key
from trainwright.api.trainer.v1alpha1 import Metric, TrainerStatus, TrainJob, UpdateTrainJobStatusRequest
from trainwright.api.trainer.v1alpha1.constants import GROUP, VERSION
from trainwright.controller.runtime import Client, KubernetesError, NotFound
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.errors import NotCached, NotSynced
from trainwright.controller.runtime.servers.bounded import (
    BodyIncomplete,
    BodyTooLarge,
    BoundedAnswer,
    BoundedCall,
    BoundedServer,
)
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.tokens.reviews import TokenMemory
from trainwright.controller.trainer.progress.access import AccessUnknown, ReportAccess, ReporterForbidden
from trainwright.controller.trainer.progress.report import (
    MalformedReport,
    ReportRefused,
    ReportSource,
    TooManyReports,
    UnknownJob,
    checked,
)
from trainwright.controller.trainer.progress.writer import Coalescer

log = logging.getLogger(__name__)

BODY_LIMIT = 65536
"""Bytes."""
REMEMBERED_SECONDS = 5.0
"""How long the answer of the API server for a TrainJob is used, also that there is none."""
REMEMBERED = 5_000

_NAME = "[a-z0-9][a-z0-9.-]*"
_ROUTE = re.compile(rf"/apis/{re.escape(GROUP)}/{VERSION}/namespaces/({_NAME})/trainjobs/({_NAME})/status")
_JSON = {"Content-Type": "application/json"}
_ENCODER = msgspec.json.Encoder()
_SPACES = " \t\n\r"
_INT32 = range(-(2**31), 2**31)


class JobLookup:
    """TrainJobs by name: from the cache, or with one request if the cache does not hold it yet."""

    def __init__(self, client: Client, cache: Cache, *, time: Callable[[], float] | None = None) -> None:
        """Create it inside a running event loop, whose clock `time` replaces."""
        self._client = client
        self._cache = cache
        clock = time or asyncio.get_running_loop().time
        self._answers: TokenMemory[Key, tuple[TrainJob | None]] = TokenMemory(REMEMBERED, time=clock)

    async def find(self, key: Key) -> TrainJob:
        """The TrainJob.

        Raises:
            UnknownJob: it does not exist, or this manager does not manage its namespace.
            KubernetesError: the API server did not answer.
        """
        try:
            job = self._cache.get(TrainJob, key.name, key.namespace)
        except NotCached:
            raise UnknownJob from None
        except NotSynced:
            job = None
        if job is not None:
            return job
        known = self._answers.get(key)
        if known is None:
            try:
                known = (await self._client.get(TrainJob, key.name, key.namespace),)
            except NotFound:
                known = (None,)
            self._answers.put(key, known, REMEMBERED_SECONDS)
        if known[0] is None:
            raise UnknownJob
        return known[0]


class StatusEndpoint:
    def __init__(self, access: ReportAccess, jobs: JobLookup, coalescer: Coalescer) -> None:
        """Create it inside a running event loop."""
        self._access = access
        self._jobs = jobs
        self._coalescer = coalescer
        self._metrics = coalescer.metrics
        self._time = asyncio.get_running_loop().time

    async def answer(self, call: BoundedCall) -> BoundedAnswer:
        """The answer to a request. Raises BodyIncomplete."""
        route = _ROUTE.fullmatch(call.path) if call.method == "POST" else None
        if route is None:
            return _failure(404, "NotFound", "Not found")
        begin = self._time()
        try:
            return await self._report(call, Key(route[1], route[2]))
        finally:
            self._metrics.duration.observe(self._time() - begin)

    def failure(self, status: int) -> BoundedAnswer:
        """The answer to a malformed request, or to one whose answer failed."""
        if status < 500:
            return _failure(status, "BadRequest", "Bad request")
        return _failure(500, "InternalError", "Internal error")

    async def _report(self, call: BoundedCall, key: Key) -> BoundedAnswer:
        try:
            return await self._accept(call, key)
        except BodyTooLarge:
            return self._refused("too_large", _failure(413, "RequestEntityTooLarge", "Payload too large"))
        except BodyIncomplete:
            self._metrics.reports.inc(ReportSource.PUSH, "invalid")
            raise
        except ReporterForbidden as error:
            log.debug("TrainJob %s: a report is refused: %s", key, error.why)
            return self._refused("forbidden", _failure(403, "Forbidden", str(error)))
        except ReportRefused as error:
            log.debug("TrainJob %s: a report is refused: %s", key, error)
            return self._refused(_RESULTS[error.code], _refusal(error))
        except (AccessUnknown, KubernetesError) as error:
            why = error.why if isinstance(error, AccessUnknown) else str(error)
            log.warning("TrainJob %s: a report cannot be taken: %s", key, why)
            return self._refused("failed", self.failure(500))

    def _refused(self, result: str, answer: BoundedAnswer) -> BoundedAnswer:
        self._metrics.reports.inc(ReportSource.PUSH, result)
        return answer

    async def _accept(self, call: BoundedCall, key: Key) -> BoundedAnswer:
        if call.too_large:
            raise BodyTooLarge
        reporter = await self._access.check(call.header("Authorization"), key.namespace, key.name)
        value = decode(await call.body())
        if value is None:
            self._metrics.reports.inc(ReportSource.PUSH, "empty")
            return BoundedAnswer(200, b"{}", _JSON)
        job = await self._jobs.find(key)
        await self._access.belongs(reporter, job)
        self._coalescer.admit(job)
        report = checked(key, value, pod=reporter.pod)
        await self._coalescer.accept(job, report)
        return BoundedAnswer(200, _ENCODER.encode(UpdateTrainJobStatusRequest(trainer_status=report.status)), _JSON)


_RESULTS = {404: "unknown_job", 422: "invalid", 429: "too_many"}


def _refusal(error: ReportRefused) -> BoundedAnswer:
    headers = {**_JSON, "Retry-After": str(error.retry_after)} if isinstance(error, TooManyReports) else _JSON
    return _failure(error.code, error.reason, str(error), headers)


def _failure(code: int, reason: str, message: str, headers: dict[str, str] = _JSON) -> BoundedAnswer:
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code}
    return BoundedAnswer(code, _ENCODER.encode(status), headers)


def decode(body: bytes) -> TrainerStatus | None:
    """The value of a request's body, unchecked. None: it has none, which changes nothing.

    Raises MalformedReport: it is not JSON, or a value has another type.
    """
    text = body.decode("utf-8", "replace").lstrip(_SPACES)
    try:
        document = _DECODER.raw_decode(text)[0]
    except (ValueError, RecursionError):
        raise MalformedReport from None
    if document is None:
        return None
    if not isinstance(document, dict):
        raise MalformedReport
    value = _field(document, "trainerStatus")
    return None if value is None else read_status(value)


def read_status(value: object) -> TrainerStatus:
    """The decoded `trainerStatus`, unchecked, with the time as it was sent. Raises MalformedReport for other types."""
    if not isinstance(value, dict):
        raise MalformedReport
    metrics = _field(value, "metrics")
    if metrics is not None and not isinstance(metrics, list):
        raise MalformedReport
    updated = _field(value, "lastUpdatedTime")
    if updated is not None and not isinstance(updated, str):
        raise MalformedReport
    return TrainerStatus(
        progress_percentage=_integer(_field(value, "progressPercentage")),
        estimated_remaining_seconds=_integer(_field(value, "estimatedRemainingSeconds")),
        metrics=[_metric(one) for one in metrics] if metrics else None,
        last_updated_time=updated,
    )


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _field(document: Mapping[str, Any], name: str) -> Any:
    """The value of a field, whatever the case of its key. The last one counts, as in Go."""
    if len(document) == 1 and name in document:
        return document[name]
    folded = name.casefold()
    found = None
    for key, value in document.items():
        if key == name or (len(key) == len(name) and key.casefold() == folded):
            found = value
    return found


def _integer(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value not in _INT32:
        raise MalformedReport
    return value


def _metric(value: object) -> Metric:
    if value is None:
        return Metric(name="", value="")
    if not isinstance(value, dict):
        raise MalformedReport
    return Metric(name=_text(_field(value, "name")), value=_text(_field(value, "value")))


def _text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedReport
    if value.isascii():
        return value
    # JSON can write halves of surrogate pairs, which no UTF-8 has.
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class ProgressService:
    """A runnable. When it is stopped, it is not ready any more; then it listens no more, answers what is open, and
    writes what is left.
    """

    def __init__(self, coalescer: Coalescer, server: BoundedServer, access: ReportAccess) -> None:
        """The server hands what it accepts to the coalescer; `access` checks its tokens."""
        self.coalescer = coalescer
        self.server = server
        self._access = access
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Run until `request_stop`. Raises ConfigurationError: the address of the server cannot be used."""
        async with TaskScope("progress") as tasks:
            writing = tasks.start("progress/writer", self.coalescer.run())
            checking = tasks.start("progress/tokens", self._access.run())
            serving = tasks.start("progress/server", self.server.run())
            stop = tasks.start("progress/stop", self._stop.wait())
            works: set[asyncio.Task[Any]] = {writing, checking, serving, stop}
            done, _ = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stop}:
                task.result()
            serving.cancel()
            await asyncio.wait({serving})
            self.coalescer.request_stop()
            await writing

    def begin_drain(self) -> None:
        self.server.begin_drain()

    def request_stop(self) -> None:
        """Take no more reports, write what is left, return from `run`."""
        self._stop.set()

    def unready(self) -> str | None:
        """Why no reports are taken now; None: they are."""
        if self._stop.is_set():
            return "the manager is stopping"
        if not self.server.listening.is_set():
            return "the status server is not listening yet"
        return self._access.unready()
