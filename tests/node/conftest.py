# SPDX-License-Identifier: Apache-2.0
"""A cluster with a real kubelet and real containers, on which `make deploy` has installed the manager.

`make test CLUSTER=node` makes what it needs. Where that is not in the cache, these tests are left out.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.node.__main__ import missing
from hack.node.cluster import NodeCluster
from tests.e2e.conftest import Trainer
from tests.installation import NAMESPACE, forbidden
from tests.repository import ROOT
from tests.rungs import is_local
from trainwright.controller.runtime.testing.waiting import eventually_sync
from trainwright.plugins.testing import replicated_job, runtime_document

FOLDER = Path(__file__).parent
SAMPLES = ROOT / "config" / "samples"
PYTHON = "python:3.13-slim"
SECONDS = 180.0
RESTRICTED = "pod-security.kubernetes.io/enforce"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of this folder where no node can start."""
    ours = [item for item in items if item.path.is_relative_to(FOLDER)]
    if not ours:
        return
    # A run on the local cluster may not even look for real programs.
    reason = "this run is on the local cluster" if is_local(config) else missing()
    for item in ours:
        item.add_marker(pytest.mark.only_where(not reason, f"real node: {reason}"))
        # The first one starts the cluster.
        item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def node() -> Iterator[NodeCluster]:
    """The cluster, with the manager in two pods."""
    with NodeCluster(audit=True) as cluster:
        # An admin may have made the namespace, as strict as can be.
        metadata = {"name": NAMESPACE, "labels": {RESTRICTED: "restricted"}}
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        cluster.deploy()
        yield cluster
        assert forbidden(cluster) == []


class Containers(Trainer):
    """A namespace on that cluster."""

    cluster: NodeCluster

    def sample(self, name: str, change: "Callable[[dict[str, Any]], None]" = lambda _: None) -> str:
        """Create what a sample holds, in this namespace; returns the name of its TrainJob."""
        job = ""
        for document in yaml.safe_load_all((SAMPLES / name).read_text()):
            if not document["kind"].startswith("Cluster"):
                document["metadata"]["namespace"] = self.namespace
            if document["kind"] == "TrainJob":
                change(document)
                job = document["metadata"]["name"]
            self.cluster.apply(document)
        return job

    def ends(self, name: str) -> str:
        """Wait until a TrainJob is over; returns the condition that ended it."""

        def over() -> str:
            true = {kind for kind, (status, _) in self.conditions(name).items() if status == "True"}
            return next(iter(true & {"Complete", "Failed"}), "")

        return eventually_sync(over, bool, seconds=SECONDS)

    def logs(self, name: str) -> list[str]:
        """The lines that the pods of a TrainJob have written."""
        selector = f"--selector=jobset.sigs.k8s.io/jobset-name={name}"
        return self.kubectl("logs", "--tail=-1", "--all-containers", selector).splitlines()

    def one(
        self,
        name: str,
        *command: str,
        runtime: dict[str, Any] | None = None,
        annotations: dict[str, str] | None = None,
        **trainer: Any,
    ) -> str:
        """Create a TrainJob whose one pod runs a command in the image of Python; returns its name.

        Args:
            name: of the TrainJob and its runtime.
            command: of the container.
            runtime: further fields of the pod; `container`: of its container.
            annotations: of the TrainJob.
            trainer: further fields of `spec.trainer`.
        """
        container = {"name": "node", "image": PYTHON, **(runtime or {}).pop("container", {})}
        pod = {"restartPolicy": "Never", "containers": [container], **(runtime or {})}
        document = runtime_document(name, replicated_job(pod=pod, backoffLimit=0))
        self.create("TrainingRuntime", name, document["spec"])
        self.job(name, name, annotations=annotations, trainer={"numNodes": 1, "command": list(command), **trainer})
        return name


@pytest.fixture
def containers(node: NodeCluster) -> Containers:
    """A namespace of the test's own."""
    return Containers(node, node.create_namespace())


def managers(node: NodeCluster) -> list[dict[str, Any]]:
    """The manager's pods that are not on their way out."""
    found = json.loads(node.kubectl("get", "pods", f"--namespace={NAMESPACE}", "--output=json"))["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
