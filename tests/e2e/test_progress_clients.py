# SPDX-License-Identifier: Apache-2.0
"""Client code of others, unchanged, reports progress on a local cluster.

They are installed in an environment of their own (500 MB, the SDK, Transformers and XGBoost). What they send is also
tested without them, in `tests/integration/trainer`.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import train_job
from tests.e2e.trainings import installed
from tests.repository import ROOT
from trainwright.api.objects import wire
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Client, HTTPTransport, load_config

pytestmark = [pytest.mark.parity, pytest.mark.timeout(600)]
LOCAL = (sys.executable, "-m", "trainwright.controller.cli.main", "local")
TRANSFORMERS = """
import time
from types import SimpleNamespace
from transformers.integrations.integration_utils import KubeflowCallback
from transformers.trainer_callback import TrainerControl, TrainerState

callback, control = KubeflowCallback(), TrainerControl()
arguments = SimpleNamespace(max_steps=20, num_train_epochs=1, logging_steps=1, world_size=1)
state = TrainerState(max_steps=20, is_world_process_zero=True)
callback.on_train_begin(arguments, state, control)
for step in range(1, 21):
    time.sleep(0.7)
    state.global_step, state.epoch = step, step / 20
    state.log_history.append({"loss": 1 / step, "step": step})
    callback.on_step_end(arguments, state, control)
callback.on_train_end(arguments, state, control)
"""


class Cluster:
    """A local cluster, and what a TrainJob showed in turn."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def local(self, *arguments: str) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            *LOCAL, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, output.decode()

    async def shown_during(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        """Run the job to its end; gives each value of status.trainerStatus, in their order."""
        file = self.folder / "job.yaml"
        file.write_text(yaml.safe_dump(job))
        running = asyncio.create_task(self.local("run", f"--dir={self.folder}", "--keep", f"--file={file}"))
        client = Client(HTTPTransport(load_config(self.folder / "kubeconfig")))
        shown: list[dict[str, Any]] = []
        try:
            over = False
            while not over:
                over = running.done()
                for one in (await client.list(TrainJob.RESOURCE, "default")).items:
                    status = one.get("status", {}).get("trainerStatus")
                    if status and status not in shown[-1:]:
                        shown.append(status)
                await asyncio.sleep(0.1)
        finally:
            await client.close()
        code, output = await running
        assert code == 0, output
        return shown


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    found = Cluster(tmp_path)
    yield found
    await found.local("down", f"--dir={tmp_path}", "--delete")


async def started(cluster: Cluster) -> None:
    """Start the cluster; every image stands for the environment with the clients."""
    environment = await asyncio.to_thread(installed, "--for-clients", "clients")
    (cluster.folder / "images.yaml").write_text(f'images: [{{image: "*", environment: "{environment}"}}]\n')
    code, output = await cluster.local("up", f"--dir={cluster.folder}")
    assert code == 0, output


def percentages(shown: list[dict[str, Any]]) -> list[int]:
    return [status["progressPercentage"] for status in shown]


async def test_the_sample_reports_with_the_function_of_the_sdk(cluster: Cluster) -> None:
    await started(cluster)
    job = yaml.safe_load((ROOT / "config" / "samples" / "12-progress.yaml").read_text())
    shown = await cluster.shown_during(job)
    found = percentages(shown)
    assert found == sorted(found)
    assert len(found) >= 3
    assert found[0] < 50
    assert found[-1] == 100
    assert {metric["name"] for metric in shown[-1]["metrics"]} == {"loss", "round"}


async def test_the_callback_of_transformers_reports_from_begin_to_end(cluster: Cluster) -> None:
    """Scenario 4 of progress. The callback is driven without a model."""
    await started(cluster)
    reference, trainer = {"name": "xgboost-distributed"}, {"command": ["python", "-c", TRANSFORMERS]}
    job = wire(train_job("transformers", "default", uid="", runtimeRef=reference, trainer=trainer))
    began = time.monotonic()
    shown = await cluster.shown_during(job)
    passed = time.monotonic() - began
    found = percentages(shown)
    assert found[0] == 0
    assert found[-1] == 100
    # At least 14 seconds pass, and it pauses for five seconds between reports, but for the first and the last one.
    assert 3 <= len(found) <= 2 + passed / 5
    assert all(0 < one < 100 for one in found[1:-1])
    assert {"name": "total_steps", "value": "20"} in shown[1]["metrics"]
