# SPDX-License-Identifier: Apache-2.0
"""Jobs on the local cluster, for tests that end their ranks: those of sample 13, and others."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tests import builders
from tests.repository import ROOT
from trainwright.api.kubernetes.core.v1 import ConfigMap, PersistentVolumeClaim
from trainwright.api.manifest import documents
from trainwright.api.objects import wire
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.controller.runtime import Client, NotFound
from trainwright.controller.runtime.testing.waiting import SECONDS, eventually
from trainwright.controller.trainer.failures.record import Entry, entries_of
from trainwright.plugins.testing import replicated_job, runtime_document

Document: TypeAlias = dict[str, Any]
REMEMBER = """
import atexit, os, pathlib
marks = pathlib.Path(os.environ["MARKS"])
attempt = int(os.environ["TRAINWRIGHT_ATTEMPT"]) + int(os.environ["TRAINWRIGHT_ATTEMPT_BASE"] or 0) + 1
(marks / f"{attempt}-{os.environ['PET_NODE_RANK']}").write_text(str(os.getpid()))
"""
STANDS = """
import json, time
sleep, steps = time.sleep, 0
limits = json.loads(os.environ["STANDS_AFTER"])
def stand(seconds):
    global steps
    steps += seconds == float(os.environ["SECONDS_PER_STEP"])
    sleep(600 if steps > limits[attempt - 1] else seconds)
if attempt <= len(limits):
    time.sleep = stand
"""
LEAVE = """
if rank == 0:
    (marks / "model").write_text(json.dumps(weights))
"""


def sample() -> tuple[dict[str, Any], dict[str, Any]]:
    """The claim and the job."""
    text = (ROOT / "config" / "samples" / "13-recovery.yaml").read_text(encoding="utf-8")
    (job,) = (document.data for document in documents(text))
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": "checkpoints", "namespace": "default"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    return claim, job


async def begin(
    client: Client,
    marks: Path,
    name: str,
    *,
    ranks: int = 2,
    steps: int = 60,
    pause: float = 0.06,
    stands_after: Sequence[int] = (),
    **annotations: str,
) -> None:
    """Create a job of the sample, which leaves process ids and the model in a folder.

    `stands_after`: the first attempts go no further than so many steps, each its own, however late the test looks.
    Annotations are those below `trainwright.dev/`: `exit_codes` stands for `exit-codes`.
    """
    claim, job = sample()
    try:
        await client.get(PersistentVolumeClaim, claim["metadata"]["name"], "default")
    except NotFound:
        await client.create(claim, kind=PersistentVolumeClaim.RESOURCE)
        pod = {"terminationGracePeriodSeconds": 1, "containers": [{"name": "node", "image": "python"}]}
        runtime = runtime_document("plain", replicated_job(pod=pod), policy={"numNodes": ranks, "torch": {}})
        await client.create(runtime, kind=TrainingRuntime.RESOURCE)
    job["metadata"] |= {"name": name, "namespace": "default"}
    job["spec"]["runtimeRef"] = {"kind": "TrainingRuntime", "name": "plain"}
    trainer = job["spec"]["trainer"]
    trainer["numNodes"] = ranks
    job["metadata"]["annotations"] |= {
        f"trainwright.dev/{key.replace('_', '-')}": value for key, value in annotations.items()
    }
    stands = STANDS if stands_after else ""
    trainer["command"] = [sys.executable, "-c", REMEMBER + stands + trainer["command"][2] + LEAVE]
    values = {"STEPS": str(steps), "SECONDS_PER_STEP": str(pause), "MARKS": str(marks)}
    values |= {"STANDS_AFTER": json.dumps(stands_after)} if stands_after else {}
    trainer["env"] = [{"name": key, "value": value} for key, value in values.items()]
    await client.create(job, kind=TrainJob.RESOURCE)


async def train(
    client: Client,
    command: Sequence[str],
    annotations: Mapping[str, str] | None = None,
    *,
    ranks: int = 1,
    pod: Document | None = None,
) -> Document:
    """Create the job `j`, each rank of which runs a command, and its runtime.

    `pod` has more of the spec of its pods. Annotations are those below `trainwright.dev/`.
    """
    container = {"name": "node", "image": "python", "command": list(command)}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container], **(pod or {})}
    runtime = runtime_document("plain", replicated_job(pod=spec), policy={"numNodes": ranks, "torch": {}})
    await client.create(runtime, kind=TrainingRuntime.RESOURCE)
    return await client.create(train_job("plain", annotations or {}), kind=TrainJob.RESOURCE)


def train_job(runtime: str, annotations: Mapping[str, str]) -> Document:
    """The job `j` of a runtime of its namespace."""
    marks = {f"trainwright.dev/{name}": value for name, value in annotations.items()}
    reference = {"kind": "TrainingRuntime", "name": runtime}
    return wire(builders.train_job("j", "default", uid="", annotations=marks, runtimeRef=reference))


async def pid(marks: Path, attempt: int, rank: int, *, seconds: float = SECONDS) -> int:
    """The process of a rank in an attempt, once it runs."""
    file = marks / f"{attempt}-{rank}"
    found = await eventually(
        lambda: file.read_text() if file.exists() else "", seconds=seconds, what=f"attempt {attempt}"
    )
    return int(found)


async def conditions_of(client: Client, name: str = "j") -> dict[str, str | None]:
    """The conditions of a job that are True, with their reasons."""
    known = (await client.get(TrainJob, name, "default")).status_or_empty.conditions or ()
    return {one.type: one.reason for one in known if one.status == "True"}


async def end_of(client: Client, name: str = "j", *, seconds: float = SECONDS) -> tuple[str, str | None]:
    """The condition that the job ends with, and its reason."""

    async def ended() -> tuple[str, str | None] | None:
        found = await conditions_of(client, name)
        return next(((kind, found[kind]) for kind in ("Complete", "Failed") if kind in found), None)

    found = await eventually(ended, what=f"the end of {name}", seconds=seconds)
    assert found is not None
    return found


async def record_of(client: Client, name: str = "j") -> dict[int, Entry]:
    return entries_of((await client.get(ConfigMap, f"{name}-failures", "default")).data)
