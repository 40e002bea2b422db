# SPDX-License-Identifier: Apache-2.0
"""Progress from real containers: pushed with the pod's projected token, or read from a file in the pod."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from hack.deploy import set_image
from hack.node import images
from hack.node.cluster import NodeCluster
from tests.installation import NAME, NAMESPACE
from tests.node.conftest import SECONDS, Containers
from tests.repository import ROOT
from trainwright.controller.runtime.testing.waiting import eventually_sync

CONFIG = ROOT / "config"
SETTINGS = "controller_manager_config.yaml"
TRAIN = """
import sys, time
from progress import Reporter

steps = int(sys.argv[1])
with Reporter(total=steps) as progress:
    for step in range(1, steps + 1):
        progress.update(step=step, loss=1 / step)
        time.sleep(0.5)
"""
BY_PUSH: dict[str, str] = {}
BY_FILE = {"trainwright.dev/progress": "file"}


@pytest.fixture(scope="module")
def reporting(node: NodeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    """The cluster whose manager takes reports and reads files, as an admin turns both on."""
    folder = tmp_path_factory.mktemp("overlay")
    settings: dict[str, Any] = {}
    for overlay in ("progress", "progress-pull"):
        text = (CONFIG / "overlays" / overlay / SETTINGS).read_text()
        gates = settings.get("featureGates", {})
        settings |= yaml.safe_load(text)
        settings["featureGates"] = gates | settings["featureGates"]
    (folder / SETTINGS).write_text(yaml.safe_dump(settings))
    names = ("default", "components/progress", "components/progress-pull")
    default, *components = (os.path.relpath(CONFIG / name, folder) for name in names)
    generated = {"name": "kubeflow-trainer-config", "namespace": NAMESPACE, "behavior": "replace", "files": [SETTINGS]}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [default],
        "components": components,
        "configMapGenerator": [generated],
        "generatorOptions": {"disableNameSuffixHash": True},
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    objects = [one for one in yaml.safe_load_all(node.kubectl("kustomize", str(folder))) if one]
    set_image(objects, images.MANAGER)
    (folder / "all.yaml").write_text(yaml.safe_dump_all(objects))
    node.kubectl("apply", "--server-side", "--force-conflicts", f"--filename={folder / 'all.yaml'}")
    node.kubectl("rollout", "restart", f"deployment/{NAME}", f"--namespace={NAMESPACE}")
    node.kubectl("rollout", "status", f"deployment/{NAME}", f"--namespace={NAMESPACE}", "--timeout=180s")
    yield node
    node.deploy()


def started(containers: Containers, name: str, steps: int, annotations: dict[str, str]) -> str:
    """Create a job of one container, which reports `steps` steps, two a second; returns its name."""
    files = {"progress.py": (ROOT / "trainwright" / "progress.py").read_text(), "train.py": TRAIN}
    metadata = {"name": "code", "namespace": containers.namespace}
    containers.cluster.stored.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files})
    volume = {"volumes": [{"name": "code", "configMap": {"name": "code"}}]}
    mount = {"volumeMounts": [{"name": "code", "mountPath": "/code"}]}
    command = ("python", "/code/train.py", str(steps))
    return containers.one(name, *command, runtime={**volume, "container": mount}, annotations=annotations)


def shown(containers: Containers, job: str) -> dict[str, Any]:
    """What the TrainJob shows of its progress; empty at first."""
    found = containers.get("trainjob", job) or {}
    status: dict[str, Any] = found.get("status", {}).get("trainerStatus") or {}
    return status


def is_done(status: dict[str, Any]) -> bool:
    return status.get("progressPercentage") == 100


@pytest.mark.usefixtures("reporting")
@pytest.mark.parametrize("annotations", [BY_PUSH, BY_FILE], ids=["push", "file"])
def test_progress_is_shown_while_a_container_trains(containers: Containers, annotations: dict[str, str]) -> None:
    job = started(containers, "trains", 60, annotations)
    eventually_sync(
        lambda: shown(containers, job), lambda status: 0 < status.get("progressPercentage", 0) < 100, seconds=SECONDS
    )
    assert containers.ends(job) == "Complete"
    status = eventually_sync(lambda: shown(containers, job), is_done, seconds=SECONDS)
    assert {one["name"]: one["value"] for one in status["metrics"]}["current_step"] == "60"


@pytest.mark.usefixtures("reporting")
@pytest.mark.parametrize("annotations", [BY_PUSH, BY_FILE], ids=["push", "file"])
def test_a_job_of_three_seconds_shows_its_end(containers: Containers, annotations: dict[str, str]) -> None:
    """Its file is gone with its container before anybody has read it: the termination message has the last report."""
    job = started(containers, "short", 6, annotations)
    assert containers.ends(job) == "Complete"
    eventually_sync(lambda: shown(containers, job), is_done, seconds=SECONDS)
