# SPDX-License-Identifier: Apache-2.0
"""Who may report the progress of a TrainJob: tokens by header, and pods by their JobSet."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.assertions import does_not_raise
from tests.unit.trainer.reporting import AUDIENCE, FOREVER, JOB, SPACE, START, Cluster, is_pod, jobset, trainjob
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.rights import Rule
from trainwright.api.trainer.v1alpha1.progress import report_audience
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.errors import Unreachable
from trainwright.controller.runtime.testing.clock import jumping, settle
from trainwright.controller.runtime.testing.scripted import (
    ScriptedTransport,
    frame,
    status_body,
)
from trainwright.controller.trainer.progress.access import (
    AccessUnknown,
    ReportAccess,
    ReporterForbidden,
    ReportingPod,
)

OF_POD = ReportingPod("node-0", "pod-uid", "default", 0)


@jumping
async def test_the_reporter_is_read_from_the_token() -> None:
    async with Cluster() as cluster:
        token = cluster.token(pod=("node-0", "pod-uid"))
        expires = START.timestamp() + 3600
        found = await cluster.access.check(f"Bearer {token}", SPACE, JOB)
        assert found == ReportingPod(pod="node-0", pod_uid="pod-uid", account="default", expires=expires)
        found = await cluster.access.check(f"Bearer {cluster.token()}", SPACE, JOB)
        assert found == ReportingPod(pod="", pod_uid="", account="default", expires=expires)


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
            with pytest.raises(ReporterForbidden, match=r"^Forbidden$") as refused:
                await cluster.access.check(refused_header, SPACE, JOB)
            assert refused.value.why
            assert token not in refused.value.why


@jumping
async def test_a_token_is_for_one_job_in_its_own_namespace() -> None:
    async with Cluster() as cluster:
        refused = [
            cluster.token(report_audience(SPACE, "other")),
            cluster.token(report_audience("other", JOB)),
            cluster.token("https://kubernetes.default.svc"),
            # An audience is chosen by whoever asks for the token; the namespace is not.
            cluster.token(namespace="other"),
            cluster.token(AUDIENCE, **{"kubernetes.io": None}),
        ]
        for token in refused:
            with pytest.raises(ReporterForbidden, match=r"^Forbidden$"):
                await cluster.access.check(f"Bearer {token}", SPACE, JOB)


@jumping
async def test_a_token_without_pod_is_accepted_unless_a_pod_is_required() -> None:
    async with Cluster() as cluster:
        await cluster.access.belongs(await cluster.access.check(f"Bearer {cluster.token()}", SPACE, JOB), trainjob())
    async with Cluster(require_pod=True) as cluster:
        with pytest.raises(ReporterForbidden) as refused:
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
async def test_a_pod_is_read_again_after_the_machine_has_slept() -> None:
    """The clock of the event loop stands still meanwhile."""
    async with Cluster(jobset("set-uid", "job-uid", "1")) as cluster:
        cluster.has_pod("set-uid", times=1)
        token = cluster.token()
        await cluster.access.belongs(OF_POD, trainjob())
        cluster.transport.answer(is_pod, status_body(404, "NotFound"), status=404, times=1)
        cluster.asleep = 299
        await cluster.access.belongs(OF_POD, trainjob())
        cluster.asleep = 8 * 3600
        await cluster.refuse(OF_POD, trainjob())
        with pytest.raises(ReporterForbidden):
            await cluster.access.check(f"Bearer {token}", SPACE, JOB)
        # The clock of the wall is set back: what is remembered does not last longer.
        cluster.asleep = -3600
        cluster.has_pod("set-uid")
        await asyncio.sleep(31)
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
        with does_not_raise():
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
        with pytest.raises(AccessUnknown, match=r"^Internal error$") as unavailable:
            await access.check(f"Bearer {cluster.token()}", SPACE, JOB)
        assert "refused" in unavailable.value.why
        assert "refused" in (access.unready() or "")
        with pytest.raises(ReporterForbidden):
            await access.check("Bearer abc", SPACE, JOB)


def test_it_needs_two_rights() -> None:
    assert set(ReportAccess.RULES) == {
        Rule("authentication.k8s.io", "tokenreviews", ("create",), namespaced=False),
        Rule("", "pods", ("get",)),
    }
