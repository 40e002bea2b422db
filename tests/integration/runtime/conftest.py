# SPDX-License-Identifier: Apache-2.0
"""Managers and clients on the shared control plane."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from trainwright.controller.runtime import (
    NO_SERVERS,
    Client,
    ClusterConfig,
    HTTPTransport,
    Manager,
    ProcessSettings,
    load_config,
)
from trainwright.controller.runtime.testing import ControlPlane


@asynccontextmanager
async def running(manager: Manager) -> AsyncIterator[Manager]:
    """Run a manager for the length of a block; its failure is the block's."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(manager.run(), name="manager")
        try:
            await manager.wait_ready()
            yield manager
        finally:
            manager.stop()
            await asyncio.wait({task})


def quiet_manager(config: ClusterConfig, **options: Any) -> Manager:
    """A manager without servers that notices who changes shared objects."""
    defaults: dict[str, Any] = {
        "field_manager": "web",
        "servers": NO_SERVERS,
        "process": ProcessSettings(detect_mutation=True),
    }
    return Manager(config, **(defaults | options))


@pytest.fixture
def config(control_plane: ControlPlane) -> ClusterConfig:
    """The way to the shared API server, as administrator."""
    return load_config(control_plane.kubeconfig)


@pytest.fixture
async def client(config: ClusterConfig) -> AsyncIterator[Client]:
    """A client without a cache."""
    made = Client(HTTPTransport(config), user_agent="test")
    yield made
    await made.close()
