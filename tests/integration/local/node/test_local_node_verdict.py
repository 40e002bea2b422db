# SPDX-License-Identifier: Apache-2.0
"""What the manager makes of the ends of attempts, with real processes: causes, the record, new JobSets."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.local.node.recovering import conditions_of, end_of, train
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap, Pod
from trainwright.api.objects import labels_of, name_of, uid_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Client, NotFound
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.failures.record import Entry, entries_of
from trainwright.controller.trainer.recovery.verdict import Summary, summary_of

PROGRAM = """
import os, pathlib, signal, sys, time
folder, rank = pathlib.Path(sys.argv[1]), os.environ["PET_NODE_RANK"]
with open(folder / rank, "a") as runs:
    runs.write("x")
run = len((folder / rank).read_text())
if (folder / "polite").exists() and rank == "1":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
earlier = ["", *(f"fail in run {before}" for before in range(run))]
while (said := (folder / "go").read_text() if (folder / "go").exists() else "") in earlier:
    time.sleep(0.02)
if said in ("fail", f"fail in run {run}") and rank == "1":
    print("ValueError: bad shape", run, flush=True)
    sys.exit(1)
time.sleep(0 if said == "end" else 300)
"""
"""Each of two ranks waits for a file `go`, which says what it does, in each run or in one."""


class Training:
    """A job with two ranks on the local cluster."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client, self.folder = client, folder

    async def begin(self, **annotations: str) -> None:
        """Create the runtime and the job."""
        command = [sys.executable, "-c", PROGRAM, str(self.folder)]
        await train(self.client, command, {"recovery": "gang", **annotations}, ranks=2)

    def say(self, what: str) -> None:
        """Tell the ranks what to do. They see the file with all of its text, or none."""
        made = self.folder.parent / "said"
        made.write_text(what)
        made.replace(self.folder / "go")

    async def running(self, runs: int) -> list[Any]:
        """The pods, once both ranks have begun so many times."""

        def begun() -> dict[str, int]:
            return {path.name: len(path.read_text()) for path in self.folder.iterdir() if path.name in ("0", "1")}

        await eventually(begun, lambda found: found == {"0": runs, "1": runs}, what=f"run {runs} of all ranks")
        # Those of the run before may still be going.
        listed = (await self.client.list(Pod, "default")).items
        return [pod for pod in listed if pod.metadata is not None and pod.metadata.deletion_timestamp is None]

    async def record(self, holds: Callable[[Summary, dict[int, Entry]], bool]) -> tuple[Summary, dict[int, Entry]]:
        """The record, once it is so."""

        async def read() -> tuple[Summary, dict[int, Entry]]:
            found = await self.client.get(ConfigMap, "j-failures", "default")
            return summary_of(found.data) or Summary(), entries_of(found.data)

        return await eventually(read, lambda found: holds(*found), what="the record", ignore=(NotFound,))


@pytest.fixture
def training(trainer: Client, tmp_path: Path) -> Training:
    folder = tmp_path / "runs"
    folder.mkdir()
    return Training(trainer, folder)


async def test_the_same_failure_three_times_ends_the_job(training: Training) -> None:
    """Scenario 8: though it has ten retries. Its record has three attempts; what ran it is deleted."""
    training.say("fail")
    await training.begin(retries="10")
    assert await end_of(training.client) == ("Failed", "SameFailure")
    summary, entries = await training.record(lambda summary, _: bool(summary.end_reason))
    assert [(one.cause, one.charged, one.rank) for one in entries.values()] == [("Code", "retries", 1)] * 3
    assert (summary.judged, summary.counts.causes) == (3, {"Code": 3})
    assert summary.end_message.startswith("the same failure three times, so a retry would not help: rank 1 failed")

    async def jobsets() -> int:
        return len((await training.client.list(JobSet, "default")).items)

    await eventually(jobsets, lambda number: number == 0, what="the end of the JobSet")


async def test_a_pod_that_is_deleted_costs_no_retry(training: Training) -> None:
    """Scenarios 14 and 15: Kubernetes gives up, since it has no retry; the manager gives the job a new JobSet."""
    seen: set[str] = set()
    await training.begin(retries="0")
    pods = await training.running(1)
    first = await training.client.get(JobSet, "j", "default")
    await training.client.delete(Pod, name_of(pods[1]), "default")

    async def replaced() -> JobSet:
        seen.update(await conditions_of(training.client))
        return await training.client.get(JobSet, "j", "default")

    await eventually(replaced, lambda found: uid_of(found) != uid_of(first), what="another JobSet", ignore=(NotFound,))
    pods = await training.running(2)
    assert {pod.metadata.annotations["trainwright.dev/attempt-base"] for pod in pods} == {"1"}
    assert {labels_of(pod)["jobset.sigs.k8s.io/restart-attempt"] for pod in pods} == {"0"}
    training.say("end")
    assert await end_of(training.client) == ("Complete", "AllJobsCompleted")
    assert "Failed" not in seen
    summary, entries = await training.record(lambda summary, _: summary.judged == 1)
    assert (entries[0].cause, entries[0].charged) == ("Infrastructure", "infrastructure")
    assert summary.counts.row == {"infrastructure": 1}


@pytest.mark.parametrize("polite", [False, True])
async def test_a_job_that_is_suspended_goes_on_with_the_next_attempt(training: Training, polite: bool) -> None:
    """Suspensions cost nothing, and the resume is an attempt of its own: also of a rank that ends with 0 at SIGTERM."""
    if polite:
        (training.folder / "polite").touch()
    await training.begin()
    await training.running(1)
    await training.client.patch(TrainJob, "j", "default", {"spec": {"suspend": True}})
    await training.record(lambda summary, _: summary.judged == 1)
    await training.client.patch(TrainJob, "j", "default", {"spec": {"suspend": False}})
    pods = await training.running(2)
    assert {(pod.metadata.annotations or {}).get("trainwright.dev/attempt-base") for pod in pods} == {"1"}
    # In this run alone: the next one waits for the test.
    training.say("fail in run 2")
    summary, entries = await training.record(lambda summary, _: summary.judged == 2)
    assert [one.cause for one in entries.values()] == ["Suspended", "Code"]
    assert summary.counts.row == {"retries": 1}
    training.say("end")
    assert await end_of(training.client) == ("Complete", "AllJobsCompleted")
