# SPDX-License-Identifier: Apache-2.0
"""Answers reports of training processes, as Kubeflow Trainer's status server does.

The order of the checks is fixed: route, declared length, token, body, empty or not, TrainJob, pod, rate of this
TrainJob, schema. So a report without content for an unknown TrainJob is answered with 200, a body that is too large is
refused before its token is looked at, and pods of others use up nothing of a TrainJob's rate. Every answer is JSON: the
accepted value, or a Status.

It knows HTTP only as `Call` and `Answer`; `controller.runtime.servers.bounded` serves it.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Protocol

import msgspec

from trainwright.api.objects import Key, uid_of
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob, UpdateTrainJobStatusRequest
from trainwright.api.trainer.v1alpha1.constants import GROUP, VERSION
from trainwright.controller.runtime import BodyIncomplete, BodyTooLarge, BoundedAnswer, BoundedCall, KubernetesError
from trainwright.controller.trainer.progress.budget import Allowance
from trainwright.controller.trainer.progress.coalescer import Coalescer, Source
from trainwright.controller.trainer.progress.jobs import Jobs
from trainwright.controller.trainer.progress.metrics import ProgressMetrics
from trainwright.controller.trainer.progress.refusals import Refused, TooManyReports
from trainwright.controller.trainer.progress.reports import checked, decode
from trainwright.controller.trainer.progress.tokens import Forbidden, Reporter, Unavailable

log = logging.getLogger(__name__)

BODY_LIMIT = 65536
"""Bytes."""
REPORTS_A_SECOND = 10.0
REPORTS_AT_ONCE = 50
"""Of one TrainJob."""
RETRY_SECONDS = 5
"""What a TrainJob that reports too often is told to wait: the pause of the clients between two reports."""
REMEMBERED = 20_000
"""TrainJobs whose rate is remembered."""

_NAME = "[a-z0-9][a-z0-9.-]*"
_ROUTE = re.compile(rf"/apis/{re.escape(GROUP)}/{VERSION}/namespaces/({_NAME})/trainjobs/({_NAME})/status")
_JSON = {"Content-Type": "application/json"}
_ENCODER = msgspec.json.Encoder()


class Access(Protocol):
    """Decides who may report; `tokens.ReportAccess` does."""

    async def check(self, authorization: str | None, namespace: str, name: str) -> Reporter:
        """Who reports. Raises Forbidden, Unavailable."""
        ...

    async def belongs(self, reporter: Reporter, job: TrainJob) -> None:
        """Check that a pod belongs to the TrainJob. Raises Forbidden."""
        ...


class StatusEndpoint:
    """An Endpoint."""

    def __init__(
        self,
        access: Access,
        jobs: Jobs,
        coalescer: Coalescer,
        metrics: ProgressMetrics,
        *,
        time: Callable[[], float] | None = None,
    ) -> None:
        """Create it inside a running event loop.

        Args:
            access: who may report.
            jobs: finds TrainJobs.
            coalescer: takes what is accepted.
            metrics: counts.
            time: a clock in seconds that never goes back; None: that of the event loop.
        """
        self._access = access
        self._jobs = jobs
        self._coalescer = coalescer
        self._metrics = metrics
        self._time = time or asyncio.get_running_loop().time
        self._rates: dict[str, Allowance] = {}
        """By uid of the TrainJob."""

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
            self._metrics.report(Source.PUSH, "invalid")
            raise
        except Forbidden as error:
            log.debug("TrainJob %s: a report is refused: %s", key, error.why)
            return self._refused("forbidden", _failure(403, "Forbidden", str(error)))
        except Refused as error:
            log.debug("TrainJob %s: a report is refused: %s", key, error)
            return self._refused(_RESULTS[error.code], _refusal(error))
        except (Unavailable, KubernetesError) as error:
            why = error.why if isinstance(error, Unavailable) else str(error)
            log.warning("TrainJob %s: a report cannot be taken: %s", key, why)
            return self._refused("failed", self.failure(500))

    def _refused(self, result: str, answer: BoundedAnswer) -> BoundedAnswer:
        self._metrics.report(Source.PUSH, result)
        return answer

    async def _accept(self, call: BoundedCall, key: Key) -> BoundedAnswer:
        if call.too_large:
            raise BodyTooLarge
        reporter = await self._access.check(call.header("Authorization"), key.namespace, key.name)
        value = decode(await call.body())
        if value is None:
            self._metrics.report(Source.PUSH, "empty")
            return BoundedAnswer(200, b"{}", _JSON)
        job = await self._jobs.find(key)
        await self._access.belongs(reporter, job)
        self._limit(uid_of(job))
        report = checked(key, value)
        await self._coalescer.accept(job, report, source=Source.PUSH, pod=reporter.pod)
        return _echo(report.status)

    def _limit(self, uid: str) -> None:
        """Count a report of a TrainJob. Raises TooManyReports."""
        now, seconds = self._time(), 1.0 / REPORTS_A_SECOND
        rate = self._rates.get(uid)
        if rate is None:
            if len(self._rates) >= REMEMBERED:
                self._rates = {one: rate for one, rate in self._rates.items() if not rate.is_full(now, seconds)}
            rate = self._rates[uid] = Allowance(REPORTS_AT_ONCE, now)
        if rate.wait(now, seconds) > 0:
            raise TooManyReports(RETRY_SECONDS)
        rate.take(now, seconds)


_RESULTS = {404: "unknown_job", 422: "invalid", 429: "too_many"}


def _echo(status: TrainerStatus) -> BoundedAnswer:
    return BoundedAnswer(200, _ENCODER.encode(UpdateTrainJobStatusRequest(trainer_status=status)), _JSON)


def _refusal(error: Refused) -> BoundedAnswer:
    headers = _JSON if error.retry_after is None else {**_JSON, "Retry-After": str(error.retry_after)}
    return _failure(error.code, error.reason, str(error), headers)


def _failure(code: int, reason: str, message: str, headers: dict[str, str] = _JSON) -> BoundedAnswer:
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code}
    return BoundedAnswer(code, _ENCODER.encode(status), headers)
