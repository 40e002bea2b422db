# SPDX-License-Identifier: Apache-2.0
"""Our controllers make what kube-controller-manager, kube-scheduler and JobSet's manager make, and say the same."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from tests.integration.local.controllers import random_scenarios
from tests.integration.local.controllers.comparison import (
    Scenario,
    Worlds,
    differences,
    name_of_scenario,
    with_nothing_recorded,
    with_the_real_ones,
)
from tests.integration.local.controllers.conftest import living, replicated
from tests.integration.local.controllers.scenarios import ALONE, CPU, SCENARIOS
from trainwright.api.objects import Document
from trainwright.controller.local.controllers import CONTROLLERS
from trainwright.controller.local.controllers.jobset_objects import HANDLERS, configurations
from trainwright.controller.local.controllers.objects import JOBSET
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.errors import Invalid
from trainwright.controller.runtime.metrics.registry import Metrics
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.webhook.webhooks import ByURL, Webhooks

pytestmark = pytest.mark.parity

SEEDS = [int(seed) for seed in os.environ.get("SEEDS", "").split()] or range(4)
"""Of random scenarios: others can be tried by hand."""


@pytest.fixture(scope="module")
def with_ours() -> Iterator[ControlPlane]:
    """An API server for our controllers and webhooks."""
    with ControlPlane(crds=[provide(["jobset-manager"]).manifests["jobset-crd.yaml"]]) as running:
        yield running


@pytest.fixture
async def worlds(
    request: pytest.FixtureRequest, with_real_ones: ControlPlane, with_ours: ControlPlane
) -> AsyncIterator[Worlds]:
    """Both worlds. The parameter is the number of CPUs of the node."""
    async with AsyncExitStack() as stack:
        found = []
        for control_plane, workloads in ((with_real_ones, ()), (with_ours, tuple(CONTROLLERS))):
            world = living(control_plane, "default", workloads, cpu=getattr(request, "param", "8"))
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
    for path, handler in HANDLERS.items():
        hooks.server.handle(path, handler)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(hooks.run())
        while await hooks.unready() is not None:
            await asyncio.wait({task}, timeout=0.1)
        yield
        task.cancel()
    await client.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("worlds", [CPU], indirect=True)
async def test_they_do_the_same(worlds: Worlds) -> None:
    found = await differences(worlds, SCENARIOS, with_the_real_ones)
    assert not found, "\n\n".join(f"{name}: {text}" for name, text in found.items())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("worlds", [CPU], indirect=True)
async def test_they_do_the_same_at_random(worlds: Worlds) -> None:
    made = (random_scenarios.scenario, random_scenarios.scenario_of_a_job)
    found = await differences(worlds, [make(seed) for make in made for seed in SEEDS], with_nothing_recorded)
    assert not found, "\n\n".join(f"{name}: {text}" for name, text in found.items())


@pytest.mark.parametrize("scenario", ALONE, ids=name_of_scenario)
async def test_they_do_the_same_with_a_node_of_their_own(worlds: Worlds, scenario: Scenario) -> None:
    found = await differences(worlds, [scenario], with_the_real_ones)
    assert not found, "\n\n".join(found.values())


def wrong_jobsets() -> list[Document]:
    """Specs that the webhook refuses, each for another reason."""
    long = "x" * 64
    dependent = replicated("a")
    dependent["dependsOn"] = [{"name": "a", "status": "Ready"}]
    rules = [{"name": "wrong", "action": "FailJobSet", "targetReplicatedJobs": ["none"]}]
    one = [replicated("a")]
    return [
        {"replicatedJobs": [replicated("a" * 60)]},
        {"replicatedJobs": [dependent]},
        {"replicatedJobs": one, "network": {"subdomain": "1net"}},
        {"replicatedJobs": one, "network": {"subdomain": long}},
        {"replicatedJobs": one, "successPolicy": {"operator": "All", "targetReplicatedJobs": ["none"]}},
        {"replicatedJobs": one, "failurePolicy": {"maxRestarts": 1, "rules": rules}},
        {"replicatedJobs": one, "failurePolicy": {"restartStrategy": "InPlaceRestart"}},
        {"replicatedJobs": one, "failurePolicy": {"rules": [{"name": "a", "action": "RestartJob"}]}},
    ]


async def test_they_refuse_the_same(worlds: Worlds) -> None:
    for spec in wrong_jobsets():
        said = []
        for world in worlds:
            with pytest.raises(Invalid) as caught:
                await world.create(JOBSET, "train", spec)
            causes = [(cause.reason, cause.field) for cause in caught.value.causes]
            said.append((caught.value.status, caught.value.reason, causes))
        assert said[1] == said[0]


async def test_they_refuse_the_same_changes(worlds: Worlds) -> None:
    changed = replicated("a")
    changed["template"]["spec"]["template"]["spec"]["hostNetwork"] = True
    changes: list[Document] = [{"replicatedJobs": [changed]}, {"managedBy": "example.com/other"}]
    changes += [
        {"failurePolicy": {"maxRestarts": 2}},
        {"successPolicy": {"operator": "Any"}},
        {"network": {"subdomain": "other"}},
        {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
    ]
    said: list[list[Any]] = []
    for world in worlds:
        # Rules about transitions are not asked where there was nothing: only what has a value cannot be changed.
        spec = {"replicatedJobs": [replicated("a")], "suspend": True, "failurePolicy": {"maxRestarts": 1}}
        await world.create(JOBSET, "train", spec)
        said.append([])
        for change in changes:
            with pytest.raises(Invalid) as caught:
                await world.client.patch(JOBSET, "train", world.namespace, {"spec": change})
            said[-1].append([(cause.reason, cause.field) for cause in caught.value.causes])
            assert "mmutable" in caught.value.message
        await world.client.delete(JOBSET, "train", world.namespace)
        await world.gone(JOBSET, "train")
    assert said[1] == said[0]
