# SPDX-License-Identifier: Apache-2.0
"""Which control plane a test runs on: the local one (`make test`), or the compiled one (`make test CLUSTER=real`).

A test says what it needs by its fixtures and markers, so no list of tests is kept:

- `control_plane`, `chain`, `new_control_plane`, and what is made of them: it runs on both.
- `cluster`, or the marker `real_control_plane(reason)`: it needs the real programs, and runs there alone.
- none of these, or the marker `local_is_enough`: the real one would prove nothing new, so it runs in `make test` alone.
"""

import json
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.repository import ROOT
from trainwright.controller.local.testing.control_plane import LocalControlPlane
from trainwright.controller.local.testing.pytest_plugin import needs_real
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError, build
from trainwright.controller.runtime.testing.pytest_plugin import uses
from trainwright.controller.runtime.testing.tools import cache_root

OPTION = "--control-plane"
ON_A_CONTROL_PLANE = "on_control_plane"
LOCAL_IS_ENOUGH = "local_is_enough"
REAL, LOCAL = "real", "local"
_JOBSET_CRD = ROOT / "controller" / "local" / "controllers" / "jobsets.crd.json"
_FIXTURES = {"new_control_plane", "chain"}


def register(config: pytest.Config) -> None:
    """Declare the marker. On the local API server, refuse to find or build real programs."""
    config.addinivalue_line(
        "markers",
        f"{ON_A_CONTROL_PLANE}: set from fixtures and markers; `make test CLUSTER=real` runs these",
    )
    config.addinivalue_line("markers", f"{LOCAL_IS_ENOUGH}: the compiled control plane would prove nothing new")
    if is_local(config):
        _refuse_programs()


def is_local(config: pytest.Config) -> bool:
    """Whether this run is on the local API server."""
    return bool(config.getoption(OPTION, default=REAL) == LOCAL)


def mark(item: pytest.Item) -> None:
    """Mark a test whose outcome depends on the control plane."""
    looks = uses(item, "control_plane") or _FIXTURES & set(getattr(item, "fixturenames", ()))
    if needs_real(item) or (looks and item.get_closest_marker(LOCAL_IS_ENOUGH) is None):
        item.add_marker(ON_A_CONTROL_PLANE)


def _refuse_programs() -> None:
    """A test that needs one fails here as on a machine without Go, also where an earlier run has built them.

    Tests of the search itself have caches of their own.
    """
    ours, look_up = cache_root(), build.look_up

    def refuse(tools: Collection[str], assets: Path | None) -> build.Binaries | None:
        if tools and cache_root() == ours:
            raise ControlPlaneError(
                f"this run is without real programs ({OPTION}={LOCAL}), and the test asks for {tools}: "
                "use `control_plane.stored`, or mark the test real_control_plane(reason)"
            )
        return look_up(tools, assets)

    build.look_up = refuse


@pytest.fixture(scope="session")
def new_control_plane(pytestconfig: pytest.Config) -> type[ControlPlane]:
    """The class of control planes that a test starts itself, because it changes what all would see."""
    return LocalControlPlane if is_local(pytestconfig) else ControlPlane


@pytest.fixture(scope="session")
def local_jobset_crd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with JobSet's definition as the local cluster has it."""
    definition = json.loads(_JOBSET_CRD.read_bytes())
    del definition["//"]
    file = tmp_path_factory.mktemp("jobset") / "jobsets.json"
    file.write_text(json.dumps(definition))
    return file


@pytest.fixture(scope="session")
def jobset_crd(request: pytest.FixtureRequest) -> Path:
    """A file with JobSet's definition: that of its module, or the local cluster's."""
    if is_local(request.config):
        local: Path = request.getfixturevalue("local_jobset_crd")
        return local
    return build.provide(["jobset-manager"]).manifests["jobset-crd.yaml"]
