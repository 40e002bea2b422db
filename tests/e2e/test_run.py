# SPDX-License-Identifier: Apache-2.0
"""`make run` as a new user gives it: processes train together, and the cluster stays until it is ended."""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.repository import ROOT
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.testing.waiting import eventually_sync

# The first run sets up an environment with XGBoost, from downloads.
pytestmark = [pytest.mark.parity, pytest.mark.timeout(900)]


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
    done = subprocess.run(["make", "run"], cwd=ROOT, env=home, capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr
    models = re.findall(r"\[rank (\d)\] worker \d: (model [0-9a-f]+, accuracy ([0-9.]+))", done.stdout)
    assert sorted(rank for rank, _, _ in models) == ["0", "1"]
    # One model, better than any that has seen nothing.
    assert len({model for _, model, _ in models}) == 1
    assert float(models[0][2]) > 0.9
    assert "the job is Complete" in done.stdout
    state = json.loads((tmp_path / "trainwright" / "local" / "default" / "run.json").read_text())
    os.kill(state["pid"], 0)
    trainwright = ROOT / ".run" / "venv" / "bin" / "trainwright"
    logs = subprocess.run(
        [trainwright, "local", "logs", "xgboost-digits"], env=home, capture_output=True, text=True, check=True
    )
    assert f"[rank 1] worker 1: {models[0][1]}" in logs.stdout
    # The first process reported through the writer, and its last report is there though the job took seconds.
    kubeconfig = tmp_path / "trainwright" / "local" / "default" / "kubeconfig"
    # The last report may be written a moment after the job has ended.
    status = eventually_sync(
        lambda: asyncio.run(trainer_status(kubeconfig)), lambda status: status["progressPercentage"] == 100
    )
    metrics = {metric["name"]: metric["value"] for metric in status["metrics"]}
    assert (metrics["current_step"], metrics["total_steps"]) == ("30", "30")
    assert 0 < float(metrics["loss"]) < 1
