# SPDX-License-Identifier: Apache-2.0
"""The least that must work with real containers: the manager is deployed, a training ends, a failure is explained.

`.ci/run` runs this file where the cache has what it needs.
"""

import re

import pytest

from hack.node.cluster import NodeCluster
from tests.installation import NAMESPACE
from tests.node.conftest import Containers, managers
from trainwright.controller.runtime.testing import ControlPlaneError


def test_the_manager_runs_twice_as_its_user_with_a_read_only_root(node: NodeCluster) -> None:
    pods = managers(node)
    assert len(pods) == 2
    for pod in pods:
        (status,) = pod["status"]["containerStatuses"]
        assert (status["ready"], status["restartCount"]) == (True, 0)
        python = [
            "exec",
            f"--namespace={NAMESPACE}",
            pod["metadata"]["name"],
            "--",
            "/opt/trainwright/bin/python",
            "-c",
        ]
        own = node.kubectl(*python, "print(*open('/proc/1/status'))")
        assert re.search(r"(?m)^ Uid:\s+65532\s+65532\s", own)
        assert re.search(r"(?m)^ CapEff:\s+0+$", own)
        assert re.search(r"(?m)^ NoNewPrivs:\s+1$", own)
        with pytest.raises(ControlPlaneError, match="Read-only file system"):
            node.kubectl(*python, "open('/opt/trainwright/x', 'w')")


def test_two_containers_train_one_model(containers: Containers) -> None:
    job = containers.sample("09-xgboost.yaml")
    assert containers.ends(job) == "Complete"
    lines = [line for line in containers.logs(job) if "accuracy" in line]
    assert {line.split(":")[0] for line in lines} == {"worker 0", "worker 1"}
    assert len({line.partition(": ")[2] for line in lines}) == 1


def test_a_failure_is_explained(containers: Containers) -> None:
    # Python writes the first line last: it holds its output until it ends.
    job = containers.one("failing", "python", "-c", "print('one'); raise ValueError('the data is bad')")
    assert containers.ends(job) == "Failed"
    told = containers.told(job, "exit code 1", "ValueError: the data is bad")
    assert "Job" in told or "node" in told
