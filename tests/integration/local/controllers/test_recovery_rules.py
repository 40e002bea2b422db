# SPDX-License-Identifier: Apache-2.0
"""What the plugin Recovery compiles, on the real Job and JobSet controllers: its rules match their messages.

The message of a Job that a rule fails is no API of Kubernetes. A new version of it or of JobSet is tried here.
"""

from collections.abc import AsyncIterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest

from tests import builders
from tests.integration.local.controllers.conftest import CONTAINER, World, conditions, living
from trainwright.api.kubernetes.core.v1 import PersistentVolumeClaim, Pod
from trainwright.api.objects import Document, deletion_timestamp_of, key_of, labels_of, name_of, wire
from trainwright.api.times import wall_clock
from trainwright.controller.local.controllers.objects import JOBSET, NODE
from trainwright.controller.runtime.errors import Invalid
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.trainer.why import Explanation, GivenObjects, explain
from trainwright.plugins.contract import OFFLINE, JobState
from trainwright.plugins.contract.picture import BATCH_JOB
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, Selection, built_in
from trainwright.plugins.testing import runtime, train_job

pytestmark = pytest.mark.real_control_plane("JobSet's manager")

PIPELINE = Pipeline(Registry.load(Selection(enabled=frozenset({"Recovery"})), candidates=built_in()))
EVICTED = -1


@pytest.fixture
async def real(with_real_ones: ControlPlane, namespace: str) -> AsyncIterator[World]:
    async with living(with_real_ones, "default", (), cpu="64") as world:
        yield World(world.client, namespace, world.kubelet)


@pytest.fixture
def namespace(request: pytest.FixtureRequest, with_real_ones: ControlPlane) -> str:
    name = f"recovery-{request.node.name.partition('[')[2].rstrip(']') or request.node.name[-40:].strip('_')}"
    name = name.replace("_", "-")
    with_real_ones.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


POD_SPEC: Document = {"terminationGracePeriodSeconds": 1, "containers": [{**CONTAINER, "name": "node"}]}
TRAINER = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}


def replicated(name: str, *, pod: Document = POD_SPEC, **more: Any) -> Document:
    labels = {"labels": TRAINER} if name in ("node", "launcher") else {}
    return {"name": name, "template": {"metadata": labels, "spec": {"template": {"spec": pod}}}, **more}


def compiled(
    *jobs: Document,
    ranks: int = 2,
    policy: Mapping[str, Any] = MappingProxyType({}),
    more: Mapping[str, Any] = MappingProxyType({}),
    **annotations: str,
) -> Document:
    """The spec of the JobSet of a job, by default with two ranks."""
    made = runtime(
        mlPolicy={"numNodes": ranks, **policy},
        template={"spec": {"replicatedJobs": list(jobs or [replicated("node")]), **more}},
    )
    marks = {f"trainwright.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    job = train_job(metadata={"annotations": {"trainwright.dev/recovery": "gang", **marks}})
    (jobset,) = (one for one in PIPELINE.begin(job, made).render(OFFLINE).components if one.resource.kind == "JobSet")
    spec: Document = jobset.document["spec"]
    return spec


def restarts(jobset: Document) -> tuple[int, int]:
    status = jobset.get("status") or {}
    return int(status.get("restarts") or 0), int(status.get("restartsCountTowardsMax") or 0)


def has_restarts(jobset: Document, wanted: tuple[int, int]) -> bool:
    return restarts(jobset) == wanted


@pytest.mark.parametrize(
    ("ends", "counts", "reason"),
    [
        pytest.param([75, EVICTED, 1, 75, 1], [0, 0, 1, 1], "ReachedMaxRestarts", id="counted"),
        pytest.param([75, 127], [0], "FailJobSetFailurePolicyAction", id="cannot-run"),
        pytest.param([EVICTED, 3], [0], "FailJobSetFailurePolicyAction", id="final"),
    ],
)
async def test_what_the_end_of_one_rank_costs(real: World, ends: list[int], counts: list[int], reason: str) -> None:
    spec = compiled(retries="1", exit_codes="75=free,3=final")
    await real.create(JOBSET, "train", spec)
    for attempt, end in enumerate(ends):
        pods = await real.running(2, f"jobset.sigs.k8s.io/restart-attempt={attempt}")
        victim = pods[attempt % 2]
        if end == EVICTED:
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name_of(victim)}}
            await real.client.post_subresource(Pod, name_of(victim), real.namespace, "eviction", eviction)
        else:
            real.end(victim, code=end)
        if attempt < len(counts):
            await real.until(JOBSET, "train", partial(has_restarts, wanted=(attempt + 1, counts[attempt])))
    ended = await real.until(JOBSET, "train", lambda js: "Failed" in conditions(js))
    assert conditions(ended)["Failed"] == ("True", reason)
    assert restarts(ended) == (len(counts), counts[-1])


ATTEMPT, REPLICATED = "jobset.sigs.k8s.io/restart-attempt", "jobset.sigs.k8s.io/replicatedjob-name"


