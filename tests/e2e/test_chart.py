# SPDX-License-Identifier: Apache-2.0
"""The charts in a cluster: installed, upgraded, rolled back and removed by the real helm, with our manager at work."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts import MANAGER, RUNTIMES
from tests.e2e.chart_admin import INSTALL, UPGRADE, Admin, commands
from tests.e2e.conftest import NOWHERE, Trainer
from tests.installation import NAME, NAMESPACE, Installation, forbidden
from tests.managers import MANAGER as PROGRAM
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import equals, eventually_sync

# A release passes four states, each with a rollout.
pytestmark = [pytest.mark.parity, pytest.mark.timeout(900)]

RELEASE, OTHER = "trainwright", "trainwright-runtimes"
IMAGE = ("--set=image.repository=registry.example.com/trainwright", "--set-string=image.tag=1")
HOME = f"--namespace={NAMESPACE}"


@pytest.fixture
def cluster() -> Iterator[ControlPlane]:
    """The whole chain, and nothing of ours in it."""
    with ControlPlane.complete(audit=True) as plane:
        yield plane


def first_chart(folder: Path) -> Path:
    """The chart as a first version might have been: another image, no budget, an object and a column that went."""
    shutil.copytree(MANAGER, folder)
    chart = yaml.safe_load((folder / "Chart.yaml").read_text())
    (folder / "Chart.yaml").write_text(yaml.safe_dump({**chart, "version": "0.0.1", "appVersion": "0.0.1"}))
    (folder / "templates" / "disruption_budget.yaml").unlink()
    old = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-the-first-chart"}}
    (folder / "templates" / "old.yaml").write_text(yaml.safe_dump(old))
    definition = folder / "files" / "definitions" / "trainer.kubeflow.org_trainjobs.yaml"
    document = yaml.safe_load(definition.read_text())
    document["spec"]["versions"][0]["additionalPrinterColumns"] = []
    definition.write_text(yaml.safe_dump(document))
    return folder


def get(cluster: ControlPlane, *arguments: str) -> Any:
    """What kubectl has of it; None if there is none."""
    return json.loads(cluster.kubectl("get", *arguments, "--ignore-not-found", "--output=json") or "null")


def bundles(cluster: ControlPlane) -> set[str]:
    """The authorities that the API server trusts of our webhooks."""
    found = get(cluster, "validatingwebhookconfiguration", "validator.trainer.kubeflow.org")["webhooks"]
    return {webhook["clientConfig"].get("caBundle", "") for webhook in found}


def columns(cluster: ControlPlane) -> int:
    """How many columns a list of TrainJobs has beside its name."""
    found = get(cluster, "crd", "trainjobs.trainer.kubeflow.org")["spec"]["versions"][0]
    return len(found.get("additionalPrinterColumns", ()))


def _has_seen_its_pod(jobset: Any) -> bool:
    counts = ((jobset or {}).get("status") or {}).get("replicatedJobsStatus") or ()
    return any(one.get("active") for one in counts)


def test_a_release_is_installed_upgraded_rolled_back_and_removed(cluster: ControlPlane, tmp_path: Path) -> None:
    admin = Admin(cluster, tmp_path)
    helm = admin.helm
    (install,) = commands(INSTALL, "With Helm")
    manager, separator, runtimes = install.partition(f"helm upgrade --install {OTHER}")
    admin.charts(first_chart(tmp_path / "first"), RUNTIMES)
    admin.types(manager)
    Installation(cluster).start()
    admin.types(f"{separator}{runtimes.rstrip()} --set=runtimes.flux-distributed=false")
    assert get(cluster, "clustertrainingruntime", "torch-distributed")
    assert get(cluster, "clustertrainingruntime", "flux-distributed") is None

    trainer = Trainer(cluster, cluster.create_namespace())
    trainer.job("runs", trainer.runtime("waits", **NOWHERE))
    eventually_sync(trainer.pods)
    # Its status changes, and so its version, until the controllers of JobSets and Jobs have seen the pod.
    running = eventually_sync(lambda: trainer.get("jobset", "runs"), _has_seen_its_pod)
    assert running is not None
    trusted = bundles(cluster)
    assert "" not in trusted

    def is_untouched() -> bool:
        now = trainer.get("jobset", "runs")
        return now is not None and now["metadata"] == running["metadata"] and len(trainer.pods()) == 1

    # The pods of the Deployment only pretend to run, but they do become ready.
    admin.charts(MANAGER, RUNTIMES)
    (upgrade,) = commands(UPGRADE, "With Helm")
    admin.types(upgrade)
    deployment = get(cluster, "deployment", NAME, HOME)
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example.com/trainwright:2"
    assert columns(cluster) > 0
    assert get(cluster, "poddisruptionbudget", NAME, HOME)
    assert get(cluster, "configmap", "of-the-first-chart", HOME) is None
    # No value was passed to that release, so it kept its own.
    assert get(cluster, "clustertrainingruntime", "flux-distributed") is None
    assert bundles(cluster) == trusted
    assert is_untouched()
    check_doctor(cluster)

    (back,) = commands(UPGRADE, "Back with Helm")
    assert "superseded" in admin.types(back)
    assert columns(cluster) == 0
    assert get(cluster, "configmap", "of-the-first-chart", HOME)
    assert bundles(cluster) == trusted
    assert is_untouched()

    helm("upgrade", RELEASE, MANAGER, HOME, *IMAGE)
    before = get(cluster, "deployment", NAME, HOME)
    helm("upgrade", RELEASE, MANAGER, HOME, *IMAGE, "--set=config.clientConnection.qps=7")
    restarted = get(cluster, "deployment", NAME, HOME)
    assert restarted["metadata"]["generation"] == before["metadata"]["generation"] + 1
    assert forbidden(cluster) == []
    uninstall(cluster, admin, trainer)
    assert is_untouched()

    # The definitions that stayed belong to the release of the old name.
    assert "invalid ownership metadata" in helm.tried("install", "another", MANAGER, HOME, *IMAGE).stderr
    helm("install", "another", MANAGER, HOME, *IMAGE, "--take-ownership")
    assert is_untouched()


def uninstall(cluster: ControlPlane, admin: Admin, trainer: Trainer) -> None:
    """Remove the release while the manager runs; what users made stays."""
    _, remove = commands(INSTALL, "Remove")
    said = admin.types(remove)
    assert cluster.kubectl("get", "clustertrainingruntimes", "--output=name") == ""
    assert "[CustomResourceDefinition] trainjobs.trainer.kubeflow.org" in said
    cluster.stop_program(PROGRAM)
    assert get(cluster, "validatingwebhookconfigurations", "validator.trainer.kubeflow.org") is None

    def left() -> list[str]:
        return cluster.kubectl("get", "all,roles,configmaps,networkpolicies", HOME, "--output=name").split()

    # Pods go after their Deployment, by the garbage collector.
    eventually_sync(left, equals(["configmap/kube-root-ca.crt"]))
    assert get(cluster, "clusterrole", NAME) is None
    # No webhook is called any more, so what is left can be changed.
    assert trainer.get("trainingruntime", "waits")
    trainer.kubectl("annotate", "trainjob", "runs", "changed=yes")


def check_doctor(cluster: ControlPlane) -> None:
    """Nothing that a doctor says about this cluster concerns how we were installed."""
    command = [sys.executable, "-m", "trainwright.controller.cli.main", "doctor", "--output=json"]
    command.append(f"--kubeconfig={cluster.kubeconfig}")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    found = [finding for one in json.loads(done.stdout) for finding in one["findings"]]
    assert [finding for finding in found if finding["severity"] != "note"] == []
