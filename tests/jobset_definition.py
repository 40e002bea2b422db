# SPDX-License-Identifier: Apache-2.0
"""JobSet's definition on the shared API server: there or not, as each test needs it, whatever ran before."""

from contextlib import suppress

import pytest

from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError
from trainwright.controller.runtime.testing.binaries import provide
from trainwright.controller.runtime.testing.waiting import eventually_sync, is_empty

GROUP = "jobset.x-k8s.io"
CRD = "jobsets.jobset.x-k8s.io"


class JobSetDefinition:
    """Installs and removes it. Remembers what it did, since asking kubectl before each test takes time."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        self._is_there: bool | None = None

    def install(self) -> None:
        """Afterwards it is served."""
        if self._is_there is not True:
            self._control_plane.install_crds(provide(["jobset-manager"]).manifests["jobset-crd.yaml"])
            self._is_there = True

    def remove(self) -> None:
        """Afterwards it is not served any more."""
        if self._is_there is not False:
            self._is_there = None  # should it fail
            kubectl = self._control_plane.kubectl
            kubectl("delete", "crd", CRD, "--ignore-not-found", "--wait=false")
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
                    place = (metadata["name"], f"--namespace={metadata['namespace']}")
                    self._control_plane.kubectl(
                        "patch", CRD, *place, "--type=merge", "--patch", '{"metadata": {"finalizers": null}}'
                    )
        return [CRD]


@pytest.fixture(scope="session")
def _jobset_definition(control_plane: ControlPlane) -> JobSetDefinition:
    return JobSetDefinition(control_plane)


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
