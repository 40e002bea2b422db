# SPDX-License-Identifier: Apache-2.0
"""pytest fixtures: control planes shared by the session, and a namespace for each test.

The plugin is loaded wherever trainwright is installed and costs nothing until a fixture is used. `control_plane` is
an API server alone, which is what most tests of a controller need; `cluster` is the whole chain, in which jobs run to
their end. Tests share them, each in a namespace of its own; one that changes what all see (users, CRDs, webhooks,
restarts) starts its own `ControlPlane`.

CRDs for both are named in the project's configuration, as files or folders relative to it:

    [tool.pytest.ini_options]
    control_plane_crds = ["config/crd"]
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.controller.runtime.testing.control_plane import ControlPlane

_CRDS = "control_plane_crds"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the setting."""
    parser.addini(
        _CRDS, "CRDs that the control planes of the session hold (files or folders)", type="paths", default=[]
    )


def _crds(config: pytest.Config) -> "list[Path]":
    paths: list[Path] = config.getini(_CRDS)
    return paths


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> "Iterator[ControlPlane]":
    """etcd and kube-apiserver with the project's CRDs and an audit log; no controllers."""
    from trainwright.controller.runtime.testing.control_plane import ControlPlane  # noqa: PLC0415

    with ControlPlane(crds=_crds(pytestconfig), audit=True) as running:
        yield running


@pytest.fixture
def namespace(control_plane: "ControlPlane") -> str:
    """A namespace of the test's own in `control_plane`."""
    return control_plane.create_namespace()


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> "Iterator[ControlPlane]":
    """The whole chain with the project's CRDs and an audit log: controllers, scheduler, JobSet, a pretend node."""
    from trainwright.controller.runtime.testing.control_plane import ControlPlane  # noqa: PLC0415

    with ControlPlane.complete(crds=_crds(pytestconfig), audit=True) as running:
        yield running


@pytest.fixture
def cluster_namespace(cluster: "ControlPlane") -> str:
    """A namespace of the test's own in `cluster`."""
    return cluster.create_namespace()
