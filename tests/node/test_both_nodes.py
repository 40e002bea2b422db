# SPDX-License-Identifier: Apache-2.0
"""The local node against the real one: the same pods on both, and what their status says in the end.

Both are nodes of one cluster. What differs is listed below, with the reason.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hack.node.cluster import NODE, NodeCluster
from tests.integration.local.node.conftest import Pods, running_node, status
from trainwright.controller.local.node.settings import NodeSettings
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.testing.waiting import eventually

IMAGE = "python:3.13-slim"
LOCAL = "local-1"


def main(*command: str, **container: Any) -> dict[str, Any]:
    """A pod with one container."""
    return {"containers": [{"name": "main", "image": IMAGE, "command": list(command), **container}]}


PODS: dict[str, dict[str, Any]] = {
    "succeeds": main("sh", "-c", "exit 0"),
    "exits with 3": main("sh", "-c", "exit 3"),
    "is killed": main("sh", "-c", "kill -9 $$"),
    "does not exist": main("/no/such/program"),
    "is no program": main("/etc/passwd"),
    "writes a termination message": main("sh", "-c", "printf why >/dev/termination-log; exit 1"),
    "falls back to its log": main(
        "sh", "-c", "echo 'the last words'; exit 1", terminationMessagePolicy="FallbackToLogsOnError"
    ),
    "reads variables": main(
        *("sh", "-c", '[ "$(B)" = one-two ] && [ "$(C)" = "$$(A)" ] && exit 7'),
        env=[{"name": "A", "value": "one"}, {"name": "B", "value": "$(A)-two"}, {"name": "C", "value": "$$(A)"}],
    ),
    "has an init container that fails": {
        "initContainers": [{"name": "first", "image": IMAGE, "command": ["sh", "-c", "exit 4"]}],
        **main("true"),
    },
    "runs out of time": {"activeDeadlineSeconds": 3, **main("sleep", "600")},
    "has two containers": {
        "containers": [
            {"name": "main", "image": IMAGE, "command": ["sh", "-c", "exit 0"]},
            {"name": "other", "image": IMAGE, "command": ["sh", "-c", "exit 5"]},
        ]
    },
}

DIFFERS = {
    "runs out of time": "process 1 of a container ignores SIGTERM unless it handles it, and is killed after its grace: "
    "137, where a process of the local node ends with 143",
}
"""Pods whose status differs, and why."""


@pytest.fixture
async def client(node: NodeCluster) -> AsyncIterator[Client]:
    made = Client(HTTPTransport(load_config(node.folder / "admin.kubeconfig")), user_agent="test")
    yield made
    await made.close()


def seen(pod: dict[str, Any]) -> dict[str, Any]:
    """What is compared of a status: no times, no identities."""
    found: dict[str, Any] = {"phase": status(pod).get("phase"), "reason": status(pod).get("reason")}
    for kind in ("initContainerStatuses", "containerStatuses"):
        for one in status(pod).get(kind) or ():
            ended = one["state"].get("terminated")
            state: Any = sorted(one["state"])
            if ended:
                # The words of an error at the start are those of runc.
                message = None if ended["reason"] == "StartError" else ended.get("message")
                state = {"reason": ended["reason"], "exitCode": ended["exitCode"], "message": message}
            found[f"{one['name']}"] = {"state": state, "ready": one["ready"], "restarts": one["restartCount"]}
    return found


@pytest.mark.parametrize("name", PODS)
async def test_a_pod_ends_alike(node: NodeCluster, client: Client, name: str, tmp_path: Path) -> None:
    namespace = node.create_namespace()
    word = re.sub(r"\W+", "-", name)
    config = load_config(node.folder / "admin.kubeconfig")
    async with running_node(config, NodeSettings(name=LOCAL, folder=tmp_path / "state")):
        both = {}
        for place in (NODE, LOCAL):
            pods = Pods(client, namespace, place)
            await pods.create(f"{word}-{place}", **PODS[name])

            async def over(pods: Pods = pods, place: str = place) -> dict[str, Any]:
                return await pods.get(f"{word}-{place}")

            pod = await eventually(over, lambda pod: status(pod).get("phase") in ("Succeeded", "Failed"), seconds=120)
            both[place] = seen(pod)
    if name in DIFFERS:
        assert both[LOCAL] != both[NODE], f"the difference is gone; delete it from the list: {DIFFERS[name]}"
    else:
        assert both[LOCAL] == both[NODE], both