async def test_ranks_that_fail_together_cost_one_retry(real: World) -> None:
    """Scenario 25."""
    await real.create(JOBSET, "train", compiled(ranks=4, retries="1"))
    real.end(*await real.running(4, f"{ATTEMPT}=0"), code=1)
    await real.running(4, f"{ATTEMPT}=1")
    jobset = await real.until(JOBSET, "train", partial(has_restarts, wanted=(1, 1)))
    assert "Failed" not in conditions(jobset)


async def told(real: World) -> Explanation:
    """What is said of the TrainJob whose JobSet it is."""
    job = wire(builders.train_job("train", real.namespace, uid="uid"))
    found = [one for kind in (JOBSET, BATCH_JOB, Pod.RESOURCE) for one in await real.all(kind)]
    for one in found:
        if one["kind"] == "JobSet":
            one["metadata"]["ownerReferences"] = [
                {"kind": "TrainJob", "name": "train", "uid": "uid", "controller": True}
            ]
    nodes = (await real.client.list(NODE)).items
    return explain(GivenObjects((job, *found, *nodes)).picture(job, wall_clock()))


async def test_what_follows_is_known_while_the_other_rank_takes_its_grace(real: World) -> None:
    """The Job fails for good only once its last pod has ended, but it says before that it will."""
    await real.create(JOBSET, "train", compiled(retries="1", exit_codes="3=final"))
    for attempt, (code, outcome) in enumerate(((137, JobState.RESTARTING), (3, JobState.WAITING))):
        victim, other = await real.running(2, f"{ATTEMPT}={attempt}")
        real.kubelet.slow(*key_of(other))
        real.end(victim, code=code)
        job = await real.until(BATCH_JOB, "train-node-0", lambda one: "FailureTarget" in conditions(one))
        assert "Failed" not in conditions(job)
        await real.until(Pod.RESOURCE, name_of(other), deletion_timestamp_of)
        assert (await told(real)).outcome is outcome
        real.end(other, code=143)


async def test_initializers_run_again_after_a_restart(real: World) -> None:
    """Scenario 28."""
    after: Document = {"dependsOn": [{"name": "dataset-initializer", "status": "Complete"}]}
    spec = compiled(replicated("dataset-initializer"), replicated("node", **after), ranks=1, retries="1")
    await real.create(JOBSET, "train", spec)
    for attempt in (0, 1):
        (step,) = await real.running(1, f"{ATTEMPT}={attempt},{REPLICATED}=dataset-initializer")
        real.end(step)
        (rank,) = await real.running(1, f"{ATTEMPT}={attempt},{REPLICATED}=node")
        if not attempt:
            real.end(rank, code=1)


async def test_an_eviction_of_an_mpi_node_is_free_and_both_jobs_are_made_again(real: World) -> None:
    """Scenario 53; a launcher that ends before the node is seen to have ended costs a retry, which we give back."""
    mpi = {"mpi": {"mpiImplementation": "OpenMPI", "numProcPerNode": 1, "sshAuthMountPath": "/root/.ssh"}}
    after: Document = {"dependsOn": [{"name": "node", "status": "Ready"}]}
    more = {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]}}
    pod = {**POD_SPEC, "volumes": []}
    jobs = replicated("node", pod=pod), replicated("launcher", pod=pod, **after)
    spec = compiled(*jobs, ranks=1, policy=mpi, more=more, retries="1")
    for job in spec["replicatedJobs"]:  # the keys and the host file are made by the manager, which does not run here
        inner = job["template"]["spec"]["template"]["spec"]
        inner.pop("volumes", None)
        for container in inner["containers"]:
            container.pop("volumeMounts", None)
    await real.create(JOBSET, "train", spec)
    before = await real.running(2, f"{ATTEMPT}=0")
    (node,) = (one for one in before if labels_of(one)[REPLICATED] == "node")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name_of(node)}}
    await real.client.post_subresource(Pod, name_of(node), real.namespace, "eviction", eviction)
    await real.running(2, f"{ATTEMPT}=1")
    await real.until(JOBSET, "train", partial(has_restarts, wanted=(1, 0)))


async def test_jobset_refuses_a_claim_that_was_retained(real: World) -> None:
    """Scenario 45: so a job that makes volumes is never given a new JobSet.

    JobSet compares the template with the claim, to which the API server has added defaults.
    """
    template: Document = {"metadata": {"name": "state"}, "spec": {"accessModes": ["ReadWriteMany"]}}
    template["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
    policy = {"templates": [template], "retentionPolicy": {"whenDeleted": "Retain"}}
    mounted = {**CONTAINER, "name": "node", "volumeMounts": [{"name": "state", "mountPath": "/state"}]}
    pod = {**POD_SPEC, "containers": [mounted]}
    spec = compiled(replicated("node", pod=pod), more={"volumeClaimPolicies": [policy]})
    await real.create(JOBSET, "train", spec)
    (rank, _) = await real.pods(lambda pods: len(pods) == 2)
    (claim,) = (await real.client.list(PersistentVolumeClaim, real.namespace)).items
    (volume,) = (one for one in rank["spec"]["volumes"] if one["name"] == "state")
    assert volume["persistentVolumeClaim"]["claimName"] == name_of(claim)
    await real.client.delete(JOBSET, "train", real.namespace, propagation="Foreground")
    await real.gone(JOBSET, "train")
    with pytest.raises(Invalid, match="does not match existing PVC state-train"):
        await real.create(JOBSET, "train", spec)
