# SPDX-License-Identifier: Apache-2.0
"""An API server with TrainJobs, whose status the test writes."""

from typing import Any

import yaml

from tests.builders import train_job
from tests.dashboards import Faulty
from trainwright.api.base import Resource
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.jobset.v1alpha2.labels import LABEL_ATTEMPT, LABEL_INDEX, LABEL_JOBSET, LABEL_REPLICATED_JOB
from trainwright.api.kubernetes.core.v1 import ConfigMap, Pod
from trainwright.api.objects import Document, wire
from trainwright.api.times import format_micro_time, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.local.cluster import RunningServer
from trainwright.controller.runtime import Client
from trainwright.plugins.contract.picture import EVENT

RUNNING = {"jobsStatus": [{"name": "node", "active": 1, "ready": 1, "succeeded": 0, "failed": 0, "suspended": 0}]}
SCRIPT = "<script>alert(1)</script>"


class World:
    """An API server with TrainJobs, whose status the test writes."""

    def __init__(self, server: RunningServer, space: str) -> None:
        self.server, self.space = server, space
        self.transport = Faulty(server.transport())
        self.client = Client(server.transport())

    async def create(
        self,
        name: str,
        *,
        runtime: str = "torch",
        reported: bool = True,
        env: dict[str, str] | None = None,
        **progress: Any,
    ) -> dict[str, Any]:
        trainer: Document = {"numNodes": 2}
        if env is not None:
            trainer["env"] = [{"name": key, "value": value} for key, value in env.items()]
        reference = {"name": runtime, "kind": "TrainingRuntime"}
        job = train_job(name, self.space, uid="", runtimeRef=reference, trainer=trainer)
        made = await self.client.create(wire(job), kind=TrainJob.RESOURCE)
        if progress or reported:
            await self.report(name, **progress)
        return made

    async def report(
        self,
        name: str,
        *,
        condition: str = "",
        message: str = SCRIPT,
        metrics: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        now = format_micro_time(wall_clock())
        status: dict[str, Any] = dict(RUNNING)
        if more or metrics:
            told = [{"name": key, "value": value} for key, value in (metrics or {}).items()]
            status["trainerStatus"] = {**more, "metrics": told, "lastUpdatedTime": now}
        if condition:
            status["conditions"] = [
                {
                    "type": condition,
                    "status": "True",
                    "reason": "Because",
                    "message": message,
                    "lastTransitionTime": now,
                }
            ]
        await self.client.patch(TrainJob.RESOURCE, name, self.space, {"status": status}, subresource="status")

    async def add(self, resource: Resource, name: str, owner: Document | None = None, **more: Any) -> Document:
        """An object, with its status if it has one."""
        metadata: Document = {"name": name, "namespace": self.space, **more.pop("metadata", {})}
        if owner is not None:
            reference = {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
            metadata["ownerReferences"] = [reference]
        status = more.pop("status", None)
        document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **more}
        made = await self.client.create(document, kind=resource)
        if status is not None:
            await self.client.patch(resource, name, self.space, {"status": status}, subresource="status")
        return made

    async def failed_job(self) -> Document:
        """A job whose second attempt has failed: the pod is there, and the record of the first one."""
        job = await self.create("bert", progressPercentage=7, metrics={"loss": "NaN", SCRIPT: "0.5"})
        made = await self.add(
            JobSet.RESOURCE,
            "bert",
            job,
            spec={"replicatedJobs": [], "failurePolicy": {"maxRestarts": 1}},
            status={"restarts": 1, "restartsCountTowardsMax": 1},
        )
        labels = {LABEL_JOBSET: "bert", LABEL_REPLICATED_JOB: "node", LABEL_ATTEMPT: "1", LABEL_INDEX: "1"}
        ended = {"exitCode": 1, "reason": "Error", "message": SCRIPT, "finishedAt": "2026-11-22T12:00:00Z"}
        pod = await self.add(
            Pod.RESOURCE,
            "bert-node-0-1-abcde",
            made,
            metadata={"labels": labels},
            spec={"containers": [{"name": "node", "image": "train:1"}], "nodeName": "here"},
            status={
                "phase": "Failed",
                "containerStatuses": [
                    {
                        "name": "node",
                        "image": "train:1",
                        "imageID": "",
                        "ready": False,
                        "restartCount": 0,
                        "state": {"terminated": {**ended, "startedAt": "2026-11-22T11:00:00Z"}},
                    }
                ],
            },
        )
        entry = {"attempt": 0, "pod": "bert-node-0-0-zzzzz", "replicatedJob": "node", "container": "node"}
        told = {**entry, "exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-22T11:00:00Z"}
        data = {"attempt-0": yaml.safe_dump(told), "attempt-0.log": f"step 1\n{SCRIPT}"}
        await self.add(ConfigMap.RESOURCE, "bert-failures", job, data=data)
        about = {"kind": "Pod", "namespace": self.space, "name": "bert-node-0-1-abcde", "uid": pod["metadata"]["uid"]}
        event: Document = {
            "involvedObject": about,
            "reason": "BackOff",
            "message": SCRIPT,
            "type": "Warning",
            "count": 3,
            "firstTimestamp": "2026-11-22T11:59:00Z",
            "lastTimestamp": "2026-11-22T12:00:01Z",
        }
        await self.add(EVENT, "bert.1", **event)
        await self.report("bert", condition="Failed", metrics={"loss": "NaN", SCRIPT: "0.5"}, progressPercentage=7)
        return job

    def path(self, name: str, *more: str) -> str:
        return "/".join(("/api/v1/jobs", self.space, name, *more))
