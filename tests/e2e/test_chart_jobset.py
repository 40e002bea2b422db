# SPDX-License-Identifier: Apache-2.0
"""JobSet as an option of the packaged chart: installed where there is none, and refused where there is one."""

import json
from pathlib import Path
from typing import Any

import pytest

from hack.chart_package import package
from tests.charts import Helm
from tests.installation import NAME, NAMESPACE
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.build import provide

pytestmark = pytest.mark.parity

HOME = (f"--namespace={NAMESPACE}", "--create-namespace")
JOBSET = "--set=jobset.install=true"
CRD = "jobsets.jobset.x-k8s.io"
LABELS = {"app.kubernetes.io/name": "theirs"}
POD = {"containers": [{"name": "manager", "image": "registry.example.com/jobset:v0.8.1"}]}
THEIRS: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "controller", "namespace": "default"},
    "spec": {"selector": {"matchLabels": LABELS}, "template": {"metadata": {"labels": LABELS}, "spec": POD}},
}


def test_jobset_is_an_option_that_spares_one_that_is_there(tmp_path: Path) -> None:
    chart, runtimes = package(tmp_path / "charts")
    assert runtimes.is_file()
    with ControlPlane() as plane:
        helm = Helm(tmp_path / "helm", plane.kubeconfig)

        def there(*arguments: str) -> list[str]:
            return plane.kubectl("get", *arguments, "--ignore-not-found", "--output=name").split()

        plane.install_crds(provide(["jobset-manager"]).manifests["jobset-crd.yaml"])
        plane.kubectl("create", "--filename=-", stdin=json.dumps(THEIRS))
        version = "jsonpath={.metadata.resourceVersion}"
        before = plane.kubectl("get", "crd", CRD, "-o", version)
        done = helm.tried("install", "release", chart, *HOME, JOBSET)
        assert "JobSet is in this cluster already (Deployment default/controller)" in done.stderr
        helm("install", "release", chart, *HOME)
        assert plane.kubectl("get", "crd", CRD, "-o", version) == before
        assert there("deployments", HOME[0]) == [f"deployment.apps/{NAME}"]

        plane.kubectl("delete", "deployment", "controller")
        plane.kubectl("delete", "crd", CRD)
        refused = helm.tried("upgrade", "release", chart, *HOME, JOBSET).stderr
        assert "Helm installs the definition of JobSets with the first installation only" in refused
        # Off by default: nothing of JobSet is installed.
        helm("upgrade", "release", chart, *HOME)
        assert there("crd", CRD) == []
        helm("uninstall", "release", HOME[0])

        helm("install", "release", chart, *HOME, JOBSET)
        assert there("crd", CRD)
        assert len(there("deployments", HOME[0])) == 2
        # That of the release itself is none that is there already.
        helm("upgrade", "release", chart, *HOME, JOBSET)
        helm("uninstall", "release", HOME[0])
        assert there("crd", CRD)
        assert there("deployments", HOME[0]) == []
