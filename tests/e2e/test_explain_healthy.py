# SPDX-License-Identifier: Apache-2.0
"""What is said of jobs with which nothing is wrong, from their creation to their end, on the real control plane."""

import asyncio

import pytest

from tests.e2e.conftest import Trainer
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.trainer.why import Explanation, Reader
from trainwright.controller.views.explanation import explaining_plugins
from trainwright.plugins.contract import JobState
from trainwright.plugins.testing import replicated_job, runtime_document

ON_THEIR_WAY = {"Starting", "Running", "StepWaits", "Complete"}


@pytest.mark.parametrize("steps", [(), ("dataset-initializer",)], ids=["alone", "with a step"])
def test_a_healthy_job_is_never_stuck(trainer: Trainer, steps: tuple[str, ...]) -> None:
    order = {"dependsOn": [{"name": step, "status": "Complete"} for step in steps]} if steps else {}
    jobs = [*(replicated_job(step, step=step) for step in steps), {**replicated_job(), **order}]
    runtime = runtime_document("healthy", *jobs, policy={"numNodes": 2})
    trainer.create("TrainingRuntime", "healthy", runtime["spec"])
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
            while not told or told[-1].outcome is not JobState.COMPLETE:
                told.append(await reader.explain(trainer.namespace, job))
        return told
    finally:
        await transport.close()
