# SPDX-License-Identifier: Apache-2.0
"""When the Job controller tells the end of a Job, on a clock that jumps and against a script of an API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import msgspec
import pytest

from tests.unit.local.controllers.objects import NOW, condition, job, pod
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.merge.patch import merge_patch
from trainwright.controller.local.controllers.base import ControllerSettings
from trainwright.controller.local.controllers.job import JobController
from trainwright.controller.local.controllers.objects import JOB
from trainwright.controller.runtime import NO_SERVERS, ClusterConfig, Manager, ProcessSettings
from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.testing.clock import jumping, settle
from trainwright.controller.runtime.testing.scripted import LiveStream, ScriptedTransport, frame, is_list, listing

FOREVER = float("inf")
STATUS = "/apis/batch/v1/namespaces/ns/jobs/job/status"


class Script(ScriptedTransport):
    """Notes when each status of the Job is written, and with which conditions."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[float, list[str]]] = []
        self.pods = LiveStream()
        """The watch of pods."""

    async def send(self, request: Request) -> Response:
        if request.path != STATUS:
            return await super().send(request)
        status = msgspec.json.decode(request.body or b"")["status"]
        conditions = [one["type"] for one in status["conditions"]]
        self.written.append((round(asyncio.get_running_loop().time(), 3), conditions))
        stored = stored_job(status=status)
        stored["metadata"]["resourceVersion"] = "1000"
        return Response(200, {}, msgspec.json.encode(stored))


def stored_job(*, deleted: bool = False, status: Document | None = None) -> Document:
    """A Job that has failed, has no pod left, and was not told so."""
    target = condition("FailureTarget", "BackoffLimitExceeded", message="too often")
    found = job(status=status or {"conditions": [target], "startTime": "2026-01-02T11:00:00Z"}, deleted=deleted)
    found["metadata"] |= {"resourceVersion": "9"}
    return {"apiVersion": JOB.api_version, "kind": JOB.kind, **found}


@asynccontextmanager
async def running(script: Script, stored: Document, *having: Document) -> AsyncIterator[LiveStream]:
    """The controller, with this Job and these pods; the watch of Jobs."""
    jobs, pods = "/apis/batch/v1/jobs", "/api/v1/pods"
    script.answer(lambda r: r.path == jobs and is_list(r), listing("10", stored), times=FOREVER)
    script.answer(lambda r: r.path == pods and is_list(r), listing("10", *having), times=FOREVER)
    watch = script.stream(lambda r: r.path == jobs and "watch" in r.query)
    script.pods = script.stream(lambda r: r.path == pods and "watch" in r.query)
    script.answer(lambda r: r.path.endswith("/events"), {}, status=201, times=FOREVER)
    config = ClusterConfig(server="http://script")
    process = ProcessSettings(streaming_lists=False)
    manager = Manager(config, transport=script, field_manager="workloads", servers=NO_SERVERS, process=process)
    loop = asyncio.get_running_loop()
    JobController(manager, ControllerSettings(now=lambda: NOW + timedelta(seconds=loop.time())))
    task = asyncio.ensure_future(manager.run())
    await settle()
    try:
        yield watch
    finally:
        manager.stop()
        await task


@pytest.mark.parametrize(("deleted", "when"), [(False, 0.0), (True, 1.0)])
@jumping
async def test_the_end_of_a_job_that_is_being_deleted_is_told_a_second_later(deleted: bool, when: float) -> None:
    script = Script()
    async with running(script, stored_job(deleted=deleted)):
        await asyncio.sleep(10)
    assert script.written == [(when, ["FailureTarget", "Failed"])]


@jumping
async def test_the_end_of_a_job_that_is_gone_by_then_is_not_told() -> None:
    """The garbage collector was fast enough: its pods were killed because it is deleted."""
    script = Script()
    async with running(script, stored_job(deleted=True)) as watch:
        await asyncio.sleep(0.9)
        watch.send(frame("DELETED", stored_job(deleted=True)))
        await asyncio.sleep(10)
    assert script.written == []
    assert not [request for request in script.requests if request.path.endswith("/events")]


class Fast(Script):
    """Here a pod that is deleted has ended, and the watch has shown it, before the deletion is answered."""

    def __init__(self, stored: Document) -> None:
        super().__init__()
        self.stored = stored

    async def send(self, request: Request) -> Response:
        answer = self.stored
        if request.path == STATUS:
            patch = msgspec.json.decode(request.body or b"")["status"]
            self.stored["status"] = merge_patch(self.stored["status"], patch)
            self.stored["metadata"]["resourceVersion"] = str(1000 + len(self.written))
            self.written.append((0.0, [one["type"] for one in self.stored["status"].get("conditions", ())]))
        elif request.method == "DELETE":
            self.pods.send(frame("MODIFIED", stored_pod("Failed", "12")))
            await asyncio.sleep(1)
            answer = stored_pod("Running", "11")
        else:
            return await super().send(request)
        return Response(200, {}, msgspec.json.encode(answer))


def stored_pod(phase: str, version: str) -> Document:
    """The pod of the Job, which has restarted too often."""
    owner = {"apiVersion": JOB.api_version, "kind": JOB.kind, "name": "job", "uid": "uid-job", "controller": True}
    found = pod(phase=phase, restarts=2, deleted=version != "10")
    found["metadata"] |= {"resourceVersion": version, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", **found}


@jumping
async def test_a_job_that_fails_by_restarts_fails_though_its_pod_is_gone() -> None:
    """What made it fail, the count in the status of the pod, goes with the pod."""
    stored = stored_job(status={"startTime": "2026-01-02T11:00:00Z"})
    script = Fast(stored)
    stored["spec"] |= {"backoffLimit": 2, "template": {"spec": {"restartPolicy": "OnFailure"}}}
    released = stored_pod("Failed", "13")
    del released["metadata"]["finalizers"]
    script.answer(lambda r: r.path.startswith("/api/v1/namespaces/ns/pods/"), released, times=FOREVER)
    async with running(script, stored, stored_pod("Running", "10")):
        await asyncio.sleep(10)
    assert script.written[0][1] == ["FailureTarget"]
    assert not [request for request in script.requests if request.method == "POST" and request.path.endswith("/pods")]
