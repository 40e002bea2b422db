# SPDX-License-Identifier: Apache-2.0
"""JobSet's definition on the shared API server: there or not, as each test needs it, whatever ran before."""

from contextlib import suppress
from pathlib import Path

import pytest

from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.controller.runtime.testing.waiting import eventually_sync, is_empty

GROUP = "jobset.x-k8s.io"
CRD = "jobsets.jobset.x-k8s.io"


class JobSetDefinition:
    """Installs and removes it. Remembers what it did, since asking before each test takes time."""

    def __init__(self, control_plane: ControlPlane, definition: Path) -> None:
        self._control_plane, self._definition = control_plane, definition
        self._is_there: bool | None = None

    def install(self) -> None:
        """Afterwards it is served."""
        if self._is_there is not True:
            self._control_plane.install_crds(self._definition)
            self._is_there = True

    def remove(self) -> None:
        """Afterwards it is not served any more."""
        if self._is_there is not False:
            self._is_there = None  # should it fail
            self._control_plane.stored.delete("crd", CRD, wait=False)
            eventually_sync(self._left, is_empty, what="no definition of JobSet")
            self._is_there = False

    def _left(self) -> list[str]:
        """What is still served. JobSets with a finalizer would stay: here is no garbage collector to remove it."""
        stored = self._control_plane.stored
        if GROUP not in stored.groups():
            return []
        with suppress(ControlPlaneError):  # gone meanwhile
            for jobset in stored.list(CRD):
                metadata = jobset["metadata"]
                if metadata.get("finalizers"):
                    stored.patch(CRD, metadata["name"], {"metadata": {"finalizers": None}}, metadata["namespace"])
        return [CRD]


@pytest.fixture(scope="session")
def _jobset_definition(control_plane: ControlPlane, jobset_crd: Path) -> JobSetDefinition:
    return JobSetDefinition(control_plane, jobset_crd)


@pytest.fixture
def with_jobsets(control_plane: ControlPlane, _jobset_definition: JobSetDefinition) -> ControlPlane:
    """The shared API server with JobSet's definition."""
    _jobset_definition.install()
    return control_plane


@pytest.fixture
def without_jobsets(control_plane: ControlPlane, _jobset_definition: JobSetDefinition) -> ControlPlane:
    """The shared API server without JobSet's definition."""
    _jobset_definition.remove()
    return control_plane
