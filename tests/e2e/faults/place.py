# SPDX-License-Identifier: Apache-2.0
"""A namespace with one job, in which a fault is caused; and the list of the faults."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, NamedTuple

from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import name_of
from trainwright.api.times import format_time, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainingRuntime
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.client.discovery import Discovery
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.why.kinds import QUOTA
from trainwright.plugins.testing import replicated_job, runtime_document

Document = dict[str, Any]
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
U: Document = {"nodeSelector": {"nowhere": "yes"}}
"""The pods find no node, so that their status can be written."""
NEVER: Document = {"restartPolicy": "Never"}


class Place:
    """One namespace with one job `j`."""

    def __init__(self, control_plane: ControlPlane, client: Client, namespace: str) -> None:
        self.control_plane = control_plane
        self.client = client
        self.discovery = Discovery(client)
        self.namespace = namespace

    async def create(self, kind: str, api_version: str, name: str, **fields: Any) -> Document:
        metadata = {"name": name, "namespace": self.namespace, **fields.pop("metadata", {})}
        document = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}
        return await self.client.create(document, kind=await self.discovery.resource(api_version, kind))

    async def patch_pod(self, pod: Document, status: Document) -> None:
        """Write what a kubelet would."""
        patch = {"status": status}
        await self.client.patch(
            Pod.RESOURCE, name_of(pod), self.namespace, patch, type="strategic", subresource="status"
        )

    async def runtime(self, pod: Document | None = None, **more: Any) -> None:
        """A runtime with one replicated job `node`, whose pods have these fields."""
        job = more.pop("job", {})
        steps = more.pop("steps", ())
        replicated = [made(step, pod or {}, step=step) for step in steps]
        node = made("node", pod or {}, **job)
        if steps:
            node["dependsOn"] = [{"name": step, "status": "Complete"} for step in steps]
        await self.client.create(
            runtime_document("r", *replicated, node, namespace=self.namespace, **more), kind=TrainingRuntime.RESOURCE
        )

    async def job(self, name: str = "j", *, nodes: int = 1, **spec: Any) -> Document:
        reference = {"kind": "TrainingRuntime", "name": "r"}
        trainer = {"numNodes": nodes, **spec.pop("trainer", {})}
        metadata = spec.pop("metadata", {})
        whole = {"runtimeRef": reference, "trainer": trainer, **spec}
        return await self.create("TrainJob", "trainer.kubeflow.org/v1alpha1", name, spec=whole, metadata=metadata)

    async def pods(self, number: int = 1) -> list[Document]:
        """The pods of the job as soon as there are so many."""

        async def look() -> list[Document]:
            selector = "jobset.sigs.k8s.io/jobset-name=j"
            found = (await self.client.list(Pod.RESOURCE, self.namespace, label_selector=selector)).items
            index = "batch.kubernetes.io/job-completion-index"
            return sorted(found, key=lambda pod: int(pod["metadata"]["labels"].get(index, 0)))

        return await eventually(look, lambda found: len(found) == number, what=f"{number} pods in {self.namespace}")

    async def held(self, status: Document, number: int = 1) -> None:
        """Bind the pods to a node that is not there, and write what its kubelet would."""
        for pod in await self.pods(number):
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name_of(pod), "namespace": self.namespace},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "gone"},
            }
            path = f"/api/v1/namespaces/{self.namespace}/pods/{name_of(pod)}/binding"
            headers = {"Content-Type": "application/json"}
            await self.client.send(Request("POST", path, {}, headers, json.dumps(binding).encode()))
            if status:
                await self.patch_pod(pod, status)


def made(name: str, pod: Document, **job: Any) -> Document:
    """A replicated job; `container` of the pod has fields of its container."""
    spec = {key: value for key, value in pod.items() if key != "container"}
    container = {"name": name, "image": "example.com/none", **pod.get("container", {})}
    return replicated_job(name, {"containers": [container], **spec}, **job)


def waiting(reason: str, message: str, *, restarts: int = 0, last: Document | None = None) -> Document:
    status: Document = {
        "name": "node",
        "image": "example.com/none",
        "imageID": "",
        "ready": False,
        "restartCount": restarts,
    }
    status["state"] = {"waiting": {"reason": reason, "message": message}}
    if last is not None:
        status["lastState"] = {"terminated": last}
    return {"containerStatuses": [status]}


def ended(code: int, *, reason: str = "Error", ago: float = 10) -> Document:
    finished = format_time(wall_clock() - timedelta(seconds=ago))
    state = {"exitCode": code, "reason": reason, "finishedAt": finished, "startedAt": finished}
    status = {"name": "node", "image": "example.com/none", "imageID": "", "ready": False, "restartCount": 0}
    return {"phase": "Failed", "containerStatuses": [{**status, "state": {"terminated": state}}]}


Plant = Callable[[Place], Awaitable[None]]


class Fault(NamedTuple):
    """One seed."""

    plant: Plant
    sentence: str
    """How the first sentence begins, behind its reason."""
    code: int
    """Exit code of the command."""
    patience: float
    """Seconds that the fault has to last before it is said."""


class Faults(dict[str, Fault]):
    """Seeds by the number of their cause."""

    def seed(self, number: int, sentence: str, code: int, *, patience: float = 0) -> Callable[[Plant], Plant]:
        """Add the decorated function, which causes the fault."""

        def register(plant: Plant) -> Plant:
            self[str(number)] = Fault(plant, sentence, code, patience)
            return plant

        return register


async def quota(place: Place, hard: Document) -> None:
    """A ResourceQuota that is in force."""
    await place.create("ResourceQuota", "v1", "q", spec={"hard": hard})

    async def counted() -> object:
        return (await place.client.get(QUOTA, "q", place.namespace)).get("status", {}).get("hard")

    await eventually(counted, what="a quota that counts")


async def own_node(place: Place, **spec: Any) -> None:
    """A node with 8 GPUs and the label `pool`."""
    pool = place.namespace
    room = {"cpu": "32", "memory": "64Gi", "pods": "10", "nvidia.com/gpu": "8"}
    metadata = {"name": pool, "labels": {"pool": pool}, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    status = {"capacity": room, "allocatable": room}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}
    await asyncio.to_thread(place.control_plane.apply, node)
