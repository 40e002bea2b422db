# SPDX-License-Identifier: Apache-2.0
"""Progress that the manager reads in pods, of real processes on the local cluster."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.local.node.recovering import train
from tests.unit.local.node.modes import MODES
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.trainer.v1alpha1 import TrainerStatus, TrainJob
from trainwright.controller.cli.local.training import training_cluster
from trainwright.controller.local.cluster import RunningCluster
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.progress import reading

STEPS = """
import json, os, time
path = os.environ["TRAINWRIGHT_PROGRESS_FILE"]
for step in range(1, 4):
    with open(path + ".new", "w") as file:
        json.dump({"step": step, "totalSteps": 3, "progressPercentage": 33 * step, "loss": 1 / step}, file)
    os.replace(path + ".new", path)
    while step < 3 and not os.path.exists(f"{os.path.dirname(path)}/go-{step}"):
        time.sleep(0.05)
with open(os.environ["TRAINWRIGHT_PROGRESS_FINAL"], "w") as file:
    file.write('{"progressPercentage": 100, "metrics": {"loss": "0.25"}}')
"""
WRITER = """
import os, time
del os.environ["KUBEFLOW_TRAINER_SERVER_URL"]
from trainwright.progress import Reporter
with Reporter(total=4, every=0.1) as progress:
    for step in range(1, 5):
        progress.update(step=step, loss=1 / step)
        while step == 2 and not os.path.exists(os.path.dirname(os.environ["TRAINWRIGHT_PROGRESS_FILE"]) + "/go"):
            time.sleep(0.05)
"""


FILES = {"progress": "file"}


@pytest.fixture(params=MODES)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RunningCluster]:
    """A cluster with a manager, in each mode of this machine."""
    isolation: Isolation = request.param
    settings = NodeSettings(name="laptop", folder=tmp_path / "state", isolation=isolation)
    async with training_cluster(settings, memory=True) as running:
        yield running


async def progress(client: Client) -> TrainerStatus:
    """What is stored."""
    status = (await client.get(TrainJob, "j", "default")).status
    return (status.trainer_status if status is not None else None) or TrainerStatus()


async def test_the_status_follows_the_file_and_ends_with_the_last_report(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "FIRST_SECONDS", 0.5)
    client = Client(cluster.api.transport())
    await train(client, [sys.executable, "-c", STEPS], FILES)
    first = await eventually(lambda: progress(client), lambda found: found.progress_percentage == 33)
    assert {one.name: one.value for one in first.metrics or ()} == {
        "current_step": "1",
        "total_steps": "3",
        "loss": "1.0",
    }
    (pod,) = (await client.list(Pod.RESOURCE, "default")).items
    for step in (1, 2):
        go = await client.exec(pod["metadata"]["name"], "default", ["touch", f"/var/run/trainwright/go-{step}"])
        assert go.code == 0, go.stderr
    last = await eventually(lambda: progress(client), lambda found: found.progress_percentage == 100)
    assert {one.name: one.value for one in last.metrics or ()} == {"loss": "0.25"}


async def test_the_writer_reports_through_the_file(cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without push: the server is not named in the environment."""
    monkeypatch.setattr(reading, "FIRST_SECONDS", 0.5)
    client = Client(cluster.api.transport())
    await train(client, [sys.executable, "-c", WRITER], FILES)
    await eventually(lambda: progress(client), lambda found: found.progress_percentage == 50)
    (pod,) = (await client.list(Pod.RESOURCE, "default")).items
    await client.exec(pod["metadata"]["name"], "default", ["touch", "/var/run/trainwright/go"])
    await eventually(lambda: progress(client), lambda found: found.progress_percentage == 100)
