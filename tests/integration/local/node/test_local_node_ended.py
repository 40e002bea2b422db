# SPDX-License-Identifier: Apache-2.0
"""A job of `local run` that fails on the local cluster: it stays failed, and the lines of all ranks stay."""

import asyncio
import io
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders import train_job
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import Document, name_of, uid_of, wire
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.controller.cli.local import ends, feasibility
from trainwright.controller.cli.local.follower import Follower
from trainwright.controller.cli.local.job_commands import WantedLines, show_lines
from trainwright.controller.cli.local.local_jobs import LocalJobs
from trainwright.controller.cli.local.pods import first_failure
from trainwright.controller.cli.local.training import training_cluster
from trainwright.controller.dashboard import contract
from trainwright.controller.dashboard.details import Details
from trainwright.controller.dashboard.logbook import ALL, Logs
from trainwright.controller.dashboard.logbook import WantedLog as LogWanted
from trainwright.controller.local.cluster import RunningCluster
from trainwright.controller.local.node.document import RESTARTS
from trainwright.controller.local.node.folders import ended_pods
from trainwright.controller.local.node.pod import PodWorker
from trainwright.controller.local.node.settings import Isolation, NodeSettings
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.waiting import equals, eventually, is_empty
from trainwright.controller.views import actions
from trainwright.controller.views.job import History
from trainwright.plugins.testing import replicated_job, runtime_document

PROGRAM = """
import os, signal, sys, time
rank = os.environ["PET_NODE_RANK"]
signal.signal(signal.SIGTERM, lambda *_: (print("rank", rank, "is asked to end", flush=True), sys.exit(5)))
print("rank", rank, "begins", flush=True)
open(f"{sys.argv[1]}/{rank}", "w").close()
while len(os.listdir(sys.argv[1])) < 2 or rank == "0":
    time.sleep(0.01)
raise ValueError("out of data")
"""


def runtime(meeting: Path) -> Document:
    meeting.mkdir()
    container = {"name": "node", "image": "python", "command": [sys.executable, "-c", PROGRAM, str(meeting)]}
    # As every shipped runtime: without the annotation, the container would start again at once, and the JobSet too.
    pod = {"restartPolicy": "OnFailure", "containers": [container]}
    restarts = {"failurePolicy": {"maxRestarts": 3}}
    return runtime_document("fails", replicated_job(pod=pod), policy={"numNodes": 2, "torch": {}}, jobset=restarts)


def job() -> Document:
    return wire(train_job("j", "default", uid="", runtimeRef={"kind": "TrainingRuntime", "name": "fails"}))


def jobs_of(cluster: RunningCluster, settings: NodeSettings) -> LocalJobs:
    return LocalJobs(Client(cluster.api.transport()), "default", settings.logs)


async def fail(jobs: LocalJobs, meeting: Path) -> Document:
    """Run the job until it has failed, as `run` does; returns it."""
    await jobs.client.create(runtime(meeting), kind=TrainingRuntime.RESOURCE)
    wanted = job()
    parts = [{"kind": "JobSet", "spec": {"replicatedJobs": [{"name": "node"}]}}]
    feasibility.never_restart(wanted, parts)
    await jobs.client.create(wanted, kind=TrainJob.RESOURCE)
    follower = Follower(jobs.client, "default", "j", out=io.StringIO())
    ended = await follower.follow(
        start_seconds=120,
        end_job=lambda text: ends.end(jobs.client, "default", "j", ends.REASON_FAILED, text),
    )
    assert (ended.code, ended.message) == (1, "rank 1 failed with exit code 1 (Error)")
    return await jobs.get("j")


async def test_a_failed_job_is_kept_as_it_is_with_the_lines_of_all_ranks(tmp_path: Path) -> None:
    settings = NodeSettings(name="laptop", folder=tmp_path / "state", isolation=Isolation.REWRITE)
    async with training_cluster(settings) as cluster:
        jobs = jobs_of(cluster, settings)
        failed = await fail(jobs, tmp_path / "meeting")
        (end,) = [one for one in failed["status"]["conditions"] if one["type"] == "Failed"]
        assert (end["status"], end["reason"]) == ("True", ends.REASON_FAILED)
        # The one that failed stays as a pod, and the one that was stopped is gone.
        pods = await eventually(lambda: jobs.pods("j"), lambda found: len(found) == 1, what="one pod")
        assert pods[0]["metadata"]["annotations"][RESTARTS] == "none"
        assert pods[0]["status"]["containerStatuses"][0]["restartCount"] == 0
        await lines_are_there(jobs)
    async with training_cluster(settings) as cluster:
        jobs = jobs_of(cluster, settings)
        again = await jobs.get("j")
        assert again["status"]["conditions"] == failed["status"]["conditions"]
        assert [uid_of(pod) for pod in await jobs.pods("j")] == [uid_of(pods[0])]
        await lines_are_there(jobs)
        failure = first_failure(await jobs.all_pods(again))
        assert failure is not None
        assert failure.code == 1
        # With the job, its lines go.
        await actions.delete(jobs.client, again, pods_first=False)
        await eventually(lambda: jobs.pods("j"), is_empty)
        await cluster.node.ended.sweep()
        assert ended_pods(settings.logs) == []


