# SPDX-License-Identifier: Apache-2.0
"""What the plugin Recovery compiles, on the real Job and JobSet controllers: its rules match their messages.

The message of a Job that a rule fails is no API of Kubernetes. A new version of it or of JobSet is tried here.
"""

from collections.abc import AsyncIterator
from functools import partial

import pytest

from tests.integration.local.workloads.conftest import CONTAINER, World, conditions, living
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import Document, name_of
from trainwright.controller.local.workloads.kinds import JOBSET
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.plugins.contract import OFFLINE
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, Selection, built_in
from trainwright.plugins.testing import runtime, train_job

pytestmark = pytest.mark.real_control_plane("JobSet's manager")

PIPELINE = Pipeline(Registry.load(Selection(enabled=frozenset({"Recovery"})), candidates=built_in()))
EVICTED = -1


@pytest.fixture
async def real(with_real_ones: ControlPlane, namespace: str) -> AsyncIterator[World]:
    async with living(with_real_ones, "default", (), everywhere=True, cpu="8") as world:
        yield World(world.client, namespace, world.kubelet)


@pytest.fixture
def namespace(request: pytest.FixtureRequest, with_real_ones: ControlPlane) -> str:
    name = f"recovery-{request.node.callspec.id}"
    with_real_ones.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def compiled(**annotations: str) -> Document:
    """The spec of the JobSet of a job with two ranks."""
    pod = {"terminationGracePeriodSeconds": 1, "containers": [{**CONTAINER, "name": "node"}]}
    labels = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    jobs = [{"name": "node", "template": {"metadata": labels, "spec": {"template": {"spec": pod}}}}]
    made = runtime(mlPolicy={"numNodes": 2}, template={"spec": {"replicatedJobs": jobs}})
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
    spec = compiled(retries="1", free_exit_codes="75", no_retry_exit_codes="3")
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
