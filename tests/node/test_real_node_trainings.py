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


def test_a_plain_job_of_two_nodes(containers: Containers) -> None:
    job = containers.sample("01-plain.yaml")
    assert containers.ends(job) == "Complete", containers.explain(job)
    assert sorted(containers.logs(job)) == ["node 0", "node 1"]
