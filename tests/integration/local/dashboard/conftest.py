# SPDX-License-Identifier: Apache-2.0
"""One API server for a file of tests, and a namespace for each."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.integration.local.dashboard.world import World
from tests.repository import our_definitions
from trainwright.api.kubernetes.core.v1 import Namespace
from trainwright.controller.local.cluster import RunningServer, api_server, install
from trainwright.controller.local.controllers import jobset
from trainwright.controller.runtime import Client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    async with api_server(tmp_path_factory.mktemp("server"), memory=True) as api:
        client = Client(api.transport())
        found = our_definitions()
        definition = json.loads((Path(jobset.__file__).parent / "jobsets.crd.json").read_bytes())
        definition.pop("//")
        await install(client, [*found, definition], owner="test")
        yield api
        await client.close()


@pytest_asyncio.fixture(loop_scope="module")
async def world(server: RunningServer) -> AsyncIterator[World]:
    """A namespace of its own for each test. The dashboard only reads, whatever the test does."""
    client = Client(server.transport())
    space = await client.create({"metadata": {"generateName": "test-"}}, kind=Namespace.RESOURCE)
    made = World(server, space["metadata"]["name"])
    yield made
    assert {request.method for request in made.transport.asked} <= {"GET"}
    await client.close()
