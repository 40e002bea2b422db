# SPDX-License-Identifier: Apache-2.0
"""Who may report: real tokens of a real API server, bound to pods of JobSets."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from prometheus_client import CollectorRegistry

from tests.builders import jobset, pod, train_job
from trainwright.api.base import Resource
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_JOBSET_UID
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import Document, key_of, uid_of, wire
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.api.trainer.v1alpha1.progress import report_audience
from trainwright.controller.runtime import Client, ClusterConfig, HTTPTransport, NotFound, load_config
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.runtime.tokens.verifier import DISCOVERY, KEYS
from trainwright.controller.trainer.progress.access import (
    AccessUnknown,
    ReportAccess,
    ReporterForbidden,
    ReportingPod,
)
from trainwright.controller.trainer.progress.writer import StatusWriter

CRDS = Path(__file__).parents[3] / "config" / "crd"
ACCOUNT = Resource(group="", version="v1", kind="ServiceAccount", plural="serviceaccounts", namespaced=True)
REVIEWS = {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
JOBSETS = {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["list", "watch"]}


class Team:
    """A namespace with an account, and jobs whose JobSets and pods the test makes itself."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def job(self, name: str) -> TrainJob:
        """A TrainJob with a JobSet."""
        await self.client.create(wire(train_job(name, self.namespace, uid="")), kind=TrainJob.RESOURCE)
        job = await self.client.get(TrainJob, name, self.namespace)
        await self.client.create(
            wire(jobset(name=name, namespace=self.namespace, uid="", owner=job, replicatedJobs=[])),
            kind=JobSet.RESOURCE,
        )
        return job

    async def pod(self, name: str, job: str) -> None:
        """A pod of the JobSet of a job."""
        jobset = await self.client.get(JobSet, job, self.namespace)
        labels = {LABEL_JOBSET_UID: uid_of(jobset)}
        made = pod(name=name, namespace=self.namespace, labels=labels, serviceAccountName="training")
        await self.client.create(made, kind=Pod.RESOURCE)

    async def token(self, for_job: str, *, pod: str = "", namespace: str = "", audience_: str = "") -> str:
        """A token of the account for reports of a job, bound to a pod or to nothing."""
        spec: Document = {"audiences": [audience_ or report_audience(namespace or self.namespace, for_job)]}
        if pod:
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod}
        made = await self.client.post_subresource(ACCOUNT, "training", self.namespace, "token", {"spec": spec})
        return str(made["status"]["token"])

    async def delete_job(self, name: str) -> None:
        for kind in (JobSet, TrainJob):
            await self.client.delete(kind, name, self.namespace)


@asynccontextmanager
async def accessed(config: ClusterConfig, **options: Any) -> "AsyncIterator[Checked]":
    """The access of a manager with these credentials, after its first look."""
    client = Client(HTTPTransport(config), user_agent=f"reports-{secrets.token_hex(4)}")
    cache = Cache(client)
    cache.informer(JobSet.RESOURCE)
    checked = Checked(client, config, cache, options)
    tasks = [asyncio.create_task(cache.run()), asyncio.create_task(checked.access.run())]
    try:
        await cache.wait_synced()
        await eventually(checked.has_looked)
        yield checked
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()


class Checked:
    """An access whose clock stands still until a test turns it, and what it says of reports."""

    def __init__(self, client: Client, config: ClusterConfig, cache: Cache, options: dict[str, Any]) -> None:
        self.clock = 0.0
        self.cache = cache
        self.registry = CollectorRegistry()
        self.access = ReportAccess(client, config, cache, self.registry, time=lambda: self.clock, **options)

    async def report(self, token: str, job: TrainJob) -> ReportingPod:
        """As the status server asks."""
        reporter = await self.access.check(f"Bearer {token}", job.namespace, job.name)
        await self.access.belongs(reporter, job)
        return reporter

    async def refused(self, token: str, job: TrainJob) -> str:
        with pytest.raises(ReporterForbidden) as refused:
            await self.report(token, job)
        return refused.value.why

    async def knows(self, job: TrainJob) -> None:
        """Wait until the cache holds the JobSet of a job."""
        await eventually(lambda: bool(self.cache.controlled_by(JobSet.RESOURCE, uid_of(job))))

    def has_looked(self) -> bool:
        """Whether the first look at the keys, and at TokenReviews if there are none, is over."""
        return "no TokenReview has been tried" not in (self.access.unready() or "")

    def unknown_pods(self) -> float:
        return self.registry.get_sample_value("trainer_progress_pod_checks_total", {"result": "unknown"}) or 0


