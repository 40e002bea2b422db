# SPDX-License-Identifier: Apache-2.0
"""`trainwright progress` against an API server: once, and while jobs change. Terminals: test_progress_terminal.py."""

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests import builders
from tests.builders import train_job
from tests.repository import ROOT, documents
from tests.unit.optimization.conftest import optimization_job
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap, Namespace
from trainwright.api.objects import wire
from trainwright.api.times import format_micro_time, wall_clock
from trainwright.api.trainer.v1alpha1 import OptimizationJob, TrainJob
from trainwright.controller.cli.main import main
from trainwright.controller.local.cluster import RunningServer, api_server, install
from trainwright.controller.local.controllers import jobset
from trainwright.controller.runtime import Client, NotFound
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.progress.curve import Sample
from trainwright.controller.trainer.progress.ring import KEY, Ring, document_of

pytestmark = pytest.mark.asyncio(loop_scope="module")
RUNNING = {"jobsStatus": [{"name": "node", "active": 1, "ready": 1, "succeeded": 0, "failed": 0, "suspended": 0}]}
COMMAND = [sys.executable, "-m", "trainwright.controller.cli.main", "progress"]


class World:
    """An API server with TrainJobs, whose status the test writes."""

    def __init__(self, client: Client, kubeconfig: Path, space: str) -> None:
        self.client, self.kubeconfig, self.space = client, kubeconfig, space

    async def create(self, name: str, *, labels: dict[str, str] | None = None, **progress: Any) -> None:
        document = wire(train_job(name, self.space, uid=""))
        document["metadata"]["labels"] = labels or {}
        await self.client.create(document, kind=TrainJob.RESOURCE)
        await self.report(name, **progress)

    async def report(self, name: str, *, condition: str = "", **progress: Any) -> None:
        now = format_micro_time(wall_clock())
        status: dict[str, Any] = dict(RUNNING)
        if progress:
            status["trainerStatus"] = {**progress, "lastUpdatedTime": now}
        if condition:
            status["conditions"] = [builders.condition(condition, reason="Because", message="so", at=now)]
        await self.client.patch(TrainJob.RESOURCE, name, self.space, {"status": status}, subresource="status")

    async def command(self, *arguments: str) -> tuple[int, str, str]:
        """Run the command to its end, in this process: exit code, output, errors."""
        out, errors = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(errors):
            code = await asyncio.to_thread(main, ["progress", *self._where(), *arguments])
        return code, out.getvalue(), errors.getvalue()

    def line(self, *arguments: str) -> list[str]:
        return [*COMMAND, *self._where(), *arguments]

    def _where(self) -> list[str]:
        return [f"--kubeconfig={self.kubeconfig}", f"--namespace={self.space}"]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    async with api_server(tmp_path_factory.mktemp("server"), memory=True) as api:
        client = Client(api.transport())
        kinds = ("trainjobs", "optimizationjobs")
        found = [one for kind in kinds for one in documents(ROOT / f"config/crd/trainer.kubeflow.org_{kind}.yaml")]
        definition = json.loads((Path(jobset.__file__).parent / "jobsets.crd.json").read_bytes())
        definition.pop("//")
        await install(client, [*found, definition], owner="test")
        yield api
        await client.close()


@pytest_asyncio.fixture(loop_scope="module")
async def world(server: RunningServer) -> AsyncIterator[World]:
    """A namespace of its own for each test."""
    client = Client(server.transport())
    space = await client.create({"metadata": {"generateName": "test-"}}, kind=Namespace.RESOURCE)
    yield World(client, server.kubeconfig, space["metadata"]["name"])
    await client.close()


async def test_once(world: World) -> None:
    assert await world.command() == (0, "no TrainJobs\n", "")
    loss = [{"name": "loss", "value": "0.25"}, {"name": "current_step", "value": "4"}]
    await world.create("bert", progressPercentage=42, estimatedRemainingSeconds=6000, metrics=loss)
    await world.create("quiet")
    code, out, errors = await world.command()
    assert (code, errors) == (0, "")
    head, *jobs = out.splitlines()
    assert head.split() == ["JOB", "STATE", "PROGRESS", "ETA", "REPORTED", "LOSS"]
    bert, quiet = sorted(jobs)  # the newest is first, unless they were created within the same second
    assert re.fullmatch(r"bert +Running +42% +1h39m +\d+s ago +0.25", bert)
    assert re.fullmatch(r"quiet +Running +- +- +- +-", quiet)
    code, out, _ = await world.command("bert")
    assert code == 0
    assert "[############------------------] 42%, step 4" in out
    code, out, _ = await world.command("-o", "json")
    assert {one["name"]: one["progressPercentage"] for one in json.loads(out)["jobs"]} == {"bert": 42, "quiet": None}


async def test_the_attempt_comes_from_the_jobset(world: World) -> None:
    await world.create("bert", progressPercentage=4)
    job = await world.client.get(TrainJob, "bert", world.space)
    document = wire(builders.jobset(name="bert", namespace=world.space, uid="", owner=job, replicatedJobs=[]))
    assert json.loads((await world.command("bert", "-o", "json"))[1])["attempt"] is None
    await world.client.create(document, kind=JobSet.RESOURCE)
    await world.client.patch(JobSet.RESOURCE, "bert", world.space, {"status": {"restarts": 2}}, subresource="status")
    assert json.loads((await world.command("bert", "-o", "json"))[1])["attempt"] == 3


