# SPDX-License-Identifier: Apache-2.0
"""An API server takes the generated CustomResourceDefinitions, and kubectl shows what they say."""

import json
from pathlib import Path

import pytest

from trainwright.controller.runtime.testing import ControlPlane

pytestmark = pytest.mark.real_control_plane("kubectl")

ROOT = Path(__file__).resolve().parents[3]
JOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "spec": {"runtimeRef": {"name": "torch"}},
}


def test_applied_without_a_warning(control_plane: ControlPlane) -> None:
    for _ in range(2):
        control_plane.kubectl(
            "apply",
            "--server-side",
            "--force-conflicts",
            "--field-manager=test",
            "--warnings-as-errors",
            "--kustomize",
            str(ROOT / "config/crd"),
        )
    names = "trainjobs.trainer.kubeflow.org", "trainingruntimes.trainer.kubeflow.org"
    for name in (*names, "clustertrainingruntimes.trainer.kubeflow.org"):
        found = json.loads(control_plane.kubectl("get", "crd", name, "-o", "json"))
        conditions = {condition["type"]: condition["status"] for condition in found["status"]["conditions"]}
        assert conditions["NamesAccepted"] == "True"
        assert conditions["Established"] == "True"
        assert "NonStructuralSchema" not in conditions


def test_the_state_column_shows_what_holds(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.apply({**JOB, "metadata": {"name": "job", "namespace": namespace}})
    shown = ["get", "trainjob", "job", "-n", namespace, "--no-headers"]
    assert control_plane.kubectl(*shown).split()[0] == "job"
    times = {"lastTransitionTime": "2026-11-20T08:30:00Z", "message": ""}
    for conditions, state in (
        ([{"type": "Suspended", "status": "True", "reason": "Suspended"}], "Suspended"),
        ([{"type": "Suspended", "status": "False", "reason": "Resumed"}], None),
        (
            [
                {"type": "Complete", "status": "True", "reason": "AllJobsCompleted"},
                {"type": "Suspended", "status": "False", "reason": "Resumed"},
            ],
            "Complete",
        ),
    ):
        status = {"status": {"conditions": [{**times, **condition} for condition in conditions]}}
        control_plane.kubectl(
            "patch",
            "trainjob",
            "job",
            "-n",
            namespace,
            "--subresource=status",
            "--type=merge",
            "-p",
            json.dumps(status),
        )
        columns = control_plane.kubectl(*shown).split()
        assert columns[1:-1] == ([state] if state else [])


def test_explain_speaks(control_plane: ControlPlane) -> None:
    told = control_plane.kubectl("explain", "trainjob.spec.trainer.numNodes")
    assert "Number of training nodes. Each node is one pod." in told
