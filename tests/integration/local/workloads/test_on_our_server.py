# SPDX-License-Identifier: Apache-2.0
"""Our controllers on our API server make what the real ones make on the real one."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.local.workloads import scenarios_of_jobs, scenarios_of_jobsets, scenarios_of_others
from tests.integration.local.workloads.comparison import Scenario, Worlds, differences
from tests.integration.local.workloads.conftest import living
from trainwright.api.objects import Document
from trainwright.controller.local.cluster import api_server, install
from trainwright.controller.local.reviews import answerer
from trainwright.controller.local.workloads import WORKLOADS
from trainwright.controller.local.workloads.jobset import webhooks
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.webhook.configurations import by_url


@dataclass(frozen=True)
class _Ours:
    kubeconfig: Path
    folder: Path
    ca: bytes


_WEBHOOKS = "https://jobset.test"
"""Nothing listens there: the API server calls the handlers in its own process."""


@pytest.fixture
async def worlds(request: pytest.FixtureRequest, with_real_ones: ControlPlane, tmp_path: Path) -> AsyncIterator[Worlds]:
    """The real world, and ours from top to bottom. The parameter is the number of CPUs of the node."""
    cpu = getattr(request, "param", "8")
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(api_server(tmp_path, memory=True))
        client = Client(api.transport(), user_agent="webhooks")
        api.webhooks.answer_here(_WEBHOOKS, answerer(webhooks.handlers(client)))
        hooks = [by_url(one, _WEBHOOKS, b"", {}) for one in webhooks.configurations()]
        await install(client, [jobset_definition(), *hooks], owner="test")
        ours = _Ours(api.kubeconfig, tmp_path, api.config.ca_data or b"")
        found = []
        for server, workloads in ((with_real_ones, ()), (ours, tuple(WORKLOADS))):
            world = living(server, "default", workloads, everywhere=True, cpu=cpu)
            found.append(await stack.enter_async_context(world))
        yield found[0], found[1]


def jobset_definition() -> Document:
    """The definition that the local cluster installs."""
    file = Path(webhooks.__file__).parent / "jobsets.crd.json"
    definition: Document = json.loads(file.read_bytes())
    del definition["//"]
    return definition


SCENARIOS = (*scenarios_of_jobsets.SCENARIOS, *scenarios_of_jobs.SCENARIOS, *scenarios_of_others.SCENARIOS)
ALONE = (*scenarios_of_jobsets.ALONE, *scenarios_of_others.ALONE)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("worlds", ["64"], indirect=True)
async def test_they_do_the_same(worlds: Worlds) -> None:
    found = await differences(worlds, SCENARIOS)
    assert not found, "\n\n".join(f"{name}: {text}" for name, text in found.items())


@pytest.mark.parametrize("scenario", ALONE, ids=lambda scenario: scenario.__name__)
async def test_they_do_the_same_with_a_node_of_their_own(worlds: Worlds, scenario: Scenario) -> None:
    found = await differences(worlds, [scenario])
    assert not found, "\n\n".join(found.values())
