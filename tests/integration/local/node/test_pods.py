# SPDX-License-Identifier: Apache-2.0
"""Pods on the real API server become processes, and their ends become statuses."""

import json

from tests.integration.local.node.conftest import Pods, container, python, status
from trainwright.api.kubernetes.core.v1 import Node
from trainwright.api.objects import annotations_of
from trainwright.controller.local.node.status import FAILURES
from trainwright.controller.runtime import Client


async def test_the_node_says_what_it_has(pods: Pods, client: Client) -> None:
    await pods.create("hello", *python("print('hello')"))
    pod = await pods.reach("hello", "Succeeded")
    assert status(pod)["podIP"] == status(pod)["hostIP"] == "127.0.0.1"
    assert status(pod)["qosClass"] == "BestEffort"
    node = await client.get(Node.RESOURCE, pods.node)
    assert {"cpu", "memory", "pods"} <= set(node["status"]["allocatable"])
    assert any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])


async def test_a_failure_has_its_time_in_the_same_write(pods: Pods) -> None:
    made = await pods.create("fails", *python("raise SystemExit(4)"))
    pod = await pods.reach("fails", "Failed")
    ended = container(pod)["state"]["terminated"]
    (failure,) = json.loads(annotations_of(pod)[FAILURES])
    assert failure == {"container": "main", "run": 0, "exitCode": 4, "at": failure["at"]}
    assert ended["finishedAt"] == failure["at"][:19] + "Z"
    assert ended["containerID"] == f"local://{made['metadata']['uid']}/main/0"


async def test_what_a_pod_made_of_its_termination_message_is_its_own_matter(pods: Pods) -> None:
    """Where it is mounted, it cannot be replaced."""
    await pods.create("neighbour", *python("import time; time.sleep(600)"))
    await pods.reach("neighbour", "Running")
    code = "import os; file = os.environ['TERMINATION_LOG']; os.remove(file); os.symlink('x' * 300, file)"
    await pods.create("linked", *python(f"{code}\nraise SystemExit(4)"))
    pod = await pods.reach("linked", "Failed")
    ended = container(pod)["state"]["terminated"]
    if ended["exitCode"] == 4:
        assert ended["message"].startswith("Error on reading termination log ")
    assert status(await pods.get("neighbour"))["phase"] == "Running"
