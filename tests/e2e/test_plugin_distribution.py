# SPDX-License-Identifier: Apache-2.0
"""A plugin of another project: built as a wheel, installed with pip into an environment of its own, found and used."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.managers import start_manager
from tests.repository import ROOT
from tests.wheels import environment_with
from trainwright.controller.local.testing.control_plane import LocalControlPlane
from trainwright.controller.runtime.testing.waiting import eventually_sync

SOURCE = Path(__file__).parent / "plugin_distribution"
RUNTIME = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: ray, labels: {trainer.kubeflow.org/framework: ray}}
spec:
  mlPolicy: {numNodes: 1}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: rayproject/ray}]}}}
---
"""
JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: tune}
spec:
  runtimeRef: {name: ray}
  trainer: {numNodes: 2, env: [{name: NAME, value: x}]}
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the plugin, which sees the packages of this one."""
    return environment_with(SOURCE, tmp_path_factory.mktemp("plugin"))


def test_its_framework_is_rendered_and_explained(python: Path, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(RUNTIME + JOB)
    command = [str(python), "-m", "trainwright.controller.cli.main", "render", "-f", str(tmp_path), "--explain"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    hosts, jobset = yaml.safe_load_all(output)
    assert hosts["metadata"]["name"] == "tune-ray-hosts"
    assert hosts["data"] == {"hosts": "tune-node-0-0.tune\ntune-node-0-1.tune\n"}
    container = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    assert [item["name"] for item in container["env"]] == ["NAME", "RAY_ADDRESS", "RAY_NODES", "RAY_RANK"]
    assert container["env"][1]["value"] == "tune-node-0-0.tune:6379"
    assert "env[RAY_NODES]" in output
    assert "# Ray, enforce_ml_policy: number of nodes" in output


def test_the_manager_runs_it_with_its_settings(python: Path, local_jobset_crd: Path) -> None:
    with LocalControlPlane(crds=[ROOT / "config" / "crd", local_jobset_crd]) as control_plane:
        start_manager(control_plane, python=python, plugins={"settings": {"Ray": {"port": 7000}}})
        control_plane.apply(*(one for one in yaml.safe_load_all(RUNTIME + JOB) if one))
        jobset = eventually_sync(lambda: control_plane.stored.get("jobset", "tune", "default")) or {}
        pod = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        values = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
        assert values["RAY_ADDRESS"] == "tune-node-0-0.tune:7000"
        hosts = (control_plane.stored.get("configmap", "tune-ray-hosts", "default") or {})["data"]["hosts"]
        assert hosts.split() == ["tune-node-0-0.tune", "tune-node-0-1.tune"]