async def lines_are_there(jobs: LocalJobs) -> None:
    """Those of both ranks, one of which has no pod any more."""
    out = io.StringIO()
    assert await show_lines(jobs, "j", WantedLines(), out) == 0
    lines = out.getvalue().splitlines()
    assert lines[:2] == ["[rank 0] rank 0 begins", "[rank 0] rank 0 is asked to end"]
    assert lines[2:4] == ["[rank 1] rank 1 begins", "[rank 1] Traceback (most recent call last):"]
    assert lines[-1] == "[rank 1] ValueError: out of data"


async def the_page_has_its_lines(jobs: LocalJobs, logs: Path) -> None:
    """The job's page lists the pod that is gone with its rank, and merges its lines with those of the other."""
    cluster = contract.Cluster(context="", server="", namespace="")
    now = contract.Connection(state="live", message="", since="", last_contact=None)
    page = await Details(jobs.client, cluster, logs=logs).read("default", "j", History(), now)
    assert [(pod.rank, pod.current, "is gone" in pod.message) for pod in page.pods] == [
        (1, True, False),
        (0, True, True),
    ]
    shown = Logs(jobs.client)
    async with TaskScope("test") as tasks:
        running = tasks.start("logs", shown.run())
        await asyncio.sleep(0)
        book = await shown.book(page, LogWanted(pod=ALL))
        await eventually(lambda: book.is_reading, equals(False))
        assert sum(b"begins" in line for line in book.lines(0, len(book))) == 2
        running.cancel()


async def test_the_log_of_a_pod_that_is_gone_is_read_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine: the phase of a pod follows some time after the end of its container, which ends the job."""
    run: Callable[[PodWorker], Awaitable[None]] = PodWorker.__dict__["_run"]

    async def run_late(pod: PodWorker) -> None:
        await run(pod)
        await asyncio.sleep(3)

    monkeypatch.setattr(PodWorker, "_run", run_late)
    settings = NodeSettings(name="laptop", folder=tmp_path / "state", isolation=Isolation.REWRITE)
    async with training_cluster(settings, memory=True) as cluster:
        jobs = jobs_of(cluster, settings)
        failed = await fail(jobs, tmp_path / "meeting")
        # That of the rank that was stopped goes some time after its process.
        pods = await eventually(lambda: jobs.pods("j"), lambda found: len(found) == 1, what="one pod")
        known = {name_of(pod) for pod in pods}
        (gone,) = [one for one in ended_pods(settings.logs, uid_of(failed)) if name_of(one.document) not in known]
        assert (gone.top.kind, gone.top.name, gone.top.uid) == ("TrainJob", "j", uid_of(failed))
        log = b"".join([chunk async for chunk in jobs.client.logs(name_of(gone.document), "default", tail=1)])
        assert log == b"rank 0 is asked to end\n"
        await the_page_has_its_lines(jobs, settings.logs)
        # A pod without an owner takes its log along.
        alone: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "alone", "namespace": "default"},
            "spec": {
                "nodeName": "laptop",
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "python", "command": ["true"]}],
            },
        }
        await jobs.client.create(alone, kind=Pod.RESOURCE)

        async def phase() -> str:
            pod: Document = await jobs.client.get(Pod.RESOURCE, "alone", "default")
            return str((pod.get("status") or {}).get("phase"))

        await eventually(phase, equals("Succeeded"))
        await jobs.client.delete(Pod.RESOURCE, "alone", "default", grace_period=0)
        await eventually(lambda: _folders(settings, "alone"), is_empty)


async def _folders(settings: NodeSettings, pod: str) -> list[Path]:
    return list(settings.logs.glob(f"*_{pod}_*"))
