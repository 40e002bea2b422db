# SPDX-License-Identifier: Apache-2.0
"""What is said of jobs with which nothing is wrong, from their creation to their end, on the real control plane."""

import asyncio
from typing import Any

import pytest

from tests.e2e.conftest import Trainer
from trainwright.controller.cli.explain import explaining_plugins
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.trainer.job.state import Word
from trainwright.controller.trainer.why import Explanation, Reader

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
ON_THEIR_WAY = {"Starting", "Running", "StepWaits", "Complete"}


def replicated_job(name: str, step: str, **more: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": name, "image": "example.com/none"}]}
    return {
        "name": name,
        "template": {"metadata": {"labels": {STEP: step}}, "spec": {"template": {"spec": pod}}},
        **more,
    }


@pytest.mark.parametrize("steps", [(), ("dataset-initializer",)], ids=["alone", "with a step"])
def test_a_healthy_job_is_never_stuck(trainer: Trainer, steps: tuple[str, ...]) -> None:
    order = {"dependsOn": [{"name": step, "status": "Complete"} for step in steps]} if steps else {}
    jobs = [*(replicated_job(step, step) for step in steps), replicated_job("node", "trainer", **order)]
    spec = {"mlPolicy": {"numNodes": 2}, "template": {"spec": {"replicatedJobs": jobs}}}
    trainer.create("TrainingRuntime", "healthy", spec)
    trainer.job("train", "healthy")
    told = asyncio.run(followed(trainer, "train"))
    assert {found.cause.reason for found in told} <= ON_THEIR_WAY, told
    assert not any(found.unread for found in told)
    assert told[-1].exit_code == 0


async def followed(trainer: Trainer, job: str) -> list[Explanation]:
    """Every explanation until the job is complete."""
    transport = HTTPTransport(load_config(trainer.cluster.kubeconfig))
    try:
        reader = Reader(Client(transport), explaining_plugins())
        told: list[Explanation] = []
        async with asyncio.timeout(120):
            while not told or told[-1].outcome is not Word.COMPLETE:
                told.append(await reader.explain(trainer.namespace, job))
        return told
    finally:
        await transport.close()
