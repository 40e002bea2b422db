# SPDX-License-Identifier: Apache-2.0
"""Which zero values of a template Kubeflow Trainer writes into a JobSet, and which it leaves out."""

from typing import Any

import pytest

from trainwright.api.base import Struct
from trainwright.api.jobset.v1alpha2 import FailurePolicy, JobSetSpec, ReplicatedJob
from trainwright.api.kubernetes.batch.v1 import JobSpec
from trainwright.api.kubernetes.core.v1 import (
    Container,
    EnvVar,
    HostPathVolumeSource,
    PodSpec,
    Probe,
    Toleration,
    Volume,
    VolumeMount,
)
from trainwright.api.typed import as_typed

SIZED = {"name": "v", "emptyDir": {"sizeLimit": 0}}


@pytest.mark.parametrize(
    ("model", "given", "expected"),
    [
        pytest.param(FailurePolicy, {"maxRestarts": 0}, {}, id="number"),
        pytest.param(ReplicatedJob, {"name": "a", "replicas": 0}, {"name": "a"}, id="replicas"),
        pytest.param(EnvVar, {"name": "A", "value": ""}, {"name": "A"}, id="text"),
        pytest.param(Container, {"name": "c", "tty": False, "command": []}, {"name": "c"}, id="flag-and-list"),
        pytest.param(VolumeMount, {"name": "", "mountPath": ""}, {"name": "", "mountPath": ""}, id="required"),
        pytest.param(PodSpec, {"containers": [], "nodeSelector": {}}, {"containers": []}, id="map"),
        pytest.param(
            Probe,
            {"periodSeconds": 0, "grpc": {"port": 0, "service": ""}},
            {"grpc": {"port": 0, "service": ""}},
            id="probe",
        ),
        pytest.param(JobSpec, {"template": {}, "backoffLimit": 0, "suspend": False}, "same", id="pointers"),
        pytest.param(HostPathVolumeSource, {"path": "/", "type": ""}, "same", id="pointer-here-only"),
        pytest.param(Volume, {"name": "v", "emptyDir": {"sizeLimit": 0, "medium": ""}}, SIZED, id="below"),
        pytest.param(Toleration, {"key": "", "tolerationSeconds": 0}, {"tolerationSeconds": 0}, id="mixed"),
        pytest.param(PodSpec, {"containers": [], "new": {"x": []}}, "same", id="unknown"),
        pytest.param(
            JobSetSpec,
            {"network": {}, "managedBy": "", "replicatedJobs": []},
            {"network": {}, "managedBy": ""},
            id="jobset",
        ),
    ],
)
def test_zeroes(model: type[Struct], given: dict[str, Any], expected: dict[str, Any] | str) -> None:
    assert as_typed(model, given) == (given if expected == "same" else expected)


def test_two_fields_are_always_written() -> None:
    reference = {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}
    assert as_typed(EnvVar, reference)["valueFrom"]["resourceFieldRef"] == {"resource": "limits.cpu", "divisor": "0"}
    pattern = {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}}
    (rule,) = as_typed(JobSpec, pattern)["podFailurePolicy"]["rules"]
    assert rule["onPodConditions"] == [{"type": "DisruptionTarget", "status": ""}]
