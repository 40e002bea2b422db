# SPDX-License-Identifier: Apache-2.0
"""What an API server asks of the node: logs and exec, of pods on the real API server."""

import asyncio
from dataclasses import replace

import pytest

from tests.integration.local.node.conftest import POD, Pods, container, python
from tests.unit.local.node.modes import IN_ONE_MODE
from trainwright.controller.local.node.node import LocalNode
from trainwright.controller.local.podaccess import ExecRequest, ExecSession, LogRequest, UnavailableError
from trainwright.controller.runtime.testing.waiting import eventually


async def read(node: LocalNode, pods: Pods, name: str, options: LogRequest, container: str = "main") -> str:
    chunks = [chunk async for chunk in await node.logs(pods.namespace, name, replace(options, container=container))]
    return b"".join(chunks).decode()


@IN_ONE_MODE
async def test_logs_of_a_pod_are_followed_to_its_end(pods: Pods, node: LocalNode) -> None:
    code = "import os,time\nprint('a')\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('b')"
    await pods.create("talks", *python(code))
    await pods.reach("talks", "Running")
    found: list[bytes] = []

    async def follow() -> None:
        async for chunk in await node.logs(pods.namespace, "talks", LogRequest(container="main", follow=True)):
            found.append(chunk)  # noqa: PERF401 - as they come

    task = asyncio.create_task(follow())
    await eventually(lambda: b"".join(found) == b"a\n")
    session = await node.exec(pods.namespace, "talks", ExecRequest(container="main", command=("touch", "go")))
    assert await session.wait() == 0
    await session.close()
    await asyncio.wait_for(task, 60)
    assert b"".join(found) == b"a\nb\n"
    await pods.reach("talks", "Succeeded")
    assert await read(node, pods, "talks", LogRequest(tail_lines=1)) == "b\n"
    with pytest.raises(UnavailableError, match='container not found \\("main"\\)'):
        await start(node, pods, "talks", ["true"])


@IN_ONE_MODE
async def test_the_log_of_the_run_before(pods: Pods, node: LocalNode) -> None:
    code = "import os,sys; there=os.path.exists('x'); open('x','w'); print('run', there); sys.exit(0 if there else 1)"
    await pods.create("again", *python(code), restartPolicy="OnFailure")
    await pods.reach("again", "Succeeded")
    assert await read(node, pods, "again", LogRequest()) == "run True\n"
    assert await read(node, pods, "again", LogRequest(previous=True)) == "run False\n"
    assert await read(node, pods, "again", LogRequest(run=0)) == "run False\n"
    assert await read(node, pods, "again", LogRequest(run=1, follow=True)) == "run True\n"


@IN_ONE_MODE
async def test_logs_that_are_not_there(pods: Pods, node: LocalNode) -> None:
    waits = {"name": "main", "image": "python", "command": ["true"], "envFrom": [{"secretRef": {"name": "no"}}]}
    await pods.create("waits", containers=[waits])
    await eventually(lambda: pods.get("waits"), container)
    await eventually(
        lambda: pods.get("waits"),
        lambda pod: container(pod)["state"]["waiting"]["reason"] == "CreateContainerConfigError",
    )
    with pytest.raises(UnavailableError, match="is waiting to start: CreateContainerConfigError"):
        await read(node, pods, "waits", LogRequest())
    with pytest.raises(UnavailableError, match='pod "absent" not found'):
        await read(node, pods, "absent", LogRequest())
    with pytest.raises(UnavailableError, match='container "other" in pod "waits" is not available'):
        await read(node, pods, "waits", LogRequest(), container="other")
    with pytest.raises(UnavailableError, match='container not found \\("main"\\)'):
        await start(node, pods, "waits", ["true"])


@pytest.fixture
async def sleeper(pods: Pods) -> str:
    """A pod that runs."""
    env = [{"name": "COLOUR", "value": "blue"}]
    main = {"name": "main", "image": "python", "command": [*python("import time; time.sleep(600)")], "env": env}
    await pods.create("sleeper", containers=[main])
    await pods.reach("sleeper", "Running")
    return "sleeper"


async def start(node: LocalNode, pods: Pods, name: str, command: list[str], **how: bool) -> ExecSession:
    return await node.exec(pods.namespace, name, ExecRequest(container="main", command=tuple(command), **how))


async def test_exec_with_a_terminal(pods: Pods, node: LocalNode, sleeper: str) -> None:
    session = await start(node, pods, sleeper, ["sh"], stdin=True, tty=True)
    session.resize(100, 40)
    await session.write(b"stty size; tty >/dev/null && echo term-$((1+1)); exit 4\n")
    assert await session.wait() == 4
    out = b"".join([chunk async for chunk in session.stdout]).decode()
    await session.close()
    assert "40 100" in out
    assert "term-2" in out


async def test_a_session_that_is_closed_ends_its_process(pods: Pods, node: LocalNode, sleeper: str) -> None:
    session = await start(node, pods, sleeper, ["sleep", "600"])
    await session.close()
    assert await session.wait() == 137


async def test_sessions_end_with_their_container(pods: Pods, node: LocalNode, sleeper: str) -> None:
    session = await start(node, pods, sleeper, ["sleep", "600"])
    await pods.client.delete(POD, sleeper, pods.namespace, grace_period=1)
    assert await asyncio.wait_for(session.wait(), 60) == 137
    await session.close()
    await pods.gone(sleeper)
    with pytest.raises(UnavailableError):
        await start(node, pods, sleeper, ["true"])