@pytest.fixture
async def team(with_jobsets: ControlPlane, namespace: str) -> AsyncIterator[Team]:
    async with team_of(with_jobsets, namespace) as found:
        yield found


@asynccontextmanager
async def team_of(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Team]:
    client = Client(HTTPTransport(load_config(control_plane.kubeconfig)), user_agent="test")
    try:
        await client.create({"metadata": {"name": "training", "namespace": namespace}}, kind=ACCOUNT)
        yield Team(client, namespace)
    finally:
        await client.close()


@pytest.fixture
async def checked(with_jobsets: ControlPlane, namespace: str) -> AsyncIterator[Checked]:
    """The access of an account with the rights that a manager has."""
    token = with_jobsets.users.add_service_account("manager", namespace, rules=[REVIEWS, PODS, JOBSETS])
    config = load_config(with_jobsets.users.kubeconfig_with_token(f"manager-{namespace}", token))
    async with accessed(config) as found:
        yield found


async def test_pods_report_their_own_job_only(team: Team, checked: Checked) -> None:
    job, other = await team.job("job"), await team.job("other")
    await team.pod("job-0", "job")
    await team.pod("other-0", "other")
    await checked.knows(job)
    await checked.knows(other)
    reporter = await checked.report(await team.token("job", pod="job-0"), job)
    assert (reporter.pod, reporter.account) == ("job-0", "training")
    pod = await team.client.get(Pod, "job-0", team.namespace)
    assert reporter.pod_uid == uid_of(pod)
    # A token without a pod; see P-22.
    assert not (await checked.report(await team.token("job"), job)).pod_uid
    refused = {
        "of the pod of another job": await team.token("job", pod="other-0"),
        "for another job": await team.token("other", pod="job-0"),
        "for another namespace": await team.token("job", pod="job-0", namespace="other"),
        "for the API server": await team.token("job", pod="job-0", audience_="https://kubernetes.default.svc"),
        "changed": (await team.token("job", pod="job-0"))[:-8] + "AAAAAAAA",
    }
    for what, token in refused.items():
        assert await checked.refused(token, job), what


async def test_a_token_of_another_namespace_with_this_audience_is_refused(
    with_jobsets: ControlPlane, team: Team, checked: Checked
) -> None:
    job = await team.job("job")
    async with team_of(with_jobsets, with_jobsets.create_namespace()) as strangers:
        token = await strangers.token("job", namespace=team.namespace)
        assert "another namespace" in await checked.refused(token, job)


async def test_pods_that_are_gone_are_refused(team: Team, checked: Checked) -> None:
    job = await team.job("job")
    await team.pod("job-0", "job")
    await checked.knows(job)
    token = await team.token("job", pod="job-0")
    await checked.report(token, job)
    await team.delete_job("job")
    namesake = await team.job("job")
    await checked.knows(namesake)
    # The pod still runs, and its JobSet has the old uid.
    assert "does not belong" in await checked.refused(token, namesake)
    await team.client.delete(Pod, "job-0", team.namespace, grace_period=0)
    await team.pod("job-0", "job")
    checked.clock += 300
    assert "does not belong" in await checked.refused(token, namesake)
    await checked.report(await team.token("job", pod="job-0"), namesake)


async def test_a_report_of_a_deleted_job_never_reaches_its_namesake(team: Team) -> None:
    before = await team.job("job")
    await team.delete_job("job")
    namesake = await team.job("job")
    key, write = key_of(namesake), StatusWriter(team.client, lambda _: before)  # the cache is behind
    report = TrainerStatus(progress_percentage=90, last_updated_time="2026-05-06T07:08:09Z")
    with pytest.raises(NotFound):
        await write(key, uid_of(before), report)
    stored = await team.client.get(TrainJob, "job", team.namespace)
    assert stored.status is None or stored.status.trainer_status is None
    await write(key, uid_of(namesake), report)
    await team.delete_job("job")
    with pytest.raises(NotFound):  # and makes no job that is gone
        await write(key, uid_of(namesake), report)


async def test_requiring_pods_refuses_tokens_without_one(with_jobsets: ControlPlane, team: Team) -> None:
    job = await team.job("job")
    await team.pod("job-0", "job")
    async with accessed(load_config(with_jobsets.kubeconfig), require_pod=True) as checked:
        await checked.knows(job)
        assert "requirePod" in await checked.refused(await team.token("job"), job)
        await checked.report(await team.token("job", pod="job-0"), job)