async def test_the_curve_begins_with_what_the_manager_recorded(world: World) -> None:
    await world.create("bert", progressPercentage=50, metrics=[{"name": "loss", "value": "0.5"}])
    job = await world.client.get(TrainJob, "bert", world.space)
    ring = Ring()
    for number in range(7):
        at = wall_clock().timestamp() - 600 + 10 * number
        values = {"loss": 0.1 * number, "grad_norm": float(number)}
        ring.add(Sample(at=at, percentage=number, values=values, attempt=1))
    made = await world.client.create(document_of(job, ring.encode()), kind=ConfigMap.RESOURCE)
    code, out, errors = await world.command("bert")
    assert (code, errors) == (0, "")
    assert re.search(r"loss +0.5  [_.\-~=+*#]{8}\n", out), out
    name = made["metadata"]["name"]
    assert name == "bert-progress"

    await world.client.patch(ConfigMap, name, world.space, {"data": {KEY: "{}"}}, type="merge")
    code, out, errors = await world.command("bert")
    assert code == 0
    assert errors.startswith("note: earlier reports are not shown: ConfigMap bert-progress is damaged")
    await world.client.patch(ConfigMap, name, world.space, {"metadata": {"labels": None}}, type="merge")
    assert (await world.command("bert"))[2] == ""


async def test_a_search_that_is_stopped(world: World) -> None:
    await world.create("s-1", labels={"trainwright.io/optimization-job": "s"})
    search = optimization_job("s", annotations={"trainwright.io/suspend": "true"})
    search["metadata"]["namespace"] = world.space
    await world.client.create(search, kind=OptimizationJob.RESOURCE)
    _, out, _ = await world.command()
    assert out.splitlines()[-1] == "search s (stopped): 1 trial, 1 Running"


async def test_exit_codes(world: World, tmp_path: Path) -> None:
    await world.create("good", progressPercentage=100)
    await world.report("good", condition="Complete")
    await world.create("bad", progressPercentage=10)
    await world.report("bad", condition="Failed")
    assert (await world.command("good"))[0] == 0
    assert (await world.command("bad"))[0] == 1
    assert (await world.command())[0] == 0
    code, _, errors = await world.command("none")
    assert (code, errors) == (2, f"error: there is no TrainJob none in namespace {world.space}\n")
    with pytest.raises(SystemExit):
        await world.command("-A")
    code, _, errors = await world.command("--context=none")
    assert code == 2
    assert errors.startswith("error: ")


async def test_a_cluster_without_the_kind(tmp_path: Path) -> None:
    async with api_server(tmp_path, memory=True) as api:
        client = Client(api.transport())
        code, _, errors = await World(client, api.kubeconfig, "default").command()
        await client.close()
    assert code == 2
    assert errors.startswith("error: ")
    assert len(errors.splitlines()) == 1


async def test_watching_says_nothing_of_jobsets_that_cannot_be_watched(tmp_path: Path) -> None:
    async with api_server(tmp_path, memory=True) as api:
        client = Client(api.transport())
        await install(client, documents(ROOT / "config/crd/trainer.kubeflow.org_trainjobs.yaml"), owner="test")
        world = World(client, api.kubeconfig, "default")
        await eventually(lambda: client.list_page(TrainJob.RESOURCE), lambda _: True, ignore=(NotFound,))
        await world.create("bert", progressPercentage=10)
        process = await asyncio.create_subprocess_exec(
            *world.line("bert", "--watch"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
        )
        assert process.stdout is not None
        assert b"bert: Running, 10%" in await process.stdout.readline()
        await world.report("bert", condition="Complete", progressPercentage=100)
        out, errors = await process.communicate()
        await client.close()
    assert (process.returncode, errors) == (0, b"")
    assert b"Complete" in out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_watching_without_a_terminal_is_a_line_for_each_change(
    world: World, number: signal.Signals, code: int
) -> None:
    await world.create("bert", progressPercentage=10)
    process = await asyncio.create_subprocess_exec(
        *world.line("--watch"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    assert process.stdout is not None

    async def line() -> str:
        assert process.stdout is not None
        return (await process.stdout.readline()).decode().strip().partition(" ")[2]

    assert (await line()).startswith("bert: Running, 10%")
    await world.report("bert", progressPercentage=20)
    assert (await line()).startswith("bert: Running, 20%")
    await world.create("other")
    # Created and reported are two changes, which may be seen as one.
    assert (await line()).startswith("other: ")
    await world.client.delete(TrainJob.RESOURCE, "bert", world.space)
    while (told := await line()).startswith("other: "):
        pass
    assert told == "bert: deleted"
    process.send_signal(number)
    _, errors = await process.communicate()
    assert (process.returncode, errors) == (code, b"")


@pytest.mark.parametrize(("condition", "code"), [("Complete", 0), ("Failed", 1)])
async def test_watching_one_job_ends_with_it(world: World, condition: str, code: int) -> None:
    await world.create("bert", progressPercentage=10)
    process = await asyncio.create_subprocess_exec(
        *world.line("bert", "--watch", "-o", "json"), stdout=subprocess.PIPE, env=environment()
    )
    assert process.stdout is not None
    first = json.loads(await process.stdout.readline())
    await world.report("bert", condition=condition, progressPercentage=90)
    rest = [json.loads(line) for line in (await process.communicate())[0].splitlines()]
    assert (first["state"], first["progressPercentage"]) == ("Running", 10)
    assert (rest[-1]["state"], rest[-1]["progressPercentage"]) == (condition, 90)
    assert process.returncode == code
