# SPDX-License-Identifier: Apache-2.0
"""Sample 13 under a killer: whatever ends its ranks, and whenever, the model at the end is that of a calm run."""

import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.repository import ROOT
from trainwright.api.kubernetes.core.v1 import ConfigMap, PersistentVolumeClaim, Pod
from trainwright.api.manifest import documents
from trainwright.api.objects import labels_of, name_of
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.controller.cli.local.training import training_cluster
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.runtime import Client, NotFound
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.failures.record import Entry, entries_of

STEPS = 60
REMEMBER = """
import atexit, os, pathlib
marks = pathlib.Path(os.environ["MARKS"])
attempt = int(os.environ["TRAINWRIGHT_ATTEMPT"]) + int(os.environ["TRAINWRIGHT_ATTEMPT_BASE"] or 0) + 1
(marks / f"{attempt}-{os.environ['PET_NODE_RANK']}").write_text(str(os.getpid()))
"""
LEAVE = """
if rank == 0:
    (marks / "model").write_text(json.dumps(weights))
"""


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    settings = NodeSettings(name="laptop", folder=tmp_path / "state", isolation=Isolation.REWRITE)
    async with training_cluster(settings, memory=True) as cluster:
        yield Client(cluster.api.transport())


def sample() -> tuple[dict[str, Any], dict[str, Any]]:
    """The claim and the job."""
    text = (ROOT / "config" / "samples" / "13-recovery.yaml").read_text(encoding="utf-8")
    (job,) = (document.data for document in documents(text))
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": "checkpoints", "namespace": "default"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    return claim, job


async def begin(client: Client, marks: Path, name: str) -> None:
    """Create a job of the sample, which leaves process ids and the model in a folder."""
    claim, job = sample()
    try:
        await client.get(PersistentVolumeClaim, claim["metadata"]["name"], "default")
    except NotFound:
        await client.create(claim, kind=PersistentVolumeClaim.RESOURCE)
        labels = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
        pod = {"terminationGracePeriodSeconds": 1, "containers": [{"name": "node", "image": "python"}]}
        replicated = {"name": "node", "template": {"metadata": labels, "spec": {"template": {"spec": pod}}}}
        runtime = {
            "apiVersion": TrainingRuntime.RESOURCE.api_version,
            "kind": "TrainingRuntime",
            "metadata": {"name": "plain", "namespace": "default"},
            "spec": {"mlPolicy": {"numNodes": 2, "torch": {}}, "template": {"spec": {"replicatedJobs": [replicated]}}},
        }
        await client.create(runtime, kind=TrainingRuntime.RESOURCE)
    job["metadata"]["name"] = name
    job["spec"]["runtimeRef"] = {"kind": "TrainingRuntime", "name": "plain"}
    trainer = job["spec"]["trainer"]
    trainer["command"] = [sys.executable, "-c", REMEMBER + trainer["command"][2] + LEAVE]
    values = {"STEPS": str(STEPS), "SECONDS_PER_STEP": "0.05", "MARKS": str(marks)}
    trainer["env"] = [{"name": key, "value": value} for key, value in values.items()]
    await client.create(job, kind=TrainJob.RESOURCE)


async def pid(marks: Path, attempt: int, rank: int) -> int:
    """The process of a rank in an attempt, once it runs."""
    file = marks / f"{attempt}-{rank}"
    return int(await eventually(lambda: file.read_text() if file.exists() else "", what=f"attempt {attempt}"))


async def end_of(client: Client, name: str) -> str:
    async def ended() -> str:
        found = await client.get(TrainJob, name, "default")
        known = (found.status.conditions if found.status is not None else None) or ()
        return next((one.type for one in known if one.type in ("Complete", "Failed") and one.status == "True"), "")

    return await eventually(ended, what=f"the end of {name}")


async def record_of(client: Client, name: str) -> dict[int, Entry]:
    return entries_of((await client.get(ConfigMap, f"{name}-failures", "default")).data)


async def step_of(folder: Path, least: int) -> None:
    """Wait until a checkpoint of at least this step is there."""

    def reached() -> bool:
        latest = next(folder.glob("**/killed-*/latest"), None)
        return latest is not None and json.loads(latest.read_text())["step"] >= least

    await eventually(reached, what=f"a checkpoint of step {least}")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Where a calm job and a killed one leave what a test looks at."""
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    calm.mkdir()
    killed.mkdir()
    return calm, killed


async def test_the_model_is_that_of_a_calm_run(client: Client, folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Scenarios 15 and 23: kills and a deletion at random moments; two jobs share one claim."""
    chance = random.Random(13)
    calm, killed = folders
    await begin(client, calm, "calm")
    assert await end_of(client, "calm") == "Complete"
    await begin(client, killed, "killed")
    victims = []
    for attempt in (1, 2, 3):
        victims.append(chance.randrange(2))
        processes = [await pid(killed, attempt, rank) for rank in range(2)]
        await step_of(tmp_path, 10 * attempt)
        if attempt == 2:
            pods = (await client.list(Pod, "default")).items
            (pod,) = (
                one
                for one in pods
                if name_of(one).startswith(f"killed-node-0-{victims[-1]}")
                and labels_of(one)["jobset.sigs.k8s.io/restart-attempt"] == str(attempt - 1)
            )
            await client.delete(Pod, name_of(pod), "default")
        else:
            os.kill(processes[victims[-1]], signal.SIGKILL)
        await pid(killed, attempt + 1, 0)
    assert await end_of(client, "killed") == "Complete"
    assert (killed / "model").read_text() == (calm / "model").read_text()
    entries = await record_of(client, "killed")
    assert [entry.cause for entry in entries.values()] == ["Code", "Infrastructure", "Code"]
    assert [(entries[0].rank, entries[0].exit_code), (entries[2].rank, entries[2].exit_code)] == [
        (victims[0], 137),
        (victims[2], 137),
    ]
