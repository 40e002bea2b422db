# SPDX-License-Identifier: Apache-2.0
"""Clusters whose definition of TrainJobs is missing, is one without progress, or accepts what does not fit."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.dashboards import dashboard
from tests.integration.local.dashboard.world import World
from tests.repository import ROOT, documents
from trainwright.api.kubernetes.core.v1 import Namespace
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.dashboard import contract, curves
from trainwright.controller.local.cluster import api_server, install
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.errors import NotFound
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.views.explanation import ReferenceView

Document = dict[str, Any]


@asynccontextmanager
async def cluster(folder: Path, *definitions: Document) -> AsyncIterator[World]:
    async with api_server(folder, memory=True) as api:
        client = Client(api.transport())
        await install(client, list(definitions), owner="test")
        if definitions:
            # Definitions are served a moment after they were created.
            await eventually(lambda: client.list_page(TrainJob.RESOURCE), lambda _: True, ignore=(NotFound,))
        await client.create({"metadata": {"name": "team-a"}}, kind=Namespace.RESOURCE)
        yield World(api, "team-a")
        await client.close()


def definition() -> Document:
    found: Document = documents(ROOT / "config/crd/trainer.kubeflow.org_trainjobs.yaml")[0]
    return found


async def test_a_cluster_without_trainjobs_and_their_installation(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path) as world,
        dashboard(world.transport, "team-a") as (browser, _),
        browser.stream("/api/v1/jobs/stream") as events,
    ):
        told = await events.until("connection", lambda found: found.state == "missing")
        crd = "the CustomResourceDefinition trainjobs.trainer.kubeflow.org is not installed"
        assert told.message == f"the cluster has no TrainJobs: {crd}"
        assert (await browser.get(world.path("bert"))).problem.reason == "NotFound"
        await install(world.client, [definition()], owner="test")
        await events.until("connection", lambda found: found.state == "live")
        await world.create("bert", progressPercentage=5)
        await events.until("rows", lambda rows: any(row.percentage == 5 for row in rows.changed))


async def test_a_kubeflow_trainer_that_knows_no_progress(tmp_path: Path) -> None:
    """Its API server drops what its definition does not have."""
    older = definition()
    for version in older["spec"]["versions"]:
        del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["trainerStatus"]
    async with cluster(tmp_path, older) as world:
        await world.create("bert", progressPercentage=5, metrics={"loss": "1"})
        async with dashboard(world.transport, "team-a") as (browser, site):
            await eventually(lambda: bool(site.jobs().jobs))
            (row,) = (await browser.get("/api/v1/jobs")).as_(contract.JobList).jobs
            assert (row.state, row.percentage, row.loss, row.last_report) == ("Running", None, None, None)
            job = (await browser.get(world.path("bert"))).as_(contract.Job)
            assert (job.metrics, job.row.state) == ([], "Running")
            # There is no definition of JobSets either.
            assert job.explanation is not None
            series = (await browser.get(world.path("bert", "series"))).as_(curves.JobSeries)
            assert (series.points.times, series.unread) == ([], "")


async def test_a_job_that_does_not_fit_is_named_and_hides_no_other(tmp_path: Path) -> None:
    lax = definition()
    for version in lax["spec"]["versions"]:
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version["schema"]["openAPIV3Schema"] = {**anything, "properties": {"spec": anything, "status": anything}}
    async with cluster(tmp_path, lax) as world:
        await world.create("bert")
        wrong = {"metadata": {"name": "odd", "namespace": "team-a"}, "spec": {"runtimeRef": 7}}
        await world.client.create(wrong, kind=TrainJob.RESOURCE)
        async with dashboard(world.transport, "team-a") as (browser, site):
            await eventually(lambda: bool(site.jobs().jobs and site.jobs().undecodable))
            jobs = (await browser.get("/api/v1/jobs")).as_(contract.JobList)
            assert [row.name for row in jobs.jobs] == ["bert"]
            assert jobs.undecodable == [ReferenceView(kind="TrainJob", namespace="team-a", name="odd")]
            problem = (await browser.get(world.path("odd"))).problem
            assert (problem.code, "TrainJob team-a/odd does not fit the API" in problem.message) == (500, True)
            async with browser.stream(f"{world.path('odd')}/stream") as events:
                # It is mended while somebody looks.
                await events.next("connection")
                mended = {"spec": {"runtimeRef": {"name": "torch"}}}
                await world.client.patch(TrainJob.RESOURCE, "odd", "team-a", mended)
                await events.until("job", lambda job: job.row.runtime.name == "torch")
