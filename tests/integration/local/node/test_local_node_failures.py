# SPDX-License-Identifier: Apache-2.0
"""The record of failures: real processes fail on the local cluster, and their pods go."""

import sys
from pathlib import Path
from typing import Any

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.kubernetes.events.v1 import Event
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.controller.cli.local.training import training_cluster
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.failures.record import entries_of
from trainwright.plugins.testing import replicated_job, runtime_document

PROGRAM = """
import os, sys, time
print("loading", flush=True)
if os.environ["PET_NODE_RANK"] == "1":
    print("attempt of rank 1 ends: out of data", flush=True)
    sys.exit(7)
time.sleep(100)
"""


def runtime() -> dict[str, Any]:
    container = {"name": "node", "image": "python", "command": [sys.executable, "-c", PROGRAM]}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    node = replicated_job(pod=pod, backoffLimit=0)
    restarts = {"failurePolicy": {"maxRestarts": 1}}
    return runtime_document("fails", node, policy={"numNodes": 2, "torch": {}}, jobset=restarts)


async def test_the_first_failure_of_each_attempt_survives_its_pods(tmp_path: Path) -> None:
    settings = NodeSettings(name="laptop", folder=tmp_path / "state", isolation=Isolation.REWRITE)
    async with training_cluster(settings, memory=True) as cluster:
        client = Client(cluster.api.transport())
        await client.create(runtime(), kind=TrainingRuntime.RESOURCE)
        job = {
            "apiVersion": TrainJob.RESOURCE.api_version,
            "kind": "TrainJob",
            "metadata": {"name": "j", "namespace": "default"},
            "spec": {"runtimeRef": {"kind": "TrainingRuntime", "name": "fails"}},
        }
        created = await client.create(job, kind=TrainJob.RESOURCE)

        async def record() -> ConfigMap | None:
            found = [one for one in (await client.list(ConfigMap, "default")).items if one.name == "j-failures"]
            return found[0] if found else None

        kept = await eventually(
            record, lambda found: found is not None and len(entries_of(found.data)) == 2, what="two attempts"
        )
        assert kept is not None
        assert kept.metadata is not None
        assert [owner.uid for owner in kept.metadata.owner_references or ()] == [created["metadata"]["uid"]]
        for attempt, entry in entries_of(kept.data).items():
            assert (entry.attempt, entry.replicated_job, entry.rank) == (attempt, "node", 1)
            assert (entry.container, entry.exit_code, entry.reason) == ("node", 7, "Error")
            assert entry.log == "loading\nattempt of rank 1 ends: out of data"

        async def notes() -> list[str]:
            events = (await client.list(Event, "default")).items
            return sorted(event.note or "" for event in events if event.reason == "PodFailed")

        told = await eventually(notes, lambda found: len(found) == 2, what="two events")
        assert told == [
            f"attempt {n}: node rank 1 failed first: container node ended with exit code 7 (Error): "
            "attempt of rank 1 ends: out of data"
            for n in (1, 2)
        ]
