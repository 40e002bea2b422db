# SPDX-License-Identifier: Apache-2.0
"""A laptop is closed for six hours: the clock of the event loop stands still meanwhile, that of the wall goes on."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.unit.local.controllers.objects import NOW, at, condition, job, jobset, pod, replicated
from trainwright.api.objects import Document
from trainwright.api.times import LOOK_SECONDS, Now
from trainwright.controller.local.controllers.base import ControllerSettings
from trainwright.controller.local.controllers.finished import FinishedJobs
from trainwright.controller.local.controllers.job import JobController
from trainwright.controller.local.controllers.job_plan import plan
from trainwright.controller.local.controllers.job_pods import NO_FAILURES, Pods
from trainwright.controller.local.controllers.jobset import JobSetController
from trainwright.controller.local.controllers.jobset import plan as plan_of_jobset
from trainwright.controller.local.controllers.objects import CLAIM, JOB, JOBSET, POD, SERVICE
from trainwright.controller.runtime import NO_SERVERS, ClusterConfig, Manager, ProcessSettings
from trainwright.controller.runtime.client.transport import Request, Response, collection_path
from trainwright.controller.runtime.testing.clock import jumping, settle
from trainwright.controller.runtime.testing.scripted import LiveStream, ScriptedTransport, frame, is_list, listing

FOREVER = float("inf")
AWAKE, ASLEEP = 60.0, 6 * 3600.0
PATHS = {kind.plural: collection_path(kind) for kind in (JOBSET, JOB, POD, SERVICE, CLAIM)}
Declare = Callable[[Manager, Now], object]


class Script(ScriptedTransport):
    """Notes when what is deleted or written, and tells the watches of it."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[float, str]] = []
        self.watches: dict[str, LiveStream] = {}
        self.objects: dict[str, Document] = {}

    async def send(self, request: Request) -> Response:
        if request.method in ("GET", "POST"):
            return await super().send(request)
        path = request.path.removesuffix("/status")
        where = "/".join(path.split("/")[-2:])
        self.done.append((asyncio.get_running_loop().time(), f"{request.method} {where}"))
        changed = self.objects[where]
        if request.method == "DELETE":
            self.watches[where.partition("/")[0]].send(frame("DELETED", changed))
        else:
            version = str(int(changed["metadata"]["resourceVersion"]) + 100)
            body = msgspec.json.decode(request.body or b"{}")
            changed = {**changed, "metadata": {**changed["metadata"], "resourceVersion": version}}
            changed |= {"status": body["status"]} if "status" in body else {}
            self.objects[where] = changed
            self.watches[where.partition("/")[0]].send(frame("MODIFIED", changed))
        await settle()
        return Response(200, {}, msgspec.json.encode(changed))


def running_pod() -> Document:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "uid-job", "controller": True}
    found = pod("p")
    found["metadata"] |= {"resourceVersion": "8", "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", **found}


def running_job(**spec: Any) -> Document:
    """A Job whose status says all that there is to say of its one pod."""
    found = job(status={"startTime": at(0)}, **spec)
    found["metadata"] |= {"resourceVersion": "9", "creationTimestamp": at(0)}
    for _ in range(2):
        found["status"] = plan(found, Pods(found, [running_pod()], frozenset()), NO_FAILURES, NOW).status
    return {"apiVersion": JOB.api_version, "kind": JOB.kind, **found}


def _lists(path: str, request: Request) -> bool:
    return request.path == path and is_list(request)


def _watches(path: str, request: Request) -> bool:
    return request.path == path and "watch" in request.query


