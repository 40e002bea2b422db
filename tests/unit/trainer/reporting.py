# SPDX-License-Identifier: Apache-2.0
"""A scripted API server with what decides who may report, for the tests of it."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import pytest
from prometheus_client import CollectorRegistry

from tests import builders
from tests.builders import pod, train_job
from tests.issuers import Signer, claims
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET_UID
from trainwright.api.objects import wire
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.progress import report_audience
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing.clock import settle
from trainwright.controller.runtime.testing.scripted import (
    ScriptedTransport,
    is_list,
    is_watch,
    listing,
)
from trainwright.controller.runtime.tokens.verifier import DISCOVERY, KEYS
from trainwright.controller.trainer.progress.access import ReportAccess, ReporterForbidden, ReportingPod

FOREVER = float("inf")
START = datetime(2026, 11, 22, tzinfo=UTC)
SPACE, JOB = "team", "job"
AUDIENCE = report_audience(SPACE, JOB)


def is_pod(request: Request) -> bool:
    return request.path == "/api/v1/namespaces/team/pods/node-0"


def is_jobsets(request: Request) -> bool:
    return request.path.endswith("/jobsets")


def jobset(uid: str, owner: str, version: str) -> dict[str, Any]:
    return wire(builders.jobset(name=JOB, namespace=SPACE, uid=uid, version=version, owner=trainjob(owner)))


def trainjob(uid: str = "job-uid") -> TrainJob:
    return train_job(JOB, SPACE, uid=uid)


class Cluster:
    """A scripted API server with a key, JobSets and a pod."""

    def __init__(self, *jobsets: dict[str, Any], signer: Signer | None = None, **options: Any) -> None:
        self.signer = signer or Signer()
        self.transport = ScriptedTransport()
        self.transport.answer(lambda r: r.path == KEYS, {"keys": [self.signer.public()]}, times=FOREVER)
        self.transport.answer(
            lambda r: r.path == DISCOVERY, {"issuer": "https://kubernetes.default.svc"}, times=FOREVER
        )
        self.transport.answer(lambda r: is_jobsets(r) and is_list(r), listing("1", *jobsets))
        self.watch = self.transport.stream(lambda r: is_jobsets(r) and is_watch(r))
        client = Client(self.transport)
        self.cache = Cache(client, streaming=False)
        self.cache.informer(JobSet)
        self.registry = CollectorRegistry()
        self.loop = asyncio.get_running_loop()
        self.asleep = 0.0
        """Seconds that the machine slept, in which the clock of the loop stood still."""
        self.access = ReportAccess(
            client,
            ClusterConfig(server="https://x"),
            self.cache,
            self.registry,
            jobsets=JobSet,
            now=lambda: START + timedelta(seconds=self.loop.time() + self.asleep),
            **options,
        )
        self.task = asyncio.ensure_future(self.cache.run())

    async def __aenter__(self) -> Self:
        await settle()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def token(self, for_: str = AUDIENCE, /, **changes: Any) -> str:
        made = claims(for_, now=START.timestamp() + self.loop.time(), **{"namespace": SPACE, **changes})
        return self.signer.sign(made)

    def has_pod(self, jobset_uid: str, uid: str = "pod-uid", *, times: float = FOREVER) -> None:
        labels = {LABEL_JOBSET_UID: jobset_uid} if jobset_uid else {}
        self.transport.answer(is_pod, pod(name="node-0", namespace=SPACE, uid=uid, labels=labels), times=times)

    def count(self, result: str) -> float:
        return self.registry.get_sample_value("trainer_progress_pod_checks_total", {"result": result}) or 0

    def pods_read(self) -> int:
        return sum(map(is_pod, self.transport.requests))

    async def refuse(self, reporter: ReportingPod, job: TrainJob) -> None:
        with pytest.raises(ReporterForbidden, match=r"^Forbidden$"):
            await self.access.belongs(reporter, job)
