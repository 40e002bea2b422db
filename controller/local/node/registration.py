# SPDX-License-Identifier: Apache-2.0
"""The Node object: created at the start, and looked after. It has no Lease: nothing gives up the pods of this node."""

import asyncio
import logging
import platform
from collections.abc import Callable, Mapping

from trainwright import __version__
from trainwright.api import times
from trainwright.api.kubernetes.core.v1 import Node as NodeModel
from trainwright.api.objects import Document
from trainwright.api.times import Now
from trainwright.controller.local.node.document import HOST_IP
from trainwright.controller.runtime import AlreadyExists, Client, KubernetesError

log = logging.getLogger(__name__)

NODE = NodeModel.RESOURCE
STATUS_SECONDS = 60.0
"""The status is written this often even if nothing has changed."""
RETRY_SECONDS = 1.0


class NodeRegistration:
    """Keeps the Node object. A runnable: `run` ends when cancelled."""

    def __init__(
        self,
        client: Client,
        name: str,
        resources: Callable[[], tuple[Mapping[str, str], Mapping[str, str]]],
        now: Now,
    ) -> None:
        """`resources` returns capacity and allocatable."""
        self._client = client
        self._name = name
        self._resources = resources
        self._labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": platform.system().lower(),
            "kubernetes.io/arch": _architecture(),
        }
        self._hostname = name
        self._now = now
        self._since: dict[str, tuple[str, str]] = {}
        """Status and time of the last transition by type of condition."""
        self.registered = asyncio.Event()

    async def run(self) -> None:
        """Register, again and again until cancelled. Errors of the API server are retried."""
        while True:
            try:
                await self._register()
            except KubernetesError as error:  # or the Node was deleted meanwhile
                log.warning("node %s: its status was not written: %s", self._name, error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self.registered.set()
                await asyncio.sleep(STATUS_SECONDS)

    async def say_stopped(self) -> None:
        """Report that the node is going away. Raises KubernetesError."""
        ready = self._condition("Ready", "Unknown", "NodeStatusUnknown", "The local cluster has stopped.")
        await self._write_status({"conditions": [ready]})

    async def _write_status(self, status: Document) -> None:
        await self._client.patch(NODE, self._name, "", {"status": status}, type="strategic", subresource="status")

    async def _register(self) -> None:
        metadata = {"name": self._name, "labels": self._labels}
        try:
            await self._client.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata}, kind=NODE)
        except AlreadyExists:
            patch = {"metadata": {"labels": self._labels}}
            await self._client.patch(NODE, self._name, "", patch, type="strategic")
        await self._write_status(self._status())

    def _status(self) -> Document:
        capacity, allocatable = self._resources()
        info = dict.fromkeys(("kubeProxyVersion", "machineID", "systemUUID", "bootID"), "")
        info |= {
            "architecture": _architecture(),
            "operatingSystem": platform.system().lower(),
            "kernelVersion": platform.release(),
            "osImage": platform.platform(),
            "kubeletVersion": f"v{__version__}",
            "containerRuntimeVersion": "local://processes",
        }
        return {
            "capacity": dict(capacity),
            "allocatable": dict(allocatable),
            "addresses": [{"type": "InternalIP", "address": HOST_IP}, {"type": "Hostname", "address": self._hostname}],
            "nodeInfo": info,
            "conditions": [
                self._condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "memory is not watched"),
                self._condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "the disk is not watched"),
                self._condition("PIDPressure", "False", "KubeletHasSufficientPID", "processes are not counted"),
                self._condition("Ready", "True", "KubeletReady", "the node runs pods as processes"),
            ],
        }

    def _condition(self, kind: str, status: str, reason: str, message: str) -> Document:
        moment = times.format_time(self._now())
        if self._since.get(kind, ("", ""))[0] != status:
            self._since[kind] = (status, moment)
        found = {"type": kind, "status": status, "reason": reason, "message": message}
        return found | {"lastHeartbeatTime": moment, "lastTransitionTime": self._since[kind][1]}


def _architecture() -> str:
    """The name that Kubernetes has for this machine's architecture."""
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
