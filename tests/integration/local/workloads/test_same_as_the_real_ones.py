# SPDX-License-Identifier: Apache-2.0
"""Our controllers make what kube-controller-manager, kube-scheduler and JobSet's manager make, and say the same."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import pytest

from tests.integration.local.workloads.comparison import Note, Scenario, compare
from tests.integration.local.workloads.conftest import CONTAINER, World, conditions, job_spec, living
from trainwright.api.objects import Document, name_of, uid_of
from trainwright.controller.local.workloads import WORKLOADS
from trainwright.controller.local.workloads.jobset.webhooks import configurations, handlers
from trainwright.controller.local.workloads.kinds import CONFIG_MAP, JOB, JOBSET, POD
from trainwright.controller.runtime import Client, HTTPTransport, Webhooks, load_config
from trainwright.controller.runtime.client.writes import Propagation
from trainwright.controller.runtime.errors import Invalid
from trainwright.controller.runtime.metrics.registry import Metrics
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.binaries import provide
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.webhook.webhooks import ByURL

Worlds: TypeAlias = tuple[World, World]
_LARGE = re.compile(r": \[\{.*\}\]")
"""A value that is shown as JSON. Go writes the fields in the order of the struct."""
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def with_real_ones() -> Iterator[ControlPlane]:
    """The real controllers, without KWOK: the test plays the kubelet in both worlds."""
    with ControlPlane(controller_manager=True, scheduler=True, jobset=True) as running:
        yield running


@pytest.fixture(scope="module")
def with_ours() -> Iterator[ControlPlane]:
    """An API server for our controllers and webhooks."""
    with ControlPlane(crds=[provide(["jobset-manager"]).manifests["jobset-crd.yaml"]]) as running:
        yield running


@pytest.fixture
async def worlds(with_real_ones: ControlPlane, with_ours: ControlPlane) -> AsyncIterator[Worlds]:
    """The same namespace on both servers."""
    namespace = f"compared-{next(_numbers)}"
    async with AsyncExitStack() as stack:
        found = []
        for control_plane, workloads in ((with_real_ones, ()), (with_ours, tuple(WORKLOADS))):
            control_plane.kubectl("create", "namespace", namespace)
            world = living(control_plane, namespace, workloads, everywhere=True)
            found.append(await stack.enter_async_context(world))
        await stack.enter_async_context(jobset_webhooks(with_ours))
        yield found[0], found[1]


@asynccontextmanager
async def jobset_webhooks(control_plane: ControlPlane) -> AsyncIterator[None]:
    """Our webhooks of JobSet, registered by URL."""
    client = Client(HTTPTransport(load_config(control_plane.kubeconfig)), user_agent="webhooks")
    port = free_port()
    hooks = Webhooks(
        client,
        Metrics().registry,
        f"127.0.0.1:{port}",
        configurations=configurations(),
        certificates=ByURL(url=f"https://127.0.0.1:{port}"),
    )
    for path, handler in handlers(client).items():
        hooks.server.handle(path, handler)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(hooks.run())
        while await hooks.unready() is not None:
            await asyncio.wait({task}, timeout=0.1)
        yield
        task.cancel()
    await client.close()


# ---------------------------------------------------------------------- documents


def replicated(name: str, replicas: int = 1, pods: int = 1, **fields: Any) -> Document:
    job = {"completions": pods, "parallelism": pods, "backoffLimit": 0, "template": template(), **fields}
    return {"name": name, "replicas": replicas, "template": {"spec": job}}


def template(**fields: Any) -> Document:
    return {
        "metadata": {"labels": {"mine": "yes"}, "annotations": {"note": "kept"}},
        "spec": {"containers": [CONTAINER], "terminationGracePeriodSeconds": 1, **fields},
    }


async def ended(world: World, name: str = "train") -> None:
    await world.until(JOBSET, name, lambda js: {"Completed", "Failed"} & conditions(js).keys())


async def job_ended(world: World, name: str = "job") -> None:
    await world.until(JOB, name, lambda job: {"Complete", "Failed"} & conditions(job).keys())


def of(pods: list[Document], prefix: str) -> list[Document]:
    return [pod for pod in pods if name_of(pod).startswith(prefix)]


# ---------------------------------------------------------------------- JobSets


async def jobset_completes(world: World, note: Note) -> None:
    first = replicated("first", replicas=2, pods=2)
    first["groupName"] = "one"
    first["template"]["metadata"] = {"labels": {"job": "label"}, "annotations": {"job": "annotation"}}
    second = replicated("second", backoffLimit=3)
    coordinator = {"replicatedJob": "first", "jobIndex": 1, "podIndex": 1}
    await world.create(JOBSET, "train", {"replicatedJobs": [first, second], "coordinator": coordinator})
    pods = await world.running(5)
    await note("running")
    world.end(*of(pods, "train-first-0"))
    await world.until(JOBSET, "train", lambda js: any(c["succeeded"] for c in js["status"]["replicatedJobsStatus"]))
    await note("one Job is complete")
    world.end(*pods)
    await ended(world)
    await note("complete")


async def jobset_fails(world: World, note: Note) -> None:
    await world.create(JOBSET, "train", {"replicatedJobs": [replicated("a"), replicated("b", pods=2)]})
    pods = await world.running(3)
    world.end(*of(pods, "train-a-0"), code=3)
    await ended(world)
    await world.running(0)
    await note("failed")


async def jobset_restarts(world: World, note: Note) -> None:
    rules = [{"action": "RestartJobSetAndIgnoreMaxRestarts", "targetReplicatedJobs": ["b"]}]
    policy = {"maxRestarts": 1, "rules": rules}
    jobs = [replicated("a"), replicated("b")]
    await world.create(JOBSET, "train", {"replicatedJobs": jobs, "failurePolicy": policy})
    for attempt, job in enumerate(("b", "a", "a")):
        label = f"jobset.sigs.k8s.io/restart-attempt={attempt}"
        pods = await world.running(2, label)
        await note(f"attempt {attempt}")
        world.end(*of(pods, f"train-{job}-0"), code=1)
    await ended(world)
    await note("failed")


async def jobset_is_suspended(world: World, note: Note) -> None:
    await world.create(JOBSET, "train", {"replicatedJobs": [replicated("a", pods=2)], "suspend": True})
    await world.until(JOB, "train-a-0", lambda job: "Suspended" in conditions(job))
    await note("suspended")
    jobset = await world.until(JOBSET, "train", bool)
    jobs = jobset["spec"]["replicatedJobs"]
    pod = jobs[0]["template"]["spec"]["template"]
    pod["metadata"]["labels"] = {"new": "label"}
    pod["spec"] |= {"nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "a", "operator": "Exists"}]}
    await world.client.patch(JOBSET, "train", world.namespace, {"spec": {"suspend": False, "replicatedJobs": jobs}})
    await world.running(2)
    await note("resumed")
    await world.client.patch(JOBSET, "train", world.namespace, {"spec": {"suspend": True}})
    await world.pods(lambda pods: not pods)
    await note("suspended again")
    await world.client.patch(JOBSET, "train", world.namespace, {"spec": {"suspend": False}})
    world.end(*await world.running(2))
    await ended(world)
    await note("complete")


async def jobset_starts_in_order(world: World, note: Note) -> None:
    spec = {
        "replicatedJobs": [replicated("a"), replicated("b")],
        "startupPolicy": {"startupPolicyOrder": "InOrder"},
        "successPolicy": {"operator": "Any", "targetReplicatedJobs": ["b"]},
    }
    await world.create(JOBSET, "train", spec)
    pods = await world.running(2)
    await note("running")
    world.end(*of(pods, "train-b-0"))
    await ended(world)
    await world.running(0)
    await note("complete")


async def jobset_is_alone_in_its_domain(world: World, note: Note) -> None:
    exclusive = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "kubernetes.io/hostname"}
    jobs = [replicated("a", pods=2, backoffLimit=5)]
    await world.create(JOBSET, "first", {"replicatedJobs": jobs}, annotations=exclusive)
    await world.running(2)
    await world.create(JOBSET, "second", {"replicatedJobs": jobs}, annotations=exclusive)
    await world.pods(lambda pods: "Unschedulable" in str(of(pods, "second")))
    await note("one Job runs, the other waits")


async def jobset_depends(world: World, note: Note) -> None:
    b, c = replicated("b"), replicated("c")
    b["dependsOn"] = [{"name": "a", "status": "Complete"}]
    c["dependsOn"] = [{"name": "b", "status": "Ready"}]
    await world.create(JOBSET, "train", {"replicatedJobs": [replicated("a"), b, c]})
    pods = await world.running(1)
    await note("the first runs")
    world.end(*pods)
    pods = await world.running(2)
    await note("the others run")
    world.end(*pods)
    await ended(world)
    await note("complete")


# ---------------------------------------------------------------------- Jobs


async def job_counts(world: World, note: Note) -> None:
    spec = job_spec(completions=3, parallelism=2)
    await world.create(JOB, "job", spec, labels={"own": "label"})
    pods = await world.running(2)
    await note("two run")
    world.end(pods[0])
    await world.pods(lambda pods: len(pods) == 3)
    pods = await world.running(2)
    await note("one has succeeded")
    world.end(*pods)
    await job_ended(world)
    await note("complete")


async def job_fails(world: World, note: Note) -> None:
    await world.create(JOB, "job", job_spec(completions=2, parallelism=2, completionMode="Indexed", backoffLimit=0))
    pods = await world.running(2)
    world.end(of(pods, "job-1-")[0], code=7)
    await job_ended(world)
    await world.running(0)
    await note("failed")


async def job_has_restarts(world: World, note: Note) -> None:
    spec = job_spec(backoffLimit=2)
    spec["template"]["spec"]["restartPolicy"] = "OnFailure"
    await world.create(JOB, "job", spec)
    (pod,) = await world.running(1)
    world.kubelet.restart(world.namespace, name_of(pod), 1)
    await note("one restart")
    world.kubelet.restart(world.namespace, name_of(pod), 2)
    await job_ended(world)
    await world.running(0)
    await note("failed")


async def job_has_a_policy(world: World, note: Note) -> None:
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}},
    ]
    await world.create(JOB, "job", job_spec(parallelism=2, completions=2, podFailurePolicy={"rules": rules}))
    pods = await world.running(2)
    await note("running")
    world.end(pods[0], code=42)
    await job_ended(world)
    await world.running(0)
    await note("failed")


async def job_is_overdue(world: World, note: Note) -> None:
    await world.create(JOB, "job", job_spec(activeDeadlineSeconds=2))
    await world.running(1)
    await job_ended(world)
    await world.running(0)
    await note("failed")


async def job_loses_a_pod(world: World, note: Note) -> None:
    await world.create(JOB, "job", job_spec(completionMode="Indexed", completions=1, parallelism=1))
    (pod,) = await world.running(1)
    await world.client.delete(POD, name_of(pod), world.namespace)
    await world.pods(lambda pods: name_of(pod) not in [name_of(p) for p in pods])
    await note("lost")


async def job_shrinks(world: World, note: Note) -> None:
    await world.create(JOB, "job", job_spec(completions=4, parallelism=3))
    await world.running(3)
    await world.client.patch(JOB, "job", world.namespace, {"spec": {"parallelism": 1}})
    await world.pods(lambda pods: len(pods) == 1)
    await note("one is left")


async def job_has_no_room(world: World, note: Note) -> None:
    spec = job_spec()
    spec["template"]["spec"]["containers"] = [{**CONTAINER, "resources": {"requests": {"cpu": "99"}}}]
    await world.create(JOB, "job", spec)
    await world.pods(lambda pods: any("Unschedulable" in str(pod["status"]) for pod in pods))
    await note("no room")


async def pods_have_no_place(world: World, note: Note) -> None:
    def label(value: str) -> Document:
        return {"matchExpressions": [{"key": "app", "operator": "In", "values": [value]}]}

    def near(kind: str, value: str) -> Document:
        term = {"labelSelector": label(value), "topologyKey": "kubernetes.io/hostname"}
        return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}

    async def create(name: str, cpu: str = "1", port: int = 0, app: str = "", **spec: Any) -> None:
        container: Document = {**CONTAINER, "resources": {"requests": {"cpu": cpu}}}
        if port:
            container["ports"] = [{"containerPort": port, "hostPort": port}]
        labels = {"app": app} if app else {}
        pod = {"containers": [container], "terminationGracePeriodSeconds": 1, **spec}
        await world.create(POD, name, pod, labels=labels)

    await create("holder", "6", port=8080, app="alone", **near("podAntiAffinity", "lonely"))
    await world.running(1)
    await create("too-large", "99")
    await create("no-room", "3")
    await create("port", port=8080)
    await create("selector", "0", nodeSelector={"disk": "slow"})
    await create("refuses-others", **near("podAntiAffinity", "alone"))
    await create("is-refused", app="lonely")
    await create("needs-others", "0", **near("podAffinity", "nobody"))
    await create("first-of-group", app="group", **near("podAffinity", "group"))
    await create("gated", schedulingGates=[{"name": "example.com/gate"}])
    await create("of-another", schedulerName="another")
    await world.running(2)
    await note("some wait")
    await world.client.delete(POD, "holder", world.namespace)
    await world.running(5)
    await world.client.patch(POD, "gated", world.namespace, {"spec": {"schedulingGates": None}})
    await world.running(6)
    await note("there is room")


async def job_ends_by_its_policy(world: World, note: Note) -> None:
    rules = [{"succeededIndexes": "0", "succeededCount": 1}]
    spec = job_spec(completionMode="Indexed", completions=3, parallelism=3, successPolicy={"rules": rules})
    await world.create(JOB, "job", spec)
    pods = await world.running(3)
    world.end(*of(pods, "job-0-"))
    await job_ended(world)
    await world.running(0)
    await note("complete")


async def job_has_a_limit_per_index(world: World, note: Note) -> None:
    spec = job_spec(completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=0)
    await world.create(JOB, "job", spec)
    pods = await world.running(2)
    world.end(*of(pods, "job-1-"), code=1)
    await world.until(JOB, "job", lambda job: job["status"].get("failedIndexes") == "1")
    await note("one index has failed")
    world.end(*pods)
    await job_ended(world)
    await note("failed")


async def job_replaces_a_failed_pod(world: World, note: Note) -> None:
    await world.create(JOB, "job", job_spec(completionMode="Indexed", completions=1, parallelism=1, backoffLimit=2))
    (pod,) = await world.running(1)
    world.end(pod, code=1)
    await world.running(0)
    await note("waits")
    (pod,) = await world.running(1)
    await note("replaced")
    world.end(pod)
    await job_ended(world)
    await note("complete")


async def job_is_deleted_without_a_policy(world: World, note: Note) -> None:
    await world.create(JOB, "job", job_spec())
    await world.running(1)
    await world.client.delete(JOB, "job", world.namespace)
    await world.gone(JOB, "job")
    await note("the pod is an orphan")


async def jobset_is_deleted(world: World, note: Note) -> None:
    await world.create(JOBSET, "train", {"replicatedJobs": [replicated("a"), replicated("b")]})
    await world.running(2)
    await world.client.delete(JOBSET, "train", world.namespace, propagation="Foreground")
    await world.gone(JOBSET, "train")
    await note("in the foreground")
    await world.create(JOBSET, "train", {"replicatedJobs": [replicated("a")]})
    await world.running(1)
    await world.client.delete(JOBSET, "train", world.namespace, propagation="Background")
    await world.pods(lambda pods: not pods)
    await note("in the background")


async def finished_objects_go(world: World, note: Note) -> None:
    await world.create(JOB, "job", job_spec(ttlSecondsAfterFinished=1))
    jobs = [replicated("a")]
    await world.create(JOBSET, "train", {"replicatedJobs": jobs, "ttlSecondsAfterFinished": 1})
    world.end(*await world.running(2))
    await world.gone(JOB, "job")
    await world.gone(JOBSET, "train")
    await note("gone")


def owned(*owners: Document, block: bool = False) -> list[Document]:
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": name_of(o), "uid": uid_of(o), "blockOwnerDeletion": block}
        for o in owners
    ]


async def garbage_goes(world: World, note: Note) -> None:
    async def config_map(name: str, *owners: Document, block: bool = False, **metadata: Any) -> Document:
        return await world.create(CONFIG_MAP, name, {}, ownerReferences=owned(*owners, block=block), **metadata)

    async def delete(owner: Document, propagation: Propagation) -> None:
        await world.client.delete(CONFIG_MAP, name_of(owner), world.namespace, propagation=propagation)

    never = {"metadata": {"name": "never", "uid": "00000000-0000-0000-0000-000000000000"}}
    await config_map("of-nobody", never)
    one, other = await config_map("one"), await config_map("other")
    await config_map("of-both", one, other)
    await config_map("of-one", one)
    await config_map("of-one-and-nobody", one, never)
    await note("of nobody is gone")
    await delete(one, "Background")
    await note("one is gone")
    waiting = await config_map("waiting")
    held = await config_map("held", waiting, block=True, finalizers=["example.com/hold"])
    await config_map("below", held, block=True)
    await config_map("not-blocking", waiting, finalizers=["example.com/hold"])
    await delete(waiting, "Foreground")
    await note("waiting is held")
    await world.client.patch(CONFIG_MAP, "held", world.namespace, {"metadata": {"finalizers": None}})
    await note("waiting is gone")
    giver = await config_map("giver")
    await config_map("given", giver)
    await delete(giver, "Orphan")
    await note("given stays")
    # Two that own each other, both in the foreground.
    first = await config_map("first")
    second = await config_map("second", first, block=True)
    references = owned(second, block=True)
    await world.client.patch(CONFIG_MAP, "first", world.namespace, {"metadata": {"ownerReferences": references}})
    await delete(first, "Foreground")
    await note("the circle is gone")
    await world.client.patch(CONFIG_MAP, "not-blocking", world.namespace, {"metadata": {"finalizers": None}})


SCENARIOS: tuple[Scenario, ...] = (
    jobset_completes,
    jobset_fails,
    jobset_restarts,
    jobset_is_suspended,
    jobset_starts_in_order,
    jobset_depends,
    jobset_is_alone_in_its_domain,
    job_counts,
    job_fails,
    job_has_restarts,
    job_has_a_policy,
    job_is_overdue,
    job_loses_a_pod,
    job_shrinks,
    job_has_no_room,
    pods_have_no_place,
    job_ends_by_its_policy,
    job_has_a_limit_per_index,
    job_replaces_a_failed_pod,
    job_is_deleted_without_a_policy,
    jobset_is_deleted,
    finished_objects_go,
    garbage_goes,
)


def wrong_jobsets() -> list[Document]:
    """Specs that the webhook refuses, each for another reason."""
    long = "x" * 64
    dependent = replicated("a")
    dependent["dependsOn"] = [{"name": "a", "status": "Ready"}]
    rules = [
        {"name": "1wrong", "action": "FailJobSet", "targetReplicatedJobs": ["none"]},
        {"name": "same", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]},
        {"name": "same", "action": "FailJobSet"},
    ]
    grouped = replicated("a")
    grouped["groupName"] = "Not-A-Label"
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    unmounted = {"templates": [claim, claim]}
    one = [replicated("a")]
    return [
        {"replicatedJobs": [replicated("a" * 60)]},
        {"replicatedJobs": [dependent]},
        {"replicatedJobs": [grouped]},
        {"replicatedJobs": one, "network": {"subdomain": "1net"}},
        {"replicatedJobs": one, "network": {"subdomain": long}},
        {"replicatedJobs": one, "managedBy": "nobody"},
        {"replicatedJobs": one, "managedBy": f"Example.com/{long}"},
        {"replicatedJobs": one, "successPolicy": {"operator": "All", "targetReplicatedJobs": ["none"]}},
        {"replicatedJobs": one, "failurePolicy": {"maxRestarts": 1, "rules": rules}},
        {"replicatedJobs": one, "failurePolicy": {"restartStrategy": "InPlaceRestart"}},
        {"replicatedJobs": one, "failurePolicy": {"rules": [{"name": "a", "action": "RestartJob"}]}},
        {"replicatedJobs": one, "coordinator": {"replicatedJob": "none"}},
        {"replicatedJobs": one, "coordinator": {"replicatedJob": "a", "jobIndex": 3}},
        {"replicatedJobs": one, "coordinator": {"replicatedJob": "a", "podIndex": 3}},
        {"replicatedJobs": one, "volumeClaimPolicies": [unmounted]},
    ]


@pytest.mark.parametrize("spec", wrong_jobsets(), ids=lambda spec: ",".join(spec.keys() - {"replicatedJobs"}) or "jobs")
async def test_they_refuse_the_same(worlds: Worlds, spec: Document) -> None:
    said = []
    for world in worlds:
        with pytest.raises(Invalid) as caught:
            await world.create(JOBSET, "train", spec)
        causes = [(cause.reason, cause.field, _LARGE.sub("", cause.message)) for cause in caught.value.causes]
        said.append((caught.value.status, caught.value.reason, _LARGE.sub("", caught.value.message), causes))
    assert said[1] == said[0]


async def test_they_refuse_the_same_changes(worlds: Worlds) -> None:
    changed = replicated("a")
    changed["template"]["spec"]["template"]["spec"]["hostNetwork"] = True
    changes: list[Document] = [{"replicatedJobs": [changed]}, {"managedBy": "example.com/other"}]
    said: list[list[Any]] = []
    for world in worlds:
        await world.create(JOBSET, "train", {"replicatedJobs": [replicated("a")], "suspend": True})
        said.append([])
        for change in changes:
            with pytest.raises(Invalid) as caught:
                await world.client.patch(JOBSET, "train", world.namespace, {"spec": change})
            said[-1].append([(cause.reason, cause.field) for cause in caught.value.causes])
            assert caught.value.message.endswith("field is immutable")
    assert said[1] == said[0]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_they_do_the_same(worlds: Worlds, scenario: Scenario) -> None:
    await compare(*worlds, scenario)
