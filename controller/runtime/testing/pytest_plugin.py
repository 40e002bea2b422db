# SPDX-License-Identifier: Apache-2.0
"""pytest fixtures: control planes that the session shares, and a namespace for each test.

pytest loads the plugin wherever trainwright is installed; it costs nothing until a fixture is used. `control_plane` is
an API server alone, enough for most tests of a controller. `cluster` is the whole chain, in which jobs run to their
end. Tests share them, each in a namespace of its own. A test that changes shared state (users, CRDs, webhooks,
restarts) starts its own `ControlPlane`.

If a collected test uses a fixture, the programs are provided right after the collection: a first build takes minutes,
which must not count against the time limit of a test, and its progress is shown.

The project's configuration names CRDs for both, as files or folders relative to it:

    [tool.pytest.ini_options]
    control_plane_crds = ["config/crd"]
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from trainwright.api import extras

if TYPE_CHECKING:
    from trainwright.controller.runtime.testing.control_plane import ControlPlane

_CRDS = "control_plane_crds"
_LEAKS = "--leaks"
_FIXTURES = ("control_plane", "cluster")
_FAILURE = pytest.StashKey[Exception]()


class _Hooks:
    @pytest.hookspec(firstresult=True)
    def pytest_control_plane(self, fixture: str, config: pytest.Config) -> "ControlPlane | None":
        """Make the control plane of a fixture, `control_plane` or `cluster`; it is not started yet.

        None for the one that the next plugin makes, in the end the real one.
        """


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the setting `control_plane_crds` and the option `--leaks`."""
    parser.addoption(_LEAKS, action="store_true", help="fail the test that leaves something behind, and no later one")
    parser.addini(
        _CRDS, "CRDs to install in the control planes of the session (files or folders)", type="paths", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    """Look for leaks, if asked to."""
    if config.getoption(_LEAKS):
        from trainwright.controller.runtime.testing import leaks  # noqa: PLC0415 - of use then alone

        config.pluginmanager.register(leaks)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare `pytest_control_plane`, by which another plugin replaces the control planes."""
    pluginmanager.add_hookspecs(_Hooks)


@pytest.hookimpl(trylast=True)
def pytest_control_plane(fixture: str, config: pytest.Config) -> "ControlPlane":
    """The real control plane of a fixture."""
    try:
        from trainwright.controller.runtime.testing.control_plane import ControlPlane  # noqa: PLC0415
    except ImportError as error:
        needed = extras.install(list(extras.LIBRARIES["testing"].values()))
        raise pytest.UsageError(f"these fixtures need the extra `testing`: {needed} ({error})") from error
    crds = config.getini(_CRDS)
    if fixture == "cluster":
        return ControlPlane.complete(crds=crds, audit=True)
    return ControlPlane(crds=crds, audit=True)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Provide the programs that the collected tests need, and show the progress; see the module.

    The fixture reports a failure, so that tests without a control plane still run.
    """
    if session.testsfailed or session.config.option.collectonly:
        return
    used = {name for item in session.items for name in _FIXTURES if uses(item, name)}
    capture: Any = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture is not None else contextlib.nullcontext():
        for name in sorted(used):
            try:
                _make(name, session.config).provide()
            except Exception as error:  # the fixture reports it
                session.config.stash[_FAILURE] = error
                return


def uses(item: pytest.Item, fixture: str) -> bool:
    """Whether a test uses this fixture of the plugin, and not one of its own with the same name."""
    found: Sequence[Any] = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {}).get(fixture, ())
    return bool(found) and found[-1].func.__module__ == __name__


def _make(fixture: str, config: pytest.Config) -> "ControlPlane":
    made: ControlPlane = config.hook.pytest_control_plane(fixture=fixture, config=config)
    return made


def _run(fixture: str, config: pytest.Config) -> "Iterator[ControlPlane]":
    failure = config.stash.get(_FAILURE, None)
    if failure is not None:
        # Do not build again: that could take as long again.
        pytest.fail(str(failure), pytrace=False)
    with _make(fixture, config) as running:
        yield running


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> "Iterator[ControlPlane]":
    """etcd and kube-apiserver with the project's CRDs and an audit log; no controllers."""
    yield from _run("control_plane", pytestconfig)


@pytest.fixture
def namespace(control_plane: "ControlPlane") -> str:
    """A namespace in `control_plane` for one test."""
    return control_plane.create_namespace()


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> "Iterator[ControlPlane]":
    """The whole chain with the project's CRDs and an audit log: controllers, scheduler, JobSet, a simulated node."""
    yield from _run("cluster", pytestconfig)


@pytest.fixture
def cluster_namespace(cluster: "ControlPlane") -> str:
    """A namespace in `cluster` for one test."""
    return cluster.create_namespace()
