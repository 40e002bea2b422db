# SPDX-License-Identifier: Apache-2.0
"""An API server writes quantities as we do: it makes those of its own kinds canonical."""

import pytest

from trainwright.api.quantity import canonical
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneError

QUANTITIES = [
    "0",
    "0Gi",
    "1",
    ".5",
    "0.1",
    "100m",
    "1000m",
    "1500m",
    "1n",
    "0.1n",
    "1e-10",
    "999u",
    "1000u",
    "1000",
    "1023",
    "1024",
    "12345",
    "12000",
    "1000000",
    "1k",
    "1M",
    "1G",
    "1T",
    "1P",
    "1E",
    "2e3",
    "20e2",
    "1e4",
    "1e5",
    "1e-3",
    "123456789123456789n",
    "1Ki",
    "0.5Ki",
    "1.5Ki",
    "0.0001Ki",
    "1023Ki",
    "1024Ki",
    "1025Ki",
    "1.5Gi",
    "0.3Gi",
    "1536Mi",
    "500Mi",
    "1Ti",
    "1Pi",
    "1Ei",
    "7Ei",
    "9Ei",
    "1048576",
    "1073741824",
    "0.001",
    "0.0001",
    "1.0005",
    "3.14159Mi",
    "0.9Gi",
    "1e18",
    "12e17",
    "100Mi",
    "2.5G",
]
WRONG = ["", "a", "1 Gi", "1gi", "1.5.2", "1e1.5", "--1", "1kk"]


def pod(namespace: str, values: list[str]) -> dict[str, object]:
    """A pod with one volume per value."""
    volumes = [{"name": f"v{index}", "emptyDir": {"sizeLimit": value}} for index, value in enumerate(values)]
    spec = {"containers": [{"name": "a", "image": "a"}], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": namespace}, "spec": spec}


def test_canonical_forms(control_plane: ControlPlane, namespace: str) -> None:
    made = control_plane.stored.create(pod(namespace, QUANTITIES), dry_run=True)
    limits = {
        volume["name"]: volume["emptyDir"]["sizeLimit"] for volume in made["spec"]["volumes"] if "emptyDir" in volume
    }
    theirs = {value: limits[f"v{index}"] for index, value in enumerate(QUANTITIES)}
    mine = {value: canonical(value) for value in QUANTITIES}
    assert mine == theirs


@pytest.mark.parametrize("value", WRONG)
def test_refused(control_plane: ControlPlane, namespace: str, value: str) -> None:
    with pytest.raises(ControlPlaneError, match="quantit"):
        control_plane.stored.create(pod(namespace, [value]), dry_run=True)
    with pytest.raises(ValueError, match="is not a quantity"):
        canonical(value)
