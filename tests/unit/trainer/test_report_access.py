# SPDX-License-Identifier: Apache-2.0
"""Who may report the progress of a TrainJob: tokens by header, and pods by their JobSet."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import pytest
from prometheus_client import CollectorRegistry

from tests.issuers import Signer, claims
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.rights import Rule
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import Unreachable
from trainwright.controller.runtime.testing.clock import jumping, settle
from trainwright.controller.runtime.testing.scripted import (
    ScriptedTransport,
    frame,
    is_list,
    is_watch,
    listing,
    status_body,
)
from trainwright.controller.runtime.tokens.issuer import DISCOVERY, KEYS
from trainwright.controller.trainer.progress.tokens import (
    LABEL_JOBSET_UID,
    Forbidden,
    ReportAccess,
    Reporter,
    Unavailable,
    audience,
)

FOREVER = float("inf")
START = datetime(2026, 11, 22, tzinfo=UTC)
SPACE, JOB = "team", "job"
AUDIENCE = audience(SPACE, JOB)


def is_pod(request: Request) -> bool:
    return request.path == "/api/v1/namespaces/team/pods/node-0"


def is_jobsets(request: Request) -> bool:
    return request.path.endswith("/jobsets")


def jobset(uid: str, owner: str, version: str) -> dict[str, Any]:
    reference = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": JOB, "uid": owner}
    metadata = {"name": JOB, "namespace": SPACE, "uid": uid, "resourceVersion": version}
    return {"metadata": {**metadata, "ownerReferences": [{**reference, "controller": True}]}}


def trainjob(uid: str = "job-uid") -> TrainJob:
    return TrainJob(metadata=ObjectMeta(name=JOB, namespace=SPACE, uid=uid))


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
        self.access = ReportAccess(
            client,
            ClusterConfig(server="https://x"),
            self.cache,
            self.registry,
            jobsets=JobSet,
            now=lambda: START + timedelta(seconds=self.loop.time()),
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
        metadata = {"name": "node-0", "namespace": SPACE, "uid": uid, "labels": labels}
        self.transport.answer(is_pod, {"metadata": metadata}, times=times)

    def count(self, result: str) -> float:
        return self.registry.get_sample_value("trainer_progress_pod_checks_total", {"result": result}) or 0

    def pods_read(self) -> int:
        return sum(map(is_pod, self.transport.requests))

    async def refuse(self, reporter: Reporter, job: TrainJob) -> None:
        with pytest.raises(Forbidden, match=r"^Forbidden$"):
            await self.access.belongs(reporter, job)


OF_POD = Reporter("node-0", "pod-uid", "default", 0)


@jumping
async def test_the_reporter_is_read_from_the_token() -> None:
    async with Cluster() as cluster:
        token = cluster.token(pod=("node-0", "pod-uid"))
        expires = START.timestamp() + 3600
        found = await cluster.access.check(f"Bearer {token}", SPACE, JOB)
        assert found == Reporter(pod="node-0", pod_uid="pod-uid", account="default", expires=expires)
        found = await cluster.access.check(f"Bearer {cluster.token()}", SPACE, JOB)
        assert found == Reporter(pod="", pod_uid="", account="default", expires=expires)


@jumping
async def test_the_scheme_is_bearer_in_any_case_with_one_token() -> None:
    async with Cluster() as cluster:
        token = cluster.token()
        accepted = (f"bEaReR {token}", f"Bearer\t{token}", f"  BEARER   {token}  ")
        for header in accepted:
            await cluster.access.check(header, SPACE, JOB)
        wrong: Iterable[str | None] = (
            None,
            "",
            " ",
            "Bearer",
            "Bearer abc",
            f"Token {token}",
            f"Bearer {token} more",
            token,
            f"Bearer {token[:-4]}",
            f"Bearer, {token}",
            "Basic dXNlcjpwYXNz",
            "Bearer \udcff.\udcff.\udcff",
        )
        for refused_header in wrong:
            with pytest.raises(Forbidden, match=r"^Forbidden$") as refused:
                await cluster.access.check(refused_header, SPACE, JOB)
            assert refused.value.why
            assert token not in refused.value.why


@jumping
async def test_a_token_is_for_one_job_in_its_own_namespace() -> None:
    async with Cluster() as cluster:
        refused = [
            cluster.token(audience(SPACE, "other")),
            cluster.token(audience("other", JOB)),
            cluster.token("https://kubernetes.default.svc"),
            # An audience is chosen by whoever asks for the token; the namespace is not.
            cluster.token(namespace="other"),
            cluster.token(AUDIENCE, **{"kubernetes.io": None}),
        ]
        for token in refused:
            with pytest.raises(Forbidden, match=r"^Forbidden$"):
                await cluster.access.check(f"Bearer {token}", SPACE, JOB)


@jumping
async def test_a_token_without_pod_is_accepted_unless_a_pod_is_required() -> None:
    async with Cluster() as cluster:
        await cluster.access.belongs(await cluster.access.check(f"Bearer {cluster.token()}", SPACE, JOB), trainjob())
    async with Cluster(require_pod=True) as cluster:
        with pytest.raises(Forbidden) as refused:
            await cluster.access.check(f"Bearer {cluster.token()}", SPACE, JOB)
        assert "requirePod" in refused.value.why
        await cluster.access.check(f"Bearer {cluster.token(pod=('node-0', 'pod-uid'))}", SPACE, JOB)


@jumping
async def test_a_pod_is_read_once_in_five_minutes() -> None:
    async with Cluster(jobset("set-uid", "job-uid", "1")) as cluster:
        cluster.has_pod("set-uid", times=1)
        await asyncio.gather(*(cluster.access.belongs(OF_POD, trainjob()) for _ in range(20)))
        await asyncio.sleep(299)
        await cluster.access.belongs(OF_POD, trainjob())
        assert cluster.pods_read() == 1
        request = next(filter(is_pod, cluster.transport.requests))
        assert "PartialObjectMetadata" in request.headers["Accept"]
        assert cluster.count("belongs") == 21
        # It is deleted: refused after five minutes, and read again after thirty seconds.
        cluster.transport.answer(is_pod, status_body(404, "NotFound"), status=404, times=1)
        await asyncio.sleep(1)
        await cluster.refuse(OF_POD, trainjob())
        await asyncio.sleep(29)
        await cluster.refuse(OF_POD, trainjob())
        assert cluster.pods_read() == 2
        assert cluster.count("refused") == 2
        cluster.has_pod("set-uid")
        await asyncio.sleep(1)
        await cluster.access.belongs(OF_POD, trainjob())


@jumping
async def test_pods_of_other_jobs_are_refused() -> None:
    sets = jobset("set-uid", "job-uid", "1")
    for jobset_uid, uid in (("other-set", "pod-uid"), ("", "pod-uid"), ("set-uid", "namesake")):
        async with Cluster(sets) as cluster:
            cluster.has_pod(jobset_uid, uid)
            await cluster.refuse(OF_POD, trainjob())
    # A job that was deleted and created again with its name has another uid, and so has its JobSet.
    async with Cluster(sets) as cluster:
        cluster.has_pod("set-uid")
        await cluster.refuse(OF_POD, trainjob("new-uid"))
        await cluster.access.belongs(OF_POD, trainjob())
        assert cluster.pods_read() == 1


@jumping
async def test_a_pod_counts_as_soon_as_the_cache_holds_its_jobset() -> None:
    async with Cluster() as cluster:
        cluster.has_pod("set-uid")
        await cluster.refuse(OF_POD, trainjob())
        cluster.watch.send(frame("ADDED", jobset("set-uid", "job-uid", "2")))
        await settle()
        await cluster.access.belongs(OF_POD, trainjob())
        cluster.watch.send(frame("DELETED", jobset("set-uid", "job-uid", "3")))
        cluster.watch.send(frame("ADDED", jobset("next-uid", "job-uid", "4")))
        await settle()
        await cluster.refuse(OF_POD, trainjob())
        assert cluster.pods_read() == 1


@jumping
async def test_a_pod_that_cannot_be_read_is_accepted_and_counted(caplog: Any) -> None:
    async with Cluster(jobset("set-uid", "job-uid", "1")) as cluster:
        cluster.transport.answer(is_pod, status_body(500, "InternalError"), status=500, times=1)
        await cluster.access.belongs(OF_POD, trainjob())
        await cluster.access.belongs(OF_POD, trainjob())
        assert cluster.pods_read() == 1
        assert cluster.count("unknown") == 2
        assert "team/node-0 cannot be read" in caplog.text
        await asyncio.sleep(10)
        cluster.transport.answer(is_pod, delay=3600, times=1)
        begin = cluster.loop.time()
        await asyncio.gather(*(cluster.access.belongs(OF_POD, trainjob()) for _ in range(5)))
        assert cluster.loop.time() - begin == 3
        await asyncio.sleep(10)
        cluster.transport.fail(is_pod, Unreachable("refused"), times=1)
        await cluster.access.belongs(OF_POD, trainjob())
        await asyncio.sleep(10)
        cluster.has_pod("other-set")
        await cluster.refuse(OF_POD, trainjob())


@jumping
async def test_a_cluster_without_cached_jobsets_checks_no_pods() -> None:
    async with Cluster() as cluster:
        cluster.has_pod("set-uid")
        access = ReportAccess(
            Client(cluster.transport),
            ClusterConfig(server="https://x"),
            cluster.cache,
            CollectorRegistry(),
            jobsets=Pod,
        )
        await access.belongs(OF_POD, trainjob())


@jumping
async def test_no_answer_of_the_api_server_is_no_refusal() -> None:
    async with Cluster() as cluster:
        transport = ScriptedTransport()
        transport.fail(lambda _: True, Unreachable("refused"), times=FOREVER)
        access = ReportAccess(
            Client(transport),
            ClusterConfig(server="https://x"),
            cluster.cache,
            CollectorRegistry(),
            now=lambda: START,
        )
        with pytest.raises(Unavailable, match=r"^Internal error$") as unavailable:
            await access.check(f"Bearer {cluster.token()}", SPACE, JOB)
        assert "refused" in unavailable.value.why
        assert "refused" in (access.unready() or "")
        with pytest.raises(Forbidden):
            await access.check("Bearer abc", SPACE, JOB)


def test_it_needs_two_rights() -> None:
    assert set(ReportAccess.RULES) == {
        Rule("authentication.k8s.io", "tokenreviews", ("create",), namespaced=False),
        Rule("", "pods", ("get",)),
    }
