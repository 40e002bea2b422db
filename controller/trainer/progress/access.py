# SPDX-License-Identifier: Apache-2.0
"""Decides who may report the progress of a TrainJob.

A report carries a token for exactly this TrainJob, which the kubelet puts into the training pods. A token that is
bound to a pod counts only while this pod belongs to this TrainJob: not for a deleted TrainJob of the same name, and not
for pods of an earlier JobSet of it.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from prometheus_client import CollectorRegistry

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET_UID
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import labels_of, uid_of
from trainwright.api.rights import Rule
from trainwright.api.times import Now, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.progress import report_audience
from trainwright.controller.runtime import Client, ClusterConfig, Kind, KubernetesError, MetadataOnly, NotFound
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.errors import CacheError, TokenRefused, TokensUnavailable
from trainwright.controller.runtime.metrics.series import LabelledCounter
from trainwright.controller.runtime.tokens.reviews import TokenMemory
from trainwright.controller.runtime.tokens.verifier import TokenVerifier, own_token

log = logging.getLogger(__name__)

POD_SECONDS = 300.0
"""How long a pod is remembered: after its deletion its token is accepted for at most so long."""
REFUSED_SECONDS = 30.0
UNKNOWN_SECONDS = 10.0
"""Pause after a pod that could not be read."""
LIMIT_SECONDS = 3.0
"""Longest time that reading a pod takes; clients wait five seconds for the answer to a report."""
REMEMBERED = 10_000


class ReporterForbidden(Exception):  # noqa: N818 - named after the reason of its answer
    """The reporter may not report. The text is the message of the answer; `why` is for logs."""

    def __init__(self, message: str = "Forbidden", *, why: str = "") -> None:
        super().__init__(message)
        self.why = why or message


class AccessUnknown(Exception):  # noqa: N818 - as above
    """Nothing can be decided now. The text is the message of the answer; `why` is for logs."""

    def __init__(self, message: str = "Internal error", *, why: str = "") -> None:
        super().__init__(message)
        self.why = why or message


@dataclass(frozen=True, slots=True)
class ReportingPod:
    pod: str
    """Name of the pod that the token is bound to; empty: the token is bound to none."""
    pod_uid: str
    account: str
    expires: float
    """When the token ends, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class _Seen:
    jobset: str = ""
    """Uid of its JobSet; empty if the pod does not exist or has none."""
    problem: str = ""
    """Why the pod could not be read."""


