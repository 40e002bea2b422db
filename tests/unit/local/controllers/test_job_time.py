# SPDX-License-Identifier: Apache-2.0
"""What the Job controller remembers of a pod that is gone, against a script of an API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec

from tests.unit.local.controllers.objects import NOW, job, pod
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
    """A pod that is deleted has ended, and the watch has shown it, before the deletion is answered."""

    def __init__(self, stored: Document) -> None:
        super().__init__()
        self.stored = stored
        self.written: list[list[str]] = []
        """The conditions of the Job in each status that was written."""
        self.pods = LiveStream()
        """The watch of pods."""

    async def send(self, request: Request) -> Response:
        answer = self.stored
        if request.path == STATUS:
            patch = msgspec.json.decode(request.body or b"")["status"]
            self.stored["status"] = merge_patch(self.stored["status"], patch)
            self.stored["metadata"]["resourceVersion"] = str(1000 + len(self.written))
            self.written.append([one["type"] for one in self.stored["status"].get("conditions", ())])
        elif request.method == "DELETE":
            self.pods.send(frame("MODIFIED", stored_pod("Failed", "12")))
            await asyncio.sleep(1)
            answer = stored_pod("Running", "11")
        else:
            return await super().send(request)
        return Response(200, {}, msgspec.json.encode(answer))


def stored_job(**spec: Any) -> Document:
    """A Job that has begun."""
    found = job(status={"startTime": "2026-01-02T11:00:00Z"})
    found["metadata"] |= {"resourceVersion": "9"}
    found["spec"] |= spec
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


def stored_pod(phase: str, version: str) -> Document:
    """The pod of the Job, which has restarted too often."""
    owner = {"apiVersion": JOB.api_version, "kind": JOB.kind, "name": "job", "uid": "uid-job", "controller": True}
    found = pod(phase=phase, restarts=2, deleted=version != "10")
    found["metadata"] |= {"resourceVersion": version, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", **found}


@jumping
async def test_a_job_that_fails_by_restarts_fails_though_its_pod_is_gone() -> None:
    """What made it fail, the count in the status of the pod, goes with the pod."""
    stored = stored_job(backoffLimit=2, template={"spec": {"restartPolicy": "OnFailure"}})
    script = Script(stored)
    released = stored_pod("Failed", "13")
    del released["metadata"]["finalizers"]
    script.answer(lambda r: r.path.startswith("/api/v1/namespaces/ns/pods/"), released, times=FOREVER)
    async with running(script, stored, stored_pod("Running", "10")):
        await asyncio.sleep(10)
    assert script.written[0] == ["FailureTarget"]
    assert not [request for request in script.requests if request.method == "POST" and request.path.endswith("/pods")]
