# SPDX-License-Identifier: Apache-2.0
"""Our controllers on the real API server, with the test in the part of the kubelet."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.integration.local.controllers.kubelet import Kubelet, add_node
from trainwright.api.base import Resource
from trainwright.api.objects import Document, key_of, name_of
from trainwright.controller.local.controllers import declare_controllers
from trainwright.controller.local.controllers.base import ControllerSettings
from trainwright.controller.local.controllers.objects import JOB, JOBSET, NAMESPACE, POD
from trainwright.controller.runtime import (
    NO_SERVERS,
    Client,
    ClusterConfig,
    HTTPTransport,
    Manager,
    ProcessSettings,
    load_config,
)
from trainwright.controller.runtime.client.transport import Transport
from trainwright.controller.runtime.errors import NotFound
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually, eventually_sync, has_length

CONTAINER: dict[str, Any] = {"name": "main", "image": "example.com/none", "resources": {"requests": {"cpu": "1"}}}


@pytest.fixture(scope="module")
def with_real_ones() -> Iterator[ControlPlane]:
    """The real controllers, without KWOK: the test plays the kubelet in both worlds."""
    with ControlPlane(controller_manager=True, scheduler=True, jobset=True) as running:
        await_garbage_collection_of_jobsets(running)
        yield running


def await_garbage_collection_of_jobsets(control_plane: ControlPlane) -> None:
    """Wait until the real garbage collector knows JobSet's definition: it looks for new ones every 30 seconds."""
    place = {"name": "first", "namespace": "kube-public"}
    spec = {**jobset_spec(replicated_job("a")), "suspend": True}
    control_plane.apply({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": place, "spec": spec})
    jobs = ("get", "jobs,services", "--namespace=kube-public", "--output=name")
    eventually_sync(lambda: control_plane.kubectl(*jobs).split(), has_length(2))
    control_plane.kubectl("delete", "jobset", "first", "--namespace=kube-public", "--cascade=background")
    eventually_sync(lambda: control_plane.kubectl(*jobs).split(), has_length(0))


class Server(Protocol):
    """An API server."""

    @property
    def kubeconfig(self) -> Path: ...
    @property
    def folder(self) -> Path: ...
    @property
    def ca(self) -> bytes: ...


@asynccontextmanager
async def living(
    control_plane: Server, namespace: str, workloads: Sequence[str], **allocatable: str
) -> "AsyncIterator[World]":
    """A node, its kubelet and some of our controllers for the length of the block."""
    config = load_config(control_plane.kubeconfig)
    settings = ControllerSettings(authority=control_plane.ca.decode(), volumes=control_plane.folder / "volumes")
    controllers = Controllers(config, lambda _: HTTPTransport(config), settings, tuple(workloads))
    async with controllers.living(namespace, **allocatable) as world:
        yield world


@dataclass(frozen=True)
class Controllers:
    """Some of our controllers and the kubelet, on an API server."""

    config: ClusterConfig
    transport: Callable[[str], Transport]
    """The way of a process to the API server, by its name."""
    settings: ControllerSettings
    workloads: tuple[str, ...]
    watchdog: bool = True
    """Whether a thread looks whether the loop is late."""

    @asynccontextmanager
    async def living(self, namespace: str, **allocatable: str) -> "AsyncIterator[World]":
        """A node, its kubelet and the controllers for the length of the block."""
        client = Client(self.transport("test"), user_agent="test")
        await add_node(client, **allocatable)
        manager = self._manager("workloads", detect_mutation=True)
        declare_controllers(manager, settings=self.settings, only=self.workloads)
        # A manager of its own: the kubelet's writes must not be taken for those of the controllers.
        node = self._manager("kubelet", detect_mutation=False)
        kubelet = Kubelet(node)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(node.run())
            tasks.create_task(manager.run())
            try:
                await manager.wait_ready()
                await node.wait_ready()
                yield World(client, namespace, kubelet)
            finally:
                manager.stop()
                node.stop()
        await client.close()

    def _manager(self, name: str, *, detect_mutation: bool) -> Manager:
        return Manager(
            self.config,
            field_manager=name,
            servers=NO_SERVERS,
            process=ProcessSettings(watchdog=self.watchdog, detect_mutation=detect_mutation),
            transport=self.transport(name),
        )


class World:
    """What a user does in one namespace, and what can be seen from outside."""

    def __init__(self, client: Client, namespace: str, kubelet: Kubelet) -> None:
        self.client, self.namespace, self.kubelet = client, namespace, kubelet

    async def elsewhere(self, namespace: str) -> "World":
        """The same world in a namespace that is made for it."""
        await self.client.create({"metadata": {"name": namespace}}, kind=NAMESPACE)
        return World(self.client, namespace, self.kubelet)

    async def create(self, kind: Resource, name: str, spec: Document, **metadata: Any) -> Document:
        document: Document = {"metadata": {"name": name, "namespace": self.namespace, **metadata}}
        if spec:
            document["spec"] = spec
        return await self.client.create(document, kind=kind)

    async def get(self, kind: Resource, name: str) -> Document | None:
        try:
            return await self.client.get(kind, name, self.namespace)
        except NotFound:
            return None

    async def all(self, kind: Resource, label_selector: str = "") -> list[Document]:
        found = await self.client.list(kind, self.namespace, label_selector=label_selector)
        return sorted(found.items, key=name_of)

    async def until(self, kind: Resource, name: str, holds: Callable[[Document], object]) -> Document:
        """Wait until the object satisfies the condition."""
        found = await eventually(
            lambda: self.get(kind, name), lambda obj: obj is not None and holds(obj), what=f"{kind.kind} {name}"
        )
        assert found is not None
        return found

    async def gone(self, kind: Resource, name: str) -> None:
        await eventually(lambda: self.get(kind, name), lambda obj: obj is None, what=f"no {kind.kind} {name}")

    async def pods(self, holds: Callable[[list[Document]], object], label_selector: str = "") -> list[Document]:
        """Wait until the pods satisfy the condition."""
        return await eventually(lambda: self.all(POD, label_selector), holds, what="the pods")

    async def running(self, count: int, label_selector: str = "") -> list[Document]:
        """Wait until exactly so many pods run."""

        def look(pods: list[Document]) -> bool:
            return len(_in(pods, "Running")) == count

        return _in(await self.pods(look, label_selector), "Running")

    def end(self, *pods: Document, code: int = 0) -> None:
        """The pods end with an exit code."""
        for pod in pods:
            self.kubelet.end(*key_of(pod), code)

    async def fails(self, pod: Document, code: int) -> None:
        """The pod fails, and is seen to have: it stays, so that a look that is late sees it, too."""
        self.end(pod, code=code)
        await self.until(POD, name_of(pod), lambda found: found["status"]["phase"] == "Failed")


def _in(pods: list[Document], phase: str) -> list[Document]:
    return [pod for pod in pods if pod["status"]["phase"] == phase and "deletionTimestamp" not in pod["metadata"]]


def conditions(obj: Document) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    found = obj.get("status", {}).get("conditions", [])
    return {condition["type"]: (condition["status"], condition.get("reason", "")) for condition in found}


def job_spec(**fields: Any) -> Document:
    """The spec of a Job with one container."""
    pod = {"containers": [CONTAINER], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    return {"template": {"spec": pod}, **fields}


def jobset_spec(*replicated: Document, **fields: Any) -> Document:
    """The spec of a JobSet, as its webhook would have it."""
    return {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All"},
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        "replicatedJobs": list(replicated),
        **fields,
    }


def replicated_job(name: str, replicas: int = 1, **fields: Any) -> Document:
    """A replicated job whose Jobs are Indexed."""
    spec = job_spec(**{"completionMode": "Indexed", "completions": 1, "parallelism": 1, "backoffLimit": 0, **fields})
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def replicated(name: str, replicas: int = 1, pods: int = 1, **fields: Any) -> Document:
    job = {"completions": pods, "parallelism": pods, "backoffLimit": 0, "template": template(), **fields}
    return {"name": name, "replicas": replicas, "template": {"spec": job}}


def template(**fields: Any) -> Document:
    return {
        "metadata": {"labels": {"mine": "yes"}, "annotations": {"note": "kept"}},
        "spec": {"containers": [CONTAINER], "terminationGracePeriodSeconds": 1, **fields},
    }


async def ended(world: World, name: str = "train") -> None:
    await world.until(JOBSET, name, lambda js: {"Completed", "Failed"} & conditions(js).keys())


async def job_ended(world: World, name: str = "job") -> None:
    await world.until(JOB, name, lambda job: {"Complete", "Failed"} & conditions(job).keys())


def of(pods: list[Document], prefix: str) -> list[Document]:
    return [pod for pod in pods if name_of(pod).startswith(prefix)]
