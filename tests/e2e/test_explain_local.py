# SPDX-License-Identifier: Apache-2.0
"""Faults that processes can show, on the local cluster: the first sentence of `trainwright explain`."""

import subprocess
from collections.abc import Iterator

import pytest
import yaml

from tests.builders import train_job
from tests.e2e.shell import TRAINWRIGHT, Shell
from trainwright.api.objects import wire
from trainwright.controller.runtime.testing.waiting import eventually_sync


class Cluster(Shell):
    """A user who asks why, of a local cluster."""

    def submit(self, name: str, nodes: int = 1, **trainer: object) -> None:
        reference, trained = {"name": "xgboost-distributed"}, {"numNodes": nodes, **trainer}
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(wire(train_job(name, "", uid="", runtimeRef=reference, trainer=trained))))
        done = self.local("run", "--detach", f"--file={file}")
        assert done.returncode == 0, done.stderr

    def says(self, name: str, beginning: str, *words: str) -> subprocess.CompletedProcess[str]:
        """The explanation, as soon as it begins like this and has these words."""
        return eventually_sync(
            lambda: self.run("explain", name),
            lambda done: done.stdout.startswith(beginning) and all(word in done.stdout for word in words),
            what=f"{name}: {beginning}",
        )

    def wait_for(self, name: str, beginning: str) -> None:
        """Wait in one process until the explanation begins like this; `says` starts one for each look."""
        command = [*TRAINWRIGHT, "explain", name, "--watch"]
        with subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True) as watching:
            assert watching.stdout is not None
            assert any(line.startswith(beginning) for line in watching.stdout)
            watching.terminate()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster.with_cluster(tmp_path_factory.mktemp("explain")) as made:
        yield made


def test_a_rank_that_fails_with_the_last_line_of_its_log(cluster: Cluster) -> None:
    ends = "print('no data'); sys.exit(3)"
    program = f"import os, sys, time\nif os.environ['DMLC_TASK_ID'] == '1': {ends}\ntime.sleep(99)"
    cluster.submit("fails", 2, command=["python", "-c", program])
    # The container starts again and again, and a log that is read in between has no line yet.
    beginning = "Restarting: container node of rank 1 has failed"
    done = cluster.says("fails", beginning, "exit code 3", "its log ends with: no data")
    assert done.returncode == 1


def test_a_program_that_does_not_exist(cluster: Cluster) -> None:
    cluster.submit("absent", command=["torchrun-of-nobody"])
    done = cluster.says(
        "absent", "Stuck: container node of rank 0 cannot run torchrun-of-nobody: it is not in the image"
    )
    assert "correct spec.trainer.command or the image" in done.stdout
    assert done.returncode == 1


def test_a_node_that_is_too_small(cluster: Cluster) -> None:
    cluster.submit("large", resourcesPerNode={"requests": {"cpu": "4k"}}, command=["python", "-c", ""])
    cluster.wait_for("large", "Stuck: ")  # a shortage is a cause after ten seconds
    done = cluster.says("large", "Stuck: no node has 4000 cpu (the largest has ")
    assert done.returncode == 1


def test_a_variable_of_a_secret_that_does_not_exist(cluster: Cluster) -> None:
    reference = {"secretKeyRef": {"name": "s", "key": "k"}}
    env = [{"name": "TOKEN", "valueFrom": reference}]
    cluster.submit("token", command=["python", "-c", ""], env=env)
    done = cluster.says("token", "Stuck: variable TOKEN of container node comes from Secret s, which does not exist")
    assert done.returncode == 1


def test_a_job_that_runs_and_one_that_is_complete(cluster: Cluster) -> None:
    cluster.submit("runs", 2, command=["python", "-c", "import time; time.sleep(99)"])
    assert cluster.says("runs", "Running: 2 of 2 pods run, attempt 1").returncode == 0
    cluster.submit("ends", command=["python", "-c", ""])
    assert cluster.says("ends", "Complete: the job is complete").returncode == 0
