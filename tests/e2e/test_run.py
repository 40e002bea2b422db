# SPDX-License-Identifier: Apache-2.0
"""`make run` as a new user gives it: processes train together, and the cluster stays until it is ended."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.repository import ROOT
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Client, HTTPTransport, load_config

pytestmark = pytest.mark.parity


@pytest.fixture
def home(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a user whose clusters lie in a folder of the test."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    environment.pop("KUBECONFIG", None)
    yield environment
    command = ROOT / ".run" / "venv" / "bin" / "trainwright"
    if command.exists():
        subprocess.run([command, "local", "down", "--delete"], env=environment, check=True, capture_output=True)


async def trainer_status(kubeconfig: Path) -> dict[str, Any]:
    """The progress of the sample."""
    client = Client(HTTPTransport(load_config(kubeconfig)))
    try:
        job = await client.get(TrainJob.RESOURCE, "xgboost-digits", "default")
    finally:
        await client.close()
    found: dict[str, Any] = job["status"]["trainerStatus"]
    return found


def test_run_trains_and_the_cluster_stays(home: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(["make", "run"], cwd=ROOT, env=home, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    accuracies = re.findall(r"\[node-(\d)\] worker \d: accuracy ([0-9.]+)", done.stdout)
    assert sorted(rank for rank, _ in accuracies) == ["0", "1"]
    # One model, better than any that has seen nothing.
    assert len({accuracy for _, accuracy in accuracies}) == 1
    assert float(accuracies[0][1]) > 0.9
    assert "the job is Complete" in done.stdout
    state = json.loads((tmp_path / "trainwright" / "local" / "default" / "run.json").read_text())
    os.kill(state["pid"], 0)
    trainwright = ROOT / ".run" / "venv" / "bin" / "trainwright"
    logs = subprocess.run(
        [trainwright, "local", "logs", "xgboost-digits"], env=home, capture_output=True, text=True, check=True
    )
    assert f"[node-1] worker 1: accuracy {accuracies[0][1]}" in logs.stdout
    # The first process reported through the writer, and its last report is there though the job took seconds.
    status = asyncio.run(trainer_status(tmp_path / "trainwright" / "local" / "default" / "kubeconfig"))
    metrics = {metric["name"]: metric["value"] for metric in status["metrics"]}
    assert status["progressPercentage"] == 100
    assert (metrics["current_step"], metrics["total_steps"]) == ("30", "30")
    assert 0 < float(metrics["loss"]) < 1


@pytest.mark.parametrize("nodes", [2, 4])
@pytest.mark.parametrize("isolation", ["namespaces", "rewrite"])
def test_the_ranks_of_a_training_have_one_model(
    home: dict[str, str], tmp_path: Path, isolation: str, nodes: int
) -> None:
    subprocess.run([sys.executable, "hack/install.py", "--for-run"], cwd=ROOT, check=True, capture_output=True)
    sample = (ROOT / "config" / "samples" / "09-xgboost.yaml").read_text().replace("numNodes: 2", f"numNodes: {nodes}")
    (tmp_path / "job.yaml").write_text(sample)
    trainwright = ROOT / ".run" / "venv" / "bin" / "trainwright"
    command = [str(trainwright), "local", "run", f"--isolation={isolation}"]
    done = subprocess.run(
        [*command, "--file", str(tmp_path / "job.yaml")],
        env=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if "namespaces do not work on this machine" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    seen = re.findall(rf"worker (\d) of {nodes}: (\d+) images", done.stdout)
    assert sorted(rank for rank, _ in seen) == [str(rank) for rank in range(nodes)]
    # Each reads its own part, and together they read everything.
    assert sum(int(count) for _, count in seen) == 1500
    accuracies = re.findall(r"worker \d: accuracy ([0-9.]+)", done.stdout)
    assert len(accuracies) == nodes
    assert len(set(accuracies)) == 1
    assert float(accuracies[0]) > 0.9