@asynccontextmanager
async def lives(declare: Declare, *stored: Document) -> AsyncIterator[tuple[Script, list[float]]]:
    """A controller with these objects; what it does, and a list to which a sleep is added."""
    script, slept = Script(), [0.0]
    for plural, path in PATHS.items():
        of_kind = [one for one in stored if f"{one['kind'].lower()}s" == plural]
        script.answer(functools.partial(_lists, path), listing("10", *of_kind), times=FOREVER)
        script.watches[plural] = script.stream(functools.partial(_watches, path))
        script.objects |= {f"{plural}/{one['metadata']['name']}": one for one in of_kind}
    script.answer(lambda r: r.path.endswith("/events"), {}, status=201, times=FOREVER)
    process = ProcessSettings(streaming_lists=False)
    config = ClusterConfig(server="http://script")
    manager = Manager(config, transport=script, field_manager="workloads", servers=NO_SERVERS, process=process)
    loop = asyncio.get_running_loop()
    declare(manager, lambda: NOW + timedelta(seconds=loop.time() + sum(slept)))
    task = asyncio.ensure_future(manager.run())
    await settle()
    try:
        yield script, slept
    finally:
        manager.stop()
        await task


def job_controller(manager: Manager, now: Now) -> None:
    JobController(manager, ControllerSettings(now=now))


@jumping
async def test_a_job_without_a_deadline_goes_on() -> None:
    async with lives(job_controller, running_job(), running_pod()) as (script, slept):
        await asyncio.sleep(AWAKE)
        slept.append(ASLEEP)
        await asyncio.sleep(AWAKE)
    assert script.done == []


@jumping
async def test_a_deadline_that_passed_meanwhile_ends_the_job_soon_after() -> None:
    """As in a cluster: `activeDeadlineSeconds` counts from the start of the Job by the wall clock."""
    async with lives(job_controller, running_job(activeDeadlineSeconds=3600), running_pod()) as (script, slept):
        await asyncio.sleep(AWAKE)
        assert script.done == []
        slept.append(ASLEEP)
        await asyncio.sleep(LOOK_SECONDS + 1)
        assert "DELETE pods/p" in {what for _, what in script.done}


@pytest.mark.parametrize(("to_live", "is_gone"), [(3600, True), (8 * 3600, False)])
@jumping
async def test_a_finished_job_goes_when_its_time_to_live_is_over(to_live: int, is_gone: bool) -> None:
    stored = job(
        status={"conditions": [condition("Complete")], "completionTime": at(0)}, ttlSecondsAfterFinished=to_live
    )
    stored["metadata"] |= {"resourceVersion": "9"}
    stored = {"apiVersion": JOB.api_version, "kind": JOB.kind, **stored}

    def declare(manager: Manager, now: Now) -> None:
        FinishedJobs(manager, ControllerSettings(now=now))

    async with lives(declare, stored) as (script, slept):
        await asyncio.sleep(AWAKE)
        assert script.done == []
        slept.append(ASLEEP)
        await asyncio.sleep(LOOK_SECONDS + 1)
        assert [what for _, what in script.done] == (["DELETE jobs/job"] if is_gone else [])


@pytest.mark.parametrize(("to_live", "is_gone"), [(3600, True), (8 * 3600, False)])
@jumping
async def test_a_finished_jobset_goes_when_its_time_to_live_is_over(to_live: int, is_gone: bool) -> None:
    status = {"conditions": [condition("Completed", "AllJobsCompleted")], "terminalState": "Completed"}
    stored = jobset(replicated(), status=status, ttlSecondsAfterFinished=to_live)
    stored["metadata"] |= {"resourceVersion": "9"}
    for _ in range(2):
        stored["status"] = plan_of_jobset(stored, [], NOW).status
    stored = {"apiVersion": JOBSET.api_version, "kind": JOBSET.kind, **stored}

    def declare(manager: Manager, now: Now) -> None:
        JobSetController(manager, ControllerSettings(now=now))

    async with lives(declare, stored) as (script, slept):
        await asyncio.sleep(AWAKE)
        assert "DELETE jobsets/set" not in {what for _, what in script.done}
        slept.append(ASLEEP)
        await asyncio.sleep(LOOK_SECONDS + 1)
        assert ("DELETE jobsets/set" in {what for _, what in script.done}) == is_gone
