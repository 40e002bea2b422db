# SPDX-License-Identifier: Apache-2.0
"""Mode A: what a process sees in namespaces of its own, and that the machine stays as it is."""

from typing import Any

import pytest

from tests.integration.local.node.conftest import POD, Pods, python
from tests.unit.local.node.modes import REFUSED
from trainwright.controller.local.node.node import LocalNode
from trainwright.controller.local.node.settings import Isolation
from trainwright.controller.local.podaccess import ExecRequest, LogRequest
from trainwright.controller.runtime.testing.waiting import eventually

pytestmark = pytest.mark.only_where(not REFUSED, f"this machine refuses namespaces: {REFUSED}")


@pytest.fixture
def isolation() -> Isolation:
    """This mode alone."""
    return Isolation.NAMESPACES


async def log(node: LocalNode, pods: Pods, name: str, **options: Any) -> str:
    chunks = [chunk async for chunk in await node.logs(pods.namespace, name, LogRequest(container="main", **options))]
    return b"".join(chunks).decode()


async def test_names_follow_pods_that_come_and_go(pods: Pods, node: LocalNode) -> None:
    code = "import time\nwhile True: print(open('/etc/hosts').read().count('b-1.train'), flush=True); time.sleep(0.05)"
    await pods.create("b-0", *python(code), hostname="b-0", subdomain="train")
    await pods.reach("b-0", "Running")
    await eventually(lambda: log(node, pods, "b-0", tail_lines=1), lambda text: text == "0\n")
    await pods.create("b-1", *python("import time; time.sleep(600)"), hostname="b-1", subdomain="train")
    await eventually(lambda: log(node, pods, "b-0", tail_lines=1), lambda text: text == "4\n")
    await pods.client.delete(POD, "b-1", pods.namespace, grace_period=0)
    await eventually(lambda: log(node, pods, "b-0", tail_lines=1), lambda text: text == "0\n")


async def test_exec_joins_the_namespaces(pods: Pods, node: LocalNode) -> None:
    await pods.create("joined", *python("import time; time.sleep(600)"), hostname="joined")
    await pods.reach("joined", "Running")
    code = "import os,socket; print(socket.gethostname(), os.path.exists('/proc/1/root'), os.getpid() < 100)"
    session = await node.exec(pods.namespace, "joined", ExecRequest(container="main", command=tuple(python(code))))
    assert b"".join([chunk async for chunk in session.stdout]) == b"joined True True\n"
    assert await session.wait() == 0
    await session.close()
