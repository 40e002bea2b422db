# SPDX-License-Identifier: Apache-2.0
"""The condition `Stuck`: a job that no node takes says so, and no longer once it runs."""

import sys
from pathlib import Path
from typing import Any

import pytest

from trainwright.api.conditions import find
from trainwright.api.kubernetes.core.v1 import Node
from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.controller.cli.local.training import training_cluster
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.why import waiting
from trainwright.plugins.testing import replicated_job, runtime_document


def runtime() -> dict[str, Any]:
    container = {"name": "node", "image": "python", "command": [sys.executable, "-c", "import time; time.sleep(100)"]}
    pod = {"nodeSelector": {"here": "yes"}, "terminationGracePeriodSeconds": 1, "containers": [container]}
    return runtime_document("picky", replicated_job(pod=pod))


async def test_a_job_that_no_node_takes_says_so_until_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "AGAIN_SECONDS", 1.0)
    monkeypatch.setattr(waiting, "WRITE_SECONDS", 1.0)
    settings = NodeSettings(name="laptop", folder=tmp_path / "state", isolation=Isolation.REWRITE)
    async with training_cluster(settings, memory=True) as cluster:
        client = Client(cluster.api.transport())
        await client.create(runtime(), kind=TrainingRuntime.RESOURCE)
        job = {
            "apiVersion": TrainJob.RESOURCE.api_version,
            "kind": "TrainJob",
            "metadata": {"name": "j", "namespace": "default"},
            "spec": {"runtimeRef": {"kind": "TrainingRuntime", "name": "picky"}},
        }
        await client.create(job, kind=TrainJob.RESOURCE)

        async def condition() -> Condition | None:
            found = await client.get(TrainJob, "j", "default")
            return find(found.status.conditions if found.status is not None else None, "Stuck")

        shown = await eventually(condition, lambda found: found is not None, what="the condition Stuck")
        assert shown is not None
        assert shown.status == "True"
        assert "j-node-0" in shown.message or "node" in shown.message
        assert "here" in shown.message
        await client.patch(Node, "laptop", "", {"metadata": {"labels": {"here": "yes"}}})
        await eventually(condition, lambda found: found is None, what="no condition Stuck")
