# SPDX-License-Identifier: Apache-2.0
"""A release of another name, in another namespace, for the TrainJobs of a third one, with every gate on.

The manager has the rights of the chart's roles and no others, and `doctor` says nothing false of it.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.charts import MANAGER, Helm, nested
from tests.e2e.conftest import Trainer
from tests.installation import NAME, Installation, forbidden
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.build import provide
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.waiting import eventually_sync, has_length

pytestmark = pytest.mark.parity

HOME, LEASE = "ml-platform", "managers"
VALUES = {
    "config.featureGates": {"AllAlpha": True},
    "config.leaderElection.resourceName": LEASE,
    "config.progress.history": True,
    "config.progress.jobMetrics": True,
    "config.progress.push.requirePod": True,
    "config.metrics.auth.enabled": True,
    "config.cleanup.trainJobTTLSeconds": 604800,
}


def test_an_unusual_release_works_and_doctor_knows_it(tmp_path: Path) -> None:
    with ControlPlane(audit=True) as plane:
        plane.install_crds(provide(["jobset-manager"]).manifests["jobset-crd.yaml"])
        trainer = Trainer(plane, plane.create_namespace())
        helm = Helm(tmp_path, plane.kubeconfig)
        values = nested({**VALUES, "onlyNamespace": trainer.namespace})
        said = helm("install", "other", MANAGER, f"--namespace={HOME}", "--create-namespace", *helm.given(values))
        assert f"trainwright doctor --namespace {trainer.namespace}" in said
        assert "a Kubeflow\nTrainer that runs there would work at the same time" in said
        assert "The name has no registry" in said

        found = doctor(plane)
        assert {one["severity"] for one in found["a manager works"]} == {"problem"}

        manager = Installation(plane, HOME, trainer.namespace)
        manager.start("manager", f"--namespace={trainer.namespace}", statusServer={"port": free_port()})
        lease = plane.kubectl("get", "lease", LEASE, f"--namespace={HOME}", "--output=name")
        assert lease.strip() == f"lease.coordination.k8s.io/{LEASE}"
        trainer.job("runs", trainer.runtime("plain"))
        eventually_sync(lambda: trainer.get("jobset", "runs"))
        assert forbidden(plane, HOME) == []

        # Asked without a namespace, it tries its dry runs where the manager is responsible.
        assert wrong(doctor(plane)) == []
        (told,) = doctor(plane, "--namespace=default")["webhooks answer"]
        assert told["severity"] == "note"
        assert f"the TrainJobs of namespace {trainer.namespace} only" in told["message"]

        # A right that is really missing is found, where it is missing. The API server learns of changed roles later.
        role = ("role", NAME, f"--namespace={trainer.namespace}")
        plane.kubectl("patch", *role, "--type=json", '--patch=[{"op": "remove", "path": "/rules/0"}]')
        (lost,) = eventually_sync(lambda: wrong(doctor(plane)), has_length(1))
        assert f"in namespace {trainer.namespace}, as the manager must" in lost["message"]
        own = ("role", NAME, f"--namespace={HOME}")
        plane.kubectl("patch", *own, "--type=json", '--patch=[{"op": "remove", "path": "/rules/0"}]')
        found_there = f"in namespace {HOME}, as the manager must"
        more = eventually_sync(
            lambda: wrong(doctor(plane)), lambda found: any(found_there in one["message"] for one in found)
        )
        assert lost["message"] in {one["message"] for one in more}


def doctor(plane: ControlPlane, *arguments: str) -> dict[str, list[dict[str, str]]]:
    """The findings of each check."""
    command = [sys.executable, "-m", "trainwright.controller.cli.main", "doctor", "--output=json"]
    command += [f"--kubeconfig={plane.kubeconfig}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return {one["check"]: one["findings"] for one in json.loads(done.stdout)}


def wrong(found: dict[str, list[dict[str, str]]]) -> list[dict[str, str]]:
    """All that is more than a note."""
    return [finding for findings in found.values() for finding in findings if finding["severity"] != "note"]
