# SPDX-License-Identifier: Apache-2.0
"""The trials of an OptimizationJob, as the page of a search gets them."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.dashboards import Browser, dashboard
from tests.integration.local.dashboard.world import World
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.objects import Document, owner_reference
from trainwright.api.trainer.v1alpha1 import OptimizationJob, TrainJob
from trainwright.controller.dashboard.contract import JobList
from trainwright.controller.dashboard.searches import Search
from trainwright.controller.runtime.testing.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

RUNTIME = {"spec": {"runtimeRef": {"name": "torch", "kind": "TrainingRuntime"}}}


async def with_search(world: World, trials: int) -> None:
    """A search `s` of so many trials, all complete, and a record of one more whose TrainJob was deleted."""
    spec = {
        "objectives": [{"metric": "loss"}],
        "parameters": [
            {"name": "lr", "searchSpace": {"logUniform": {"min": "1e-5", "max": "1"}}},
            {"name": "batch", "searchSpace": {"categorical": {"choices": ["16", "32"]}}},
        ],
        "numTrials": 20,
        "parallelTrials": 2,
        "trainJobTemplate": RUNTIME,
    }
    annotations = {"trainwright.io/sampler": "tpe"}
    metadata = {"name": "s", "namespace": world.space, "annotations": annotations}
    job = await world.client.create({"metadata": metadata, "spec": spec}, kind=OptimizationJob.RESOURCE)
    for number in range(1, trials + 1):
        await trial(world, job, number)
    record = [{"number": trials + 1, "state": "complete", "value": 0.01, "parameters": {"lr": "0.5", "batch": "16"}}]
    data = {"trials": json.dumps(record)}
    await world.client.create(
        {"metadata": {"name": "s-trials", "namespace": world.space}, "data": data}, kind=ConfigMap.RESOURCE
    )


async def trial(world: World, job: Document, number: int) -> None:
    parameters = {"lr": f"{number / 100}", "batch": "16" if number % 2 else "32"}
    metadata = {
        "name": f"s-{number}",
        "namespace": world.space,
        "labels": {"trainwright.io/optimization-job": "s"},
        "annotations": {"trainwright.io/trial-parameters": json.dumps(parameters)},
        "ownerReferences": [owner_reference(job, OptimizationJob.RESOURCE)],
    }
    await world.client.create({"metadata": metadata, **RUNTIME}, kind=TrainJob.RESOURCE)
    metrics = {"loss": str(number / 10)}
    await world.report(f"s-{number}", condition="Complete", progressPercentage=100, metrics=metrics)


def asking(browser: Browser, world: World) -> Callable[[], Awaitable[Search]]:
    async def ask() -> Search:
        return (await browser.get(f"/api/v1/searches/{world.space}/s")).as_(Search)

    return ask


def is_whole(count: int) -> Callable[[Search], Any]:
    return lambda found: sum(one.state == "Complete" for one in found.trials) == count


async def test_the_trials_with_the_best_one_and_what_each_parameter_matters(world: World) -> None:
    await with_search(world, 12)
    async with dashboard(world.transport, world.space) as (browser, _):
        found = await eventually(asking(browser, world), is_whole(13))
        assert (found.metric, found.maximize, found.sampler) == ("loss", False, "tpe")
        assert (found.limit, found.state) == (20, "Running")
        assert [(one.name, one.choices, one.logarithmic) for one in found.parameters] == [
            ("lr", [], True),
            ("batch", ["16", "32"], False),
        ]
        first, last = found.trials[0], found.trials[-1]
        assert (first.name, first.exists, first.value, first.parameters["lr"]) == ("s-1", True, 0.1, "0.01")
        # Its TrainJob is gone, and it is still the best one.
        assert (last.name, last.exists, last.value, last.best) == ("s-13", False, 0.01, True)
        assert [one.best for one in found.trials].count(True) == 1
        assert found.importance is not None
        assert sum(found.importance.values()) == pytest.approx(1)
        assert max(found.importance, key=found.importance.__getitem__) == "lr"
        row = next(one for one in (await browser.get("/api/v1/jobs")).as_(JobList).jobs if one.name == "s-1")
        assert row.search == "s"


async def test_without_enough_trials_or_without_optuna_the_page_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await with_search(world, 9)
    async with dashboard(world.transport, world.space) as (browser, _):
        ask = asking(browser, world)
        found = await eventually(ask, is_whole(10))
        assert found.importance is not None
        await world.client.delete(ConfigMap.RESOURCE, "s-trials", world.space)
        found = await eventually(ask, is_whole(9))
        assert (found.importance, found.importance_note) == (None, "known once 10 trials have ended with a value")
        missing = await browser.get(f"/api/v1/searches/{world.space}/none")
        assert missing.problem.message == f"there is no OptimizationJob none in namespace {world.space}"
        job = await world.client.get(OptimizationJob.RESOURCE, "s", world.space)
        await trial(world, job, 10)
        monkeypatch.setattr("trainwright.controller.dashboard.searches.COMMAND", ("false",))
        found = await eventually(ask, is_whole(10))
        assert (found.importance, found.importance_note) == (None, "exit code 1")
