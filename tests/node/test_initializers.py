# SPDX-License-Identifier: Apache-2.0
"""Our images of initializers in containers: a hub in the cluster, a volume of two steps and a training, a failure."""

import json
from pathlib import Path
from typing import Any

import pytest

from hack.node import images
from hack.node.cluster import NodeCluster
from tests.node.conftest import SECONDS, Containers
from tests.unit.initialize import hub
from trainwright.controller.runtime.testing.waiting import eventually_sync

PORT = 8080
SERVE = f"""
import asyncio, json, pathlib
from hub import *

async def main():
    files = json.loads(pathlib.Path("/hub/repositories.json").read_text())
    it = Hub({{name: Repository({{file: text.encode() for file, text in of.items()}}) for name, of in files.items()}})
    application = web.Application()
    application.router.add_route("*", "/{{path:.*}}", it.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "0.0.0.0", {PORT}).start()
    await asyncio.Event().wait()

asyncio.run(main())
"""
REPOSITORIES = {
    "datasets/scikit-learn/iris": {"data/a.csv": "1,2\n", "data/b.csv": "3,4\n", "README.md": "numbers"},
    "models/hf-internal-testing/tiny-random-bert": {"config.json": "{}", "model.safetensors": 10_000 * "weights"},
}
READY = "{.items[*].endpoints[*].conditions.ready}"
LESS = {"limits": {"cpu": "300m", "memory": "512Mi"}}


@pytest.fixture(scope="module")
def loaded(node: NodeCluster) -> NodeCluster:
    """The cluster, whose node has our images under the names that the shipped runtimes give."""
    for target in ("dataset-initializer", "model-initializer"):
        node.load(images.ours(target))
    return node


@pytest.fixture
def initialized(loaded: NodeCluster, containers: Containers) -> Containers:
    """A namespace with a hub, as the Service `hub`, and a claim for what comes from it."""
    files = {
        "hub.py": Path(hub.__file__).read_text(),
        "serve.py": SERVE,
        "repositories.json": json.dumps(REPOSITORIES),
    }
    pod: dict[str, Any] = {
        "containers": [
            {
                "name": "hub",
                "image": images.MANAGER,
                "command": ["/opt/trainwright/bin/python", "/hub/serve.py"],
                "ports": [{"containerPort": PORT}],
                "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
                "volumeMounts": [{"name": "hub", "mountPath": "/hub"}],
            }
        ],
        "volumes": [{"name": "hub", "configMap": {"name": "hub"}}],
    }
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "claimRef": {"namespace": containers.namespace, "name": "models-and-data"},
        "hostPath": {"path": f"/var/lib/{containers.namespace}", "type": "DirectoryOrCreate"},
    }
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "",
        "volumeName": containers.namespace,
    }
    core = {"apiVersion": "v1"}
    here = {"namespace": containers.namespace}
    for document in (
        {**core, "kind": "ConfigMap", "metadata": {"name": "hub", **here}, "data": files},
        {**core, "kind": "Pod", "metadata": {"name": "hub", "labels": {"app": "hub"}, **here}, "spec": pod},
        {
            **core,
            "kind": "Service",
            "metadata": {"name": "hub", **here},
            "spec": {"selector": {"app": "hub"}, "ports": [{"port": 80, "targetPort": PORT}]},
        },
        {**core, "kind": "PersistentVolume", "metadata": {"name": containers.namespace}, "spec": volume},
        {**core, "kind": "PersistentVolumeClaim", "metadata": {"name": "models-and-data", **here}, "spec": claim},
    ):
        loaded.apply(document)
    eventually_sync(
        lambda: containers.kubectl(
            "get", "endpointslices", "--output=jsonpath={.items[*].endpoints[*].conditions.ready}"
        ),
        lambda text: "true" in text,
        seconds=SECONDS,
    )
    return containers


def job(initialized: Containers, name: str, model: str = "hf-internal-testing/tiny-random-bert") -> str:
    """The sample as a job of that name, with the hub of the namespace."""
    endpoint = [{"name": "HF_ENDPOINT", "value": f"http://hub.{initialized.namespace}"}]

    def change(document: dict[str, Any]) -> None:
        document["metadata"]["name"] = name
        document["spec"]["trainer"]["resourcesPerNode"] = LESS
        initializer = document["spec"]["initializer"]
        for step in initializer.values():
            step["env"] = endpoint
        initializer["model"]["storageUri"] = f"hf://{model}"

    return initialized.sample("14-models-and-data.yaml", change)


def test_a_training_reads_both_and_a_second_job_fetches_nothing(initialized: Containers) -> None:
    first = job(initialized, "first")
    assert initialized.ends(first) == "Complete", initialized.explain(first)
    said = [line for line in initialized.logs(first) if line.startswith("trains with")]
    assert said == ["trains with 3 files of dataset", "trains with 2 files of model"]
    second = job(initialized, "second")
    assert initialized.ends(second) == "Complete", initialized.explain(second)
    assert "\n".join(initialized.logs(second)).count("is complete: nothing to fetch") == 2


def test_a_model_that_is_not_there_is_told_while_its_step_is_tried_again(initialized: Containers) -> None:
    missing = job(initialized, "missing", model="nobody/nothing")
    # Before its first end, it is told that the step runs.
    initialized.told(
        missing,
        "nobody/nothing",
        "model-initializer failed",
        "is private or does not exist: if it is private, it needs a token",
    )
