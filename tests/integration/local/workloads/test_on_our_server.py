# SPDX-License-Identifier: Apache-2.0
"""Our controllers on our API server make what is recorded of the real ones on the real one.

`test_same_as_the_real_ones` runs the real ones beside ours, and compares the recordings, too.
"""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.local.workloads.comparison import Scenario, differences, name_of_scenario, with_the_recording
from tests.integration.local.workloads.conftest import World, living
from tests.integration.local.workloads.recordings import FOLDER
from tests.integration.local.workloads.scenarios import ALONE, CPU, SCENARIOS
from trainwright.api.objects import Document
from trainwright.controller.local.cluster import api_server, install
from trainwright.controller.local.reviews import answerer
from trainwright.controller.local.workloads import WORKLOADS
from trainwright.controller.local.workloads.jobset import webhooks
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.webhook.configurations import webhooks_by_url


@dataclass(frozen=True)
class _Ours:
    kubeconfig: Path
    folder: Path
    ca: bytes


_WEBHOOKS = "https://jobset.test"
"""Nothing listens there: the API server calls the handlers in its own process."""


AT_ONCE = 8


@pytest.fixture
async def ours(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """Our world from top to bottom. The parameter is the number of CPUs of the node."""
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(api_server(tmp_path, memory=True))
        client = Client(api.transport(), user_agent="webhooks")
        api.webhooks.answer_here(_WEBHOOKS, answerer(webhooks.handlers(client)))
        hooks = [webhooks_by_url(one, _WEBHOOKS, b"", {}) for one in webhooks.configurations()]
        await install(client, [jobset_definition(), *hooks], owner="test")
        server = _Ours(api.kubeconfig, tmp_path, api.config.ca_data or b"")
        cpu = getattr(request, "param", "8")
        world = living(server, "default", tuple(WORKLOADS), everywhere=True, cpu=cpu)
        yield await stack.enter_async_context(world)


def jobset_definition() -> Document:
    """The definition that the local cluster installs."""
    file = Path(webhooks.__file__).parent / "jobsets.crd.json"
    definition: Document = json.loads(file.read_bytes())
    del definition["//"]
    return definition


@pytest.mark.timeout(900)
@pytest.mark.parametrize("ours", [CPU], indirect=True)
async def test_they_do_the_same(ours: World) -> None:
    found = await differences([ours], SCENARIOS, with_the_recording, at_once=AT_ONCE)
    assert not found, "\n\n".join(f"{name}: {text}" for name, text in found.items())


@pytest.mark.parametrize("scenario", ALONE, ids=name_of_scenario)
async def test_they_do_the_same_with_a_node_of_their_own(ours: World, scenario: Scenario) -> None:
    found = await differences([ours], [scenario], with_the_recording)
    assert not found, "\n\n".join(found.values())


def test_nothing_is_recorded_that_is_not_run() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {name_of_scenario(one) for one in (*SCENARIOS, *ALONE)}
