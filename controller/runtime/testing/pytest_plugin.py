# SPDX-License-Identifier: Apache-2.0
"""pytest fixtures: control planes shared by the session, and a namespace for each test.

The plugin is loaded wherever trainwright is installed and costs nothing until a fixture is used. `control_plane` is
an API server alone, which is what most tests of a controller need; `cluster` is the whole chain, in which jobs run to
their end. Tests share them, each in a namespace of its own; one that changes what all see (users, CRDs, webhooks,
restarts) starts its own `ControlPlane`.

The programs are provided once the tests are collected, if one of them uses a fixture: a first build takes minutes that
no test's time-out should count, and whose progress should be seen.

CRDs for both are named in the project's configuration, as files or folders relative to it:

    [tool.pytest.ini_options]
    control_plane_crds = ["config/crd"]
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from trainwright.controller.runtime.testing.control_plane import ControlPlane

_CRDS = "control_plane_crds"
_FIXTURES = ("control_plane", "cluster")
_EXTRA = "these fixtures need the extra `testing`: install trainwright[testing]"
_FAILURE = pytest.StashKey[Exception]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the setting."""
    parser.addini(
        _CRDS, "CRDs that the control planes of the session hold (files or folders)", type="paths", default=[]
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Provide the programs that the collected tests need, with their progress in sight; see the module's docstring.

    A failure is kept for the fixture: tests that need no control plane run all the same.
    """
    if session.testsfailed or session.config.option.collectonly:
        return
    used = {name for item in session.items for name in getattr(item, "fixturenames", ()) if name in _FIXTURES}
    capture: Any = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture is not None else contextlib.nullcontext():
        for name in sorted(used):
            try:
                _make(name, session.config).provide()
            except Exception as error:  # whatever it is, the fixture says it
                session.config.stash[_FAILURE] = error
                return


def _make(fixture: str, config: pytest.Config) -> "ControlPlane":
    try:
        from trainwright.controller.runtime.testing.control_plane import ControlPlane  # noqa: PLC0415
    except ImportError as error:
        raise pytest.UsageError(f"{_EXTRA} ({error})") from error
    crds = config.getini(_CRDS)
    if fixture == "cluster":
        return ControlPlane.complete(crds=crds, audit=True)
    return ControlPlane(crds=crds, audit=True)


def _run(fixture: str, config: pytest.Config) -> "Iterator[ControlPlane]":
    failure = config.stash.get(_FAILURE, None)
    if failure is not None:
        # Once is enough: trying again could take as long again.
        pytest.fail(str(failure), pytrace=False)
    with _make(fixture, config) as running:
        yield running


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> "Iterator[ControlPlane]":
    """etcd and kube-apiserver with the project's CRDs and an audit log; no controllers."""
    yield from _run("control_plane", pytestconfig)


@pytest.fixture
def namespace(control_plane: "ControlPlane") -> str:
    """A namespace of the test's own in `control_plane`."""
    return control_plane.create_namespace()


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> "Iterator[ControlPlane]":
    """The whole chain with the project's CRDs and an audit log: controllers, scheduler, JobSet, a pretend node."""
    yield from _run("cluster", pytestconfig)


@pytest.fixture
def cluster_namespace(cluster: "ControlPlane") -> str:
    """A namespace of the test's own in `cluster`."""
    return cluster.create_namespace()
