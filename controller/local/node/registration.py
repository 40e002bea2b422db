# SPDX-License-Identifier: Apache-2.0
"""The Node object: created at the start, its status kept up to date, and a Lease as heartbeat.

https://kubernetes.io/docs/concepts/architecture/nodes/#heartbeats
"""

import asyncio
import logging
import platform
from collections.abc import Callable, Mapping

from trainwright.api import times
from trainwright.api.kubernetes.coordination.v1 import Lease
from trainwright.api.kubernetes.core.v1 import Node as NodeModel
from trainwright.api.objects import Document, uid_of
from trainwright.api.times import Now
from trainwright.controller.local.node.document import HOST_IP
from trainwright.controller.runtime import AlreadyExists, Client, KubernetesError, NotFound

log = logging.getLogger(__name__)

NODE = NodeModel.RESOURCE
LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
STATUS_SECONDS = 300.0
"""The status is written this often even if nothing has changed."""


class NodeRegistration:
    """Keeps the Node object. A runnable: `run` ends when cancelled."""

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        resources: Callable[[], tuple[Mapping[str, str], Mapping[str, str]]],
        version: str,
        hostname: str = "",
        now: Now,
    ) -> None:
        """`resources` returns capacity and allocatable, `version` is that of this program, `hostname` is an address."""
        self._client = client
        self._name = name
        self._resources = resources
        self._labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": platform.system().lower(),
            "kubernetes.io/arch": _architecture(),
        }
        self._version = version
        self._hostname = hostname or name
        self._now = now
        self._uid = ""
        self._since: dict[str, tuple[str, str]] = {}
        """Status and time of the last transition by type of condition."""
        self.registered = asyncio.Event()

    async def run(self) -> None:
        """Register, then renew until cancelled. Errors of the API server are retried."""
        written = float("-inf")
        loop = asyncio.get_running_loop()
        while True:
            try:
                if not self._uid or loop.time() - written >= STATUS_SECONDS:
                    await self._register()
                    written = loop.time()
                await self._renew()
            except NotFound:
                # The Node was deleted: register again at once, but not in a loop without a pause.
                self._uid = ""
                await asyncio.sleep(1.0)
            except KubernetesError as error:
                log.warning("node %s: the heartbeat failed: %s", self._name, error)
                await asyncio.sleep(1.0)
            else:
                self.registered.set()
                await asyncio.sleep(RENEW_SECONDS)

    async def say_stopped(self) -> None:
        """Report that the node is going away. Raises KubernetesError."""
        ready = self._condition("Ready", "Unknown", "NodeStatusUnknown", "The local cluster has stopped.")
        await self._write_status({"conditions": [ready]})

    async def _write_status(self, status: Document) -> None:
        await self._client.patch(NODE, self._name, "", {"status": status}, type="strategic", subresource="status")

    async def _register(self) -> None:
        metadata = {"name": self._name, "labels": self._labels}
        try:
            stored = await self._client.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata}, kind=NODE)
        except AlreadyExists:
            patch = {"metadata": {"labels": self._labels}}
            stored = await self._client.patch(NODE, self._name, "", patch, type="strategic")
        self._uid = uid_of(stored)
        await self._write_status(self._status())

    def _status(self) -> Document:
        capacity, allocatable = self._resources()
        info = dict.fromkeys(("kubeProxyVersion", "machineID", "systemUUID", "bootID"), "")
        info |= {
            "architecture": _architecture(),
            "operatingSystem": platform.system().lower(),
            "kernelVersion": platform.release(),
            "osImage": platform.platform(),
            "kubeletVersion": self._version,
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

    async def _renew(self) -> None:
        moment = times.format_micro_time(self._now())
        spec = {"holderIdentity": self._name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": moment}
        try:
            await self._client.patch(Lease.RESOURCE, self._name, LEASE_NAMESPACE, {"spec": spec})
        except NotFound:
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": self._uid}
            lease: Document = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
                "spec": spec,
            }
            await self._client.create(lease, kind=Lease.RESOURCE)


def _architecture() -> str:
    """The name that Kubernetes has for this machine's architecture."""
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