async def test_keys_come_from_the_api_server_and_not_from_the_named_address(
    with_jobsets: ControlPlane, team: Team, checked: Checked
) -> None:
    answer = await team.client.send(Request("GET", DISCOVERY, headers={"Accept": "application/json"}))
    named = msgspec.json.decode(answer.body)["jwks_uri"]
    if with_jobsets.url + KEYS != named:  # the local API server names itself
        assert not named.startswith("https://127.0.0.1"), "an address that this test does not reach"
    job = await team.job("job")
    assert not (await checked.report(await team.token("job"), job)).pod_uid


async def test_a_pod_whose_read_fails_is_accepted(with_jobsets: ControlPlane, team: Team, namespace: str) -> None:
    job = await team.job("job")
    await team.pod("job-0", "job")
    token = with_jobsets.users.add_service_account("blind", namespace, rules=[REVIEWS, JOBSETS])
    async with accessed(load_config(with_jobsets.users.kubeconfig_with_token(f"blind-{namespace}", token))) as checked:
        await checked.knows(job)
        await checked.report(await team.token("job", pod="job-0"), job)
        assert checked.unknown_pods() == 1


@pytest.mark.timeout(300)
@pytest.mark.real_control_plane("starts and stops it")
async def test_rights_and_keys_of_the_real_api_server(jobset_crd: Path) -> None:
    """What the local API server does not have: keys that an administrator exchanges."""
    with ControlPlane(crds=[CRDS, jobset_crd], audit=True) as own:
        await _tokens_are_reviewed_without_the_keys(own)
        await _a_new_signing_key_is_found(own)


async def _tokens_are_reviewed_without_the_keys(own: ControlPlane) -> None:
    """RBAC decides: users who may not read the keys, with and without the right to TokenReviews, and not to pods."""
    async with team_of(own, own.create_namespace()) as team:
        job = await team.job("job")
        await team.pod("job-0", "job")
        token = await team.token("job", pod="job-0")
        reviewer = own.add_user("reviewer", rules=[REVIEWS, PODS, JOBSETS])
        async with accessed(load_config(reviewer)) as checked:
            assert checked.access.unready() is None
            await checked.knows(job)
            for _ in range(3):
                assert (await checked.report(token, job)).pod == "job-0"
            assert "not signed" in await checked.refused(token[:-8] + "AAAAAAAA", job)
            asked = [call.resource for call in own.audit_log.calls(user="reviewer")]
            assert asked.count("tokenreviews") == 3, "a probe, one of each token"
        powerless = own.add_user("powerless", rules=[JOBSETS])
        async with accessed(load_config(powerless)) as checked:
            reason = checked.access.unready() or ""
            assert KEYS in reason
            assert "tokenreviews" in reason
            with pytest.raises(AccessUnknown):
                await checked.report(token, job)
            with pytest.raises(ReporterForbidden):
                await checked.access.check("Bearer abc", team.namespace, "job")
        account = own.users.add_service_account("no-pods", team.namespace, rules=[REVIEWS, JOBSETS])
        async with accessed(load_config(own.users.kubeconfig_with_token("no-pods", account))) as checked:
            await checked.report(token, job)
            assert checked.unknown_pods() == 1


async def _a_new_signing_key_is_found(own: ControlPlane) -> None:
    """ES256 before, RS256 after; the first report with the new key finds it."""
    async with team_of(own, own.create_namespace()) as team:
        job = await team.job("job")
        account = own.users.add_service_account("manager", team.namespace, rules=[REVIEWS, PODS, JOBSETS])
        async with accessed(load_config(own.users.kubeconfig_with_token("manager", account))) as checked:
            old = await team.token("job")
            assert (await checked.report(old, job)).account == "training"
            _exchange_key(own)
            await asyncio.to_thread(own.restart, "kube-apiserver")
            new = await team.token("job")
            assert "not signed" in await checked.refused(new, job)
            checked.clock += 10
            await checked.report(new, job)
            await checked.report(old, job)


def _exchange_key(control_plane: ControlPlane) -> None:
    """Let the API server sign with an RSA key. The former key stays public, or the manager's own token would end."""
    files = control_plane._running.files.service_account_key
    key = rsa.generate_private_key(65537, 2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    files[0].write_bytes(private)
    files[1].write_bytes(public + files[1].read_bytes())
