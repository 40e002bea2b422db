# SPDX-License-Identifier: Apache-2.0
"""All about one job: pods, events, failures, reasons, what it becomes, and what the user may not read."""

import pytest
import yaml

from tests.dashboards import dashboard
from tests.integration.local.dashboard.world import SCRIPT, World
from tests.repository import ROOT
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_ATTEMPT, LABEL_INDEX, LABEL_JOBSET, LABEL_REPLICATED_JOB
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.times import parse
from trainwright.api.trainer.v1alpha1 import TrainingRuntime
from trainwright.controller.dashboard import contract
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.why import Reader
from trainwright.controller.views.explanation import explaining_plugins, shown_explanation
from trainwright.controller.views.rendered import ObjectsView

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_failed_job_with_all_that_is_known_of_it(world: World) -> None:
    await world.failed_job()
    async with dashboard(world.transport, world.space) as (browser, _):
        job = (await browser.get(world.path("bert"))).as_(contract.Job)
    assert (job.cluster.context, job.cluster.namespace) == ("test", world.space)
    assert (job.row.state, job.row.reason) == ("Failed", "Because")
    assert job.row.message.startswith("rank 1 failed with exit code 1")
    assert (job.attempt, job.most_attempts) == (2, 2)
    first, second = job.attempts
    assert first.failure is not None
    assert (first.failure.exit_code, first.failure.reason, first.failure.log) == (137, "OOMKilled", ["step 1", SCRIPT])
    assert second.failure is not None
    assert (second.failure.pod, second.failure.who, second.failure.message) == ("bert-node-0-1-abcde", "rank 1", SCRIPT)
    (pod,) = job.pods
    assert (pod.phase, pod.reason, pod.attempt, pod.current, pod.rank) == ("Failed", "Error", 2, True, 1)
    assert pod.containers[0].log
    assert {(metric.name, metric.value, metric.number) for metric in job.metrics} == {
        ("loss", "NaN", None),
        (SCRIPT, "0.5", 0.5),
    }
    assert job.explanation is not None
    assert job.explanation.outcome == "Failed"
    event = next(one for one in job.timeline if one.reason == "BackOff")
    assert (event.count, event.severity, event.message) == (3, "warning", SCRIPT)
    moments = [parse(one.at) for one in job.timeline]
    assert moments == sorted(moments, reverse=True)
    assert {one.source for one in job.timeline} == {"training", "event"}
    assert job.unread == []


async def test_what_the_user_may_not_read_is_said(world: World) -> None:
    await world.failed_job()
    world.transport.forbidden = {"pods", "events", "configmaps"}
    async with dashboard(world.transport, world.space) as (browser, _):
        job = (await browser.get(world.path("bert"))).as_(contract.Job)
    assert (job.row.state, job.pods) == ("Failed", [])
    told = {one.part: one.message for one in job.unread}
    assert told["pods"] == f"no right to list pods in namespace {world.space}"
    assert told["events"] == f"no right to list events in namespace {world.space}"
    assert "configmaps" in told["attempts"]
    assert job.explanation is not None
    assert any("pods" in text for text in job.explanation.not_read)


async def test_what_a_job_becomes_with_provenance(world: World) -> None:
    runtime = next(
        document
        for document in yaml.safe_load_all((ROOT / "config/runtimes/torch-distributed.yaml").read_text())
        if document["kind"] == "ClusterTrainingRuntime"
    )
    await world.add(
        TrainingRuntime.RESOURCE, "torch", spec=runtime["spec"], metadata={"labels": runtime["metadata"]["labels"]}
    )
    bert = await world.create("bert")
    await world.create("typo", runtime="torhc")
    async with dashboard(world.transport, world.space) as (browser, _):
        found = (await browser.get(world.path("bert", "objects"))).as_(ObjectsView)
        assert (found.problems, [one.kind for one in found.objects]) == ([], ["JobSet"])
        made = yaml.safe_load(found.objects[0].yaml)
        assert made["metadata"]["name"] == "bert"
        nodes = [one for one in found.settings if one.path.endswith("env[PET_NNODES]")]
        assert [(one.source, one.value) for one in nodes] == [("Torch", '{"name": "PET_NNODES", "value": "2"}')]
        assert any(one.source == "the TrainJob" for one in found.settings)
        # The same when the job runs, although the manager leaves a JobSet that runs alone.
        await world.add(JobSet.RESOURCE, "bert", bert, spec=made["spec"])
        again = (await browser.get(world.path("bert", "objects"))).as_(ObjectsView)
        assert again.objects == found.objects
        world.transport.forbidden = {"jobsets"}
        unread = (await browser.get(world.path("bert", "objects"))).as_(ObjectsView)
        assert unread.objects == found.objects
        world.transport.forbidden = {"trainingruntimes"}
        refused = (await browser.get(world.path("bert", "objects"))).as_(ObjectsView)
        assert refused.problems == ['torch is forbidden: User "eve" cannot do that']
        world.transport.forbidden = set()
        missing = (await browser.get(world.path("typo", "objects"))).as_(ObjectsView)
        assert missing.problems == ["TrainingRuntime torhc does not exist"]
        assert (await browser.get(world.path("none", "objects"))).status == 404


