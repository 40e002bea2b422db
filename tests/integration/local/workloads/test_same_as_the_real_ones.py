# SPDX-License-Identifier: Apache-2.0
"""Our controllers make what kube-controller-manager, kube-scheduler and JobSet's manager make, and say the same."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import pytest

from tests.integration.local.workloads.comparison import Note, Scenario, compare
from tests.integration.local.workloads.conftest import CONTAINER, World, conditions, job_spec, living
from trainwright.api.objects import Document, name_of
from trainwright.controller.local.workloads import WORKLOADS
from trainwright.controller.local.workloads.jobset.webhooks import configurations, handlers
from trainwright.controller.local.workloads.kinds import JOB, JOBSET, POD
from trainwright.controller.runtime import Client, HTTPTransport, Webhooks, load_config
from trainwright.controller.runtime.metrics.registry import Metrics
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.binaries import provide
from trainwright.controller.runtime.testing.component import free_port
from trainwright.controller.runtime.webhook.webhooks import ByURL

Worlds: TypeAlias = tuple[World, World]
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
    for path, handler in handlers().items():
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


SCENARIOS: tuple[Scenario, ...] = (
    jobset_completes,
    jobset_fails,
    jobset_restarts,
    jobset_is_suspended,
    jobset_starts_in_order,
    jobset_depends,
    job_counts,
    job_fails,
    job_has_restarts,
    job_has_a_policy,
    job_is_overdue,
    job_loses_a_pod,
    job_shrinks,
    job_has_no_room,
    job_ends_by_its_policy,
    job_has_a_limit_per_index,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_they_do_the_same(worlds: Worlds, scenario: Scenario) -> None:
    await compare(*worlds, scenario)
