# SPDX-License-Identifier: Apache-2.0
"""Plays the kubelet: pods that are bound to a node run, end as the test says, and go when they are deleted."""

from typing import Any

from trainwright.api.objects import Document, Key, deletion_timestamp_of, name_of, spec_of, status_of
from trainwright.api.times import format_time, wall_clock
from trainwright.controller.local.controllers.objects import NODE, POD, is_terminal, node_of
from trainwright.controller.runtime import Client, Done, Manager, NotFound, Result, Trigger

NODE_NAME = "laptop"


class Kubelet:
    """Runs the pods of one node on a manager."""

    def __init__(self, manager: Manager) -> None:
        self._client, self._cache = manager.client, manager.cache
        self._ends: dict[Key, int] = {}
        self._restarts: dict[Key, int] = {}
        self._slow: set[Key] = set()
        self._trigger = Trigger("kubelet")
        manager.controller("kubelet").for_(POD).source(self._trigger).reconcile(self.reconcile)

    def end(self, namespace: str, name: str, code: int = 0) -> None:
        """The containers of a pod end with an exit code."""
        self._ends[Key(namespace, name)] = code
        self._trigger(Key(namespace, name))

    def slow(self, namespace: str, name: str) -> None:
        """The containers of a pod that is deleted do not end before the test says so."""
        self._slow.add(Key(namespace, name))

    def restart(self, namespace: str, name: str, count: int) -> None:
        """The containers of a pod have restarted so often."""
        self._restarts[Key(namespace, name)] = count
        self._trigger(Key(namespace, name))

    async def reconcile(self, key: Key) -> Result:
        pod = self._cache.get(POD, key.name, key.namespace)
        if pod is None or not node_of(pod):
            return Done()
        try:
            await self._reconcile(key, pod)
        except NotFound:
            return Done()
        return Done()

    async def _reconcile(self, key: Key, pod: Document) -> None:
        deleted = deletion_timestamp_of(pod) is not None and (key not in self._slow or key in self._ends)
        if not is_terminal(pod):
            if deleted or key in self._ends:
                await self._write(key, pod, self._ends.get(key, 137))
            elif _restarts(pod) != self._restarts.get(key, 0):
                await self._write(key, pod, None)
        if deleted:
            await self._client.delete(POD, key.name, key.namespace, grace_period=0)

    async def _write(self, key: Key, pod: Document, code: int | None) -> None:
        now = format_time(wall_clock())
        state: dict[str, Any]
        if code is None:
            phase, state = "Running", {"running": {"startedAt": now}}
        else:
            phase = "Succeeded" if code == 0 else "Failed"
            reason = "Completed" if code == 0 else "Error"
            state = {"terminated": {"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now}}
        ready = "True" if code is None else "False"
        containers = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "local://",
                "ready": code is None,
                "restartCount": self._restarts.get(key, 0),
                "state": state,
            }
            for container in spec_of(pod)["containers"]
        ]
        conditions = [
            {"type": type_, "status": ready, "lastTransitionTime": now} for type_ in ("Ready", "ContainersReady")
        ]
        status: dict[str, Any] = {"phase": phase, "conditions": conditions, "containerStatuses": containers}
        patch = {"status": status}
        await self._client.patch(POD, key.name, key.namespace, patch, type="strategic", subresource="status")


def _restarts(pod: Document) -> int | None:
    """The restarts that the status shows; None if the pod does not run yet."""
    containers = status_of(pod).get("containerStatuses")
    return int(containers[0]["restartCount"]) if containers else None


async def add_node(client: Client, **allocatable: str) -> None:
    """The only node: it is ready, without the taint that admission adds to a new one.

    Those that other tests left in the shared cluster are still ready, so the scheduler would choose among them.
    """
    for left in (await client.list(NODE)).items:
        if name_of(left) != NODE_NAME:
            await client.delete(NODE, name_of(left))
    document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE_NAME, "labels": {"disk": "fast", "kubernetes.io/hostname": NODE_NAME}},
    }
    await client.apply(document, kind=NODE, field_manager="kubelet")
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110", **allocatable}
    now = format_time(wall_clock())
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now, "lastHeartbeatTime": now, "reason": "Ready"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    await client.patch(NODE, NODE_NAME, "", {"status": status}, subresource="status")
    await client.patch(NODE, NODE_NAME, "", {"spec": {"taints": None}})
