# SPDX-License-Identifier: Apache-2.0
"""Which kinds a cluster serves, and what is said of those that it does not."""

import logging

import pytest

from trainwright.api.base import Resource
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.trainer.build.kinds import absent_kinds
from trainwright.plugins.contract import Watch

NEEDED, OPTIONAL = (
    Resource(group="example.com", version="v1", kind=kind, plural=f"{kind.lower()}s", namespaced=True)
    for kind in ("Need", "Extra")
)


async def test_what_is_not_served_is_named(control_plane: ControlPlane, caplog: pytest.LogCaptureFixture) -> None:
    watches = [Watch(NEEDED, remedy="install needs"), Watch(OPTIONAL, optional=True), Watch(ConfigMap.RESOURCE)]
    # Every user may ask; roles need not allow it.
    client = Client(HTTPTransport(load_config(control_plane.add_user("curious"))))
    try:
        with caplog.at_level(logging.INFO):
            absent = await absent_kinds(client, watches)
    finally:
        await client.close()
    assert absent == {OPTIONAL}
    error, info = caplog.records
    assert (error.levelname, info.levelname) == ("ERROR", "INFO")
    assert (
        error.getMessage() == "the cluster does not serve Need of example.com/v1; install needs. "
        "The manager waits two minutes for it, then exits"
    )
    assert info.getMessage() == (
        "the cluster does not serve Extra of example.com/v1: features that need it are off until the manager restarts"
    )