RIGHTS = {
    "pods": ("pods", "no right to list pods in namespace SPACE"),
    "events": ("events", "no right to list events in namespace SPACE"),
    "configmaps": ("attempts", "no right to get configmaps in namespace SPACE"),
    "jobsets": ("attempts", "no right to get jobsets.jobset.x-k8s.io in namespace SPACE"),
    "jobs": ("explanation", "no right to list jobs.batch in namespace SPACE"),
    "log": ("explanation", "no right to get pods/log in namespace SPACE"),
}
"""Each right by the end of its path: the part that lacks it, and what is said."""


@pytest.mark.parametrize("right", RIGHTS)
async def test_each_right_that_is_missing_is_said_and_the_rest_is_shown(world: World, right: str) -> None:
    await world.failed_job()
    world.transport.forbidden = {right}
    async with dashboard(world.transport, world.space) as (browser, site):
        await eventually(lambda: site.jobs().connection.state == "live")
        job = (await browser.get(world.path("bert"))).as_(contract.Job)
        jobs = (await browser.get("/api/v1/jobs")).as_(contract.JobList)
        series = await browser.get(world.path("bert", "series"))
    part, words = RIGHTS[right][0], RIGHTS[right][1].replace("SPACE", world.space)
    told: dict[str, list[str]] = {}
    for one in job.unread:
        told.setdefault(one.part, []).append(one.message)
    assert job.explanation is not None
    assert (told.get(part) or job.explanation.not_read) == [words]
    assert told.keys() <= {part}
    assert (job.row.state, job.row.percentage, job.explanation.outcome) == ("Failed", 7, "Failed")
    assert bool(job.pods) == (right != "pods")
    assert any(one.source == "event" for one in job.timeline) == (right not in {"events", "pods"})
    assert job.attempts[0].failure is not None or right == "configmaps"
    assert ([row.name for row in jobs.jobs], jobs.connection.state) == (["bert"], "live")
    assert series.status == 200


async def test_a_user_who_may_list_jobs_and_nothing_else(world: World) -> None:
    await world.failed_job()
    world.transport.forbidden = {"bert", *RIGHTS}
    async with dashboard(world.transport, world.space) as (browser, site):
        await site.watched.informer.wait_synced()
        job = (await browser.get(world.path("bert"))).as_(contract.Job)
        assert (job.row.state, job.row.percentage, job.pods, job.timeline) == ("Failed", 7, [], [])
        told = [(one.part, one.message) for one in job.unread]
        assert told == [("job", f"no right to get trainjobs.trainer.kubeflow.org in namespace {world.space}")]
        assert (await browser.get(world.path("other"))).problem.reason == "NotFound"


async def test_why_a_job_does_not_train(world: World) -> None:
    """The sentence of `trainwright explain`; the list has that of the condition."""
    await world.create("typo", runtime="none", reported=False)
    await world.report("typo", condition="Waiting", message="TrainingRuntime none does not exist")
    job = await world.create("wide")
    made = await world.add(JobSet.RESOURCE, "wide", job, spec={"replicatedJobs": []})
    why = "0/3 nodes are available: 3 Insufficient cpu."
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
    labels = {LABEL_JOBSET: "wide", LABEL_REPLICATED_JOB: "node", LABEL_ATTEMPT: "0", LABEL_INDEX: "0"}
    await world.add(
        Pod.RESOURCE,
        "wide-node-0-0-abcde",
        made,
        metadata={"labels": labels},
        spec={"containers": [{"name": "node", "image": "train:1"}]},
        status={"phase": "Pending", "conditions": [unscheduled]},
    )
    async with dashboard(world.transport, world.space) as (browser, _):
        typo = (await browser.get(world.path("typo"))).as_(contract.Job)
        assert typo.explanation is not None
        assert (typo.explanation.outcome, typo.explanation.cause.reason) == ("Stuck", "RuntimeMissing")
        assert "TrainingRuntime none does not exist" in typo.explanation.cause.message
        assert typo.row.waiting == "Because"
        wide = (await browser.get(world.path("wide"))).as_(contract.Job)
        assert wide.explanation is not None
        assert (wide.explanation.outcome, wide.explanation.cause.pods) == ("Waiting", 1)
        for found, name in ((typo, "typo"), (wide, "wide")):
            said = await Reader(world.client, explaining_plugins()).explain(world.space, name)
            assert found.explanation == shown_explanation(said)
        (pod,) = wide.pods
        assert (pod.phase, pod.reason, pod.message, pod.attempt) == ("Pending", "Unschedulable", why, 1)
        assert not pod.containers[0].log
