# SPDX-License-Identifier: Apache-2.0
"""The fixture `local_cluster`, and `--control-plane=local`, which lets tests of `control_plane` run on the local one.

`local_cluster` is a cluster of each test's own. The marker `local_cluster(rbac=…, controllers=…, crds=…)` says what it
is made of; see `LocalCluster`.

With `--control-plane=local`, tests that need what only the real server has
carry the marker `real_control_plane` with the reason, and are left out; the summary counts them by reason. So are tests
of the fixture `cluster`, which has the real controllers.
"""

import os
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from trainwright.controller.runtime.testing.pytest_plugin import uses

if TYPE_CHECKING:
    from trainwright.controller.local.testing.cluster import ClusterHome, LocalCluster
    from trainwright.controller.runtime.testing.control_plane import ControlPlane

_OPTION = "--control-plane"
_LATE = "--late-watches"
_MARKER = "real_control_plane"
_CLUSTER_MARKER = "local_cluster"
_CHAIN = "the whole chain"
_LEFT_OUT = pytest.StashKey[Counter[str]]()
_OUTPUT = "trainwright_real_control_plane"


@pytest.fixture(scope="session")
def _cluster_home() -> "Iterator[ClusterHome]":
    from trainwright.controller.local.testing.cluster import ClusterHome  # noqa: PLC0415 - only if used

    with ClusterHome() as home:
        yield home


@pytest.fixture
def local_cluster(request: pytest.FixtureRequest, _cluster_home: "ClusterHome") -> "Iterator[LocalCluster]":
    """A new local cluster with the project's CRDs: an API server alone, unless the marker says more."""
    from trainwright.controller.local.testing.cluster import LocalCluster  # noqa: PLC0415 - only if used

    marker = request.node.get_closest_marker(_CLUSTER_MARKER)
    options = {"crds": request.config.getini("control_plane_crds"), **(marker.kwargs if marker else {})}
    with LocalCluster(home=_cluster_home, **options) as running:
        yield running


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        _OPTION,
        choices=("real", "local"),
        default="real",
        help="where tests of the fixture `control_plane` run: kube-apiserver and etcd, or the local API server",
    )
    parser.addoption(
        _LATE,
        metavar="SEED",
        help="let watches of local API servers be late, each kind by 0.2 to 0.7 s, and writes of a status too",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers. Let watches be late if that is wanted, in this process and in those that it starts."""
    if seed := config.getoption(_LATE):
        from trainwright.controller.local.testing.late import SEED_VARIABLE, late_if_wanted  # noqa: PLC0415 - only if used

        os.environ[SEED_VARIABLE] = seed
        late_if_wanted()
    config.addinivalue_line("markers", f"{_MARKER}(reason): needs the real API server, for the reason that is given")
    config.addinivalue_line(
        "markers",
        f"{_CLUSTER_MARKER}(rbac=False, controllers=False, crds=…): what the fixture `local_cluster` is made of",
    )


def pytest_control_plane(fixture: str, config: pytest.Config) -> "ControlPlane | None":
    """See the test kit's hooks: the local one for the fixture `control_plane`, if that is wanted."""
    if fixture != "control_plane" or config.getoption(_OPTION) != "local":
        return None
    from trainwright.controller.local.testing.control_plane import LocalControlPlane  # noqa: PLC0415 - only if used

    return LocalControlPlane(crds=config.getini("control_plane_crds"), audit=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption(_OPTION) != "local":
        return
    counts = config.stash[_LEFT_OUT] = Counter[str]()
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        reason = needs_real(item)
        if reason:
            counts[reason] += 1
        (left_out if reason else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


def needs_real(item: pytest.Item) -> str:
    """Why a test cannot run on the local API server; empty if it can."""
    marker = item.get_closest_marker(_MARKER)
    if marker is not None:
        return str(marker.args[0])
    return _CHAIN if uses(item, "cluster") else ""


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the counts over from a worker of pytest-xdist; all workers collect all tests, so all counts are equal."""
    counts = getattr(node, "workeroutput", {}).get(_OUTPUT)
    if counts:
        node.config.stash[_LEFT_OUT] = Counter[str](counts)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Pass the counts on from a worker of pytest-xdist, which has no terminal."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_OUTPUT] = dict(session.config.stash.get(_LEFT_OUT, None) or {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counts = config.stash.get(_LEFT_OUT, None)
    if counts:
        told = ", ".join(f"{reason} {count}" for reason, count in counts.most_common())
        terminalreporter.write_line(f"{counts.total()} tests need the real control plane: {told}")
