# SPDX-License-Identifier: Apache-2.0
"""The doctor over a local cluster: nothing is wrong at first, then each defect that is planted is found."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from trainwright.api.objects import Document
from trainwright.controller.cli.doctor import shipped_definitions
from trainwright.controller.cli.local.training import training_cluster
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.client.discovery import Discovery
from trainwright.controller.runtime.errors import NotFound
from trainwright.controller.trainer.why.site.examination import examine, gather
from trainwright.controller.trainer.why.site.survey import NOTE, SiteSurvey
from trainwright.plugins.contract.picture import Severity
from trainwright.plugins.pipeline import Pipeline
from trainwright.plugins.registry import Registry, Selection
from trainwright.plugins.testing import replicated_job, runtime_document

VALIDATING = "validatingwebhookconfigurations"


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Client]:
    settings = NodeSettings(name="laptop", folder=folder, isolation=Isolation.REWRITE)
    async with training_cluster(settings, memory=True) as running:
        yield Client(running.api.transport())


async def gathered(client: Client, namespace: str = "default") -> SiteSurvey:
    pipeline = Pipeline(Registry.load(Selection.of(None)))
    return await gather(client, pipeline, lambda _: (), shipped_definitions(), namespace)


async def findings(client: Client) -> dict[str, list[tuple[Severity, str]]]:
    """What is wrong, by check."""
    site = await gathered(client)
    return {
        one.title: [(finding.severity, finding.message) for finding in one.findings]
        for one in examine(site)
        if not one.is_sound
    }


def runtime(
    name: str, *, gang: dict[str, Any] | None = None, pod: dict[str, Any] | None = None, **more: Any
) -> Document:
    container = {"name": "node", "image": "python"}
    node = replicated_job(pod={"restartPolicy": "Never", "containers": [container], **(pod or {})})
    spec: dict[str, Any] = {} if gang is None else {"podGroupPolicy": gang}
    return runtime_document(name, node, namespace="", jobset=more, **spec)


async def create(client: Client, document: Document) -> None:
    resource = await Discovery(client).resource_of(document)
    await client.create(document, kind=resource)


async def delete_webhooks(client: Client) -> None:
    resource = await Discovery(client).named(VALIDATING)
    for one in (await client.list(resource)).items:
        if "trainer" in one["metadata"]["name"]:
            await client.delete(resource, one["metadata"]["name"], "")


PLANTED: dict[str, tuple[Callable[[Client], Awaitable[None]], str, str]] = {
    "no webhook": (delete_webhooks, "webhooks answer", "no webhook checks TrainJobs"),
    "a gang scheduler is missing": (
        lambda client: create(client, runtime("gang", gang={"volcano": {}}, pod={"schedulerName": "volcano"})),
        "gang schedulers",
        "ClusterTrainingRuntime gang needs the gang scheduler volcano",
    ),
    "a class is missing": (
        lambda client: create(client, runtime("classy", pod={"priorityClassName": "high"})),
        "classes of runtimes exist",
        "PriorityClass high, which does not exist",
    ),
    "JobSets delete themselves": (
        lambda client: create(client, runtime("short", ttlSecondsAfterFinished=60)),
        "JobSets stay",
        "ClusterTrainingRuntime short lets JobSets delete themselves 60 s",
    ),
}


@pytest.mark.timeout(300)
async def test_what_is_planted_is_found(tmp_path: Path) -> None:
    async with cluster(tmp_path / "one") as client:
        at_first = await findings(client)
        assert {severity for found in at_first.values() for severity, _ in found} <= {NOTE}, at_first
        for plant, check, message in PLANTED.values():
            await plant(client)
            found = await findings(client)
            assert any(message in text for _, text in found.get(check, ())), (message, found)


async def test_a_namespace_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with cluster(tmp_path) as client:
        with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
            await gathered(client, "nowhere")