class ReportAccess:
    """Checks tokens and pods. It is a runnable: `run` reads the API server's keys and keeps them current."""

    RULES = (*TokenVerifier.RULES, Rule.on(Pod.RESOURCE, "get"))

    def __init__(
        self,
        client: Client,
        config: ClusterConfig,
        cache: Cache,
        registry: CollectorRegistry,
        *,
        jobsets: Kind = JobSet.RESOURCE,
        require_pod: bool = False,
        now: Now = wall_clock,
        time: Callable[[], float] | None = None,
    ) -> None:
        """Create it inside a running event loop.

        `config` names the token of this process, whose issuer is accepted. `require_pod`: refuse tokens that are bound
        to no pod. Tokens expire by `now`; `time` never goes back.
        """
        clock = time or asyncio.get_running_loop().time
        self._client = client
        self._cache = cache
        self._jobsets = jobsets
        self._require_pod = require_pod
        self._verifier = TokenVerifier(client, own=lambda: own_token(config), now=now, time=clock)
        self._pods: TokenMemory[str, tuple[_Seen, datetime]] = TokenMemory(REMEMBERED, time=clock)
        self._now = now
        self._reading: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        text = "Reports by whether their pod belongs to the TrainJob; unknown ones are accepted."
        results = ("belongs", "refused", "unknown")
        self._checks = LabelledCounter("trainer_progress_pod_checks", text, registry, result=results)

    async def run(self) -> None:
        await self._verifier.run()

    def unready(self) -> str | None:
        """Why no report can be accepted; None: reports can."""
        return self._verifier.unready()

    async def check(self, authorization: str | None, namespace: str, name: str) -> ReportingPod:
        """Who reports the progress of a TrainJob, which need not exist, by the header Authorization.

        Raises:
            ReporterForbidden: there is no valid token for this TrainJob.
            AccessUnknown: tokens cannot be checked now.
        """
        fields = (authorization or "").split()
        if len(fields) != 2 or fields[0].lower() != "bearer":
            raise ReporterForbidden(why="the Authorization header is missing or is not a bearer token")
        try:
            claims = await self._verifier.verify(fields[1], report_audience(namespace, name))
        except TokenRefused as error:
            raise ReporterForbidden(why=str(error)) from None
        except TokensUnavailable as error:
            raise AccessUnknown(why=str(error)) from None
        said = claims.kubernetes
        if said.namespace != namespace:
            raise ReporterForbidden(why="the token is of another namespace")
        if self._require_pod and not said.pod.uid:
            raise ReporterForbidden(why="the token is bound to no pod, and requirePod is set")
        return ReportingPod(said.pod.name, said.pod.uid, said.serviceaccount.name, claims.exp)

    async def belongs(self, reporter: ReportingPod, job: TrainJob) -> None:
        """Check that the pod of a reporter belongs to the TrainJob; a reporter without a pod is accepted.

        A pod that cannot be read is accepted too, because the token is valid; the metric counts it.

        Raises ReporterForbidden: the pod belongs to another TrainJob, or does not exist any longer.
        """
        if not reporter.pod_uid:
            return
        seen = self._remembered(reporter.pod_uid)
        if seen is None:
            seen = await self._look(reporter, job.namespace)
        jobsets = self._jobsets_of(job)
        if seen.problem or jobsets is None:
            self._checks.inc("unknown")
        elif seen.jobset and seen.jobset in jobsets:
            self._checks.inc("belongs")
        else:
            self._checks.inc("refused")
            raise ReporterForbidden(why=f"pod {reporter.pod} does not belong to TrainJob {job.namespace}/{job.name}")

    def _remembered(self, pod_uid: str) -> _Seen | None:
        """What is known of a pod. By both clocks: one may be set back, and the other stops while the machine sleeps."""
        held = self._pods.get(pod_uid)
        return held[0] if held is not None and self._now() < held[1] else None

    def _jobsets_of(self, job: TrainJob) -> set[str] | None:
        """Uids of the JobSets of a TrainJob, or None if the cache cannot tell."""
        try:
            return {uid_of(jobset) for jobset in self._cache.controlled_by(self._jobsets, uid_of(job))}
        except CacheError as error:
            log.warning("the pods of reports are not checked: %s", error)
            return None

    async def _look(self, reporter: ReportingPod, namespace: str) -> _Seen:
        """Read a pod; once for reports that arrive at the same time."""
        lock = self._reading[reporter.pod_uid]
        try:
            async with lock:
                seen = self._remembered(reporter.pod_uid)
                if seen is None:
                    seen = await self._read(reporter, namespace)
                    seconds = UNKNOWN_SECONDS if seen.problem else POD_SECONDS if seen.jobset else REFUSED_SECONDS
                    until = self._now() + timedelta(seconds=seconds)
                    self._pods.put(reporter.pod_uid, (seen, until), seconds)
                return seen
        finally:
            if not lock.locked():
                self._reading.pop(reporter.pod_uid, None)

    async def _read(self, reporter: ReportingPod, namespace: str) -> _Seen:
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                pod = await self._client.get(MetadataOnly(Pod), reporter.pod, namespace)
        except NotFound:
            return _Seen()
        except (KubernetesError, TimeoutError) as error:
            said = str(error) or f"no answer within {LIMIT_SECONDS:g} s"
            log.warning("Pod %s/%s cannot be read, so its report is accepted: %s", namespace, reporter.pod, said)
            return _Seen(problem=said)
        if uid_of(pod) != reporter.pod_uid:
            return _Seen()
        return _Seen(labels_of(pod).get(LABEL_JOBSET_UID, ""))
