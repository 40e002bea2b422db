# SPDX-License-Identifier: Apache-2.0
"""Every shipped runtime that runs on a processor trains in containers, as its sample says."""

import re
from typing import Any

import pytest

from tests.node.conftest import Containers

LESS = {"limits": {"cpu": "300m", "memory": "512Mi"}}
"""Of a small machine, in place of what a sample asks for."""


def small(job: dict[str, Any]) -> None:
    job["spec"]["trainer"]["resourcesPerNode"] = LESS


@pytest.mark.parametrize("sample", ["10-torch-training.yaml", "11-jax-training.yaml"])
def test_nodes_train_one_model(containers: Containers, sample: str) -> None:
    job = containers.sample(sample)
    assert containers.ends(job) == "Complete", containers.explain(job)
    models = re.findall(r"(?m)^.*worker (\d) ?: model (\w+)", "\n".join(containers.logs(job)))
    assert {worker for worker, _ in models} == {"0", "1"}
    assert len({model for _, model in models}) == 1


def test_mpirun_reaches_all_nodes(containers: Containers) -> None:
    """The launcher is a node, too: three nodes with two processes each."""
    job = containers.sample("04-mpi.yaml", small)
    assert containers.ends(job) == "Complete", containers.explain(job)
    hosts = [line for line in containers.logs(job) if line.startswith(f"{job}-")]
    assert sorted(hosts) == sorted(2 * [f"{job}-launcher-0-0", f"{job}-node-0-0", f"{job}-node-0-1"])


def test_progress_comes_from_a_container_with_a_read_only_root(containers: Containers) -> None:
    report = (
        "import time\nfrom trainwright.progress import Reporter\nwith Reporter(total=40) as r:\n"
        "    for i in range(1, 41):\n        r.update(step=i, loss=1 / i)\n        time.sleep(0.25)"
    )
    user = {"runAsNonRoot": True, "runAsUser": 1234, "runAsGroup": 1234, "seccompProfile": {"type": "RuntimeDefault"}}
    closed = {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"image": "localhost/training:1", "securityContext": closed}
    job = containers.one("reporting", "python", "-c", report, runtime={"securityContext": user, "container": container})
    assert containers.ends(job) == "Complete", containers.explain(job)
    found = containers.get("trainjob", job)
    assert found is not None
    assert found["status"]["trainerStatus"]["progressPercentage"] == 100


def test_a_plain_job_of_two_nodes(containers: Containers) -> None:
    job = containers.sample("01-plain.yaml")
    assert containers.ends(job) == "Complete", containers.explain(job)
    assert sorted(containers.logs(job)) == ["node 0", "node 1"]
