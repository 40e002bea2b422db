# SPDX-License-Identifier: Apache-2.0
"""Logs of pods: their last lines, those that come, a reader that is slow, a server that is lost."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.dashboards import dashboard
from tests.integration.local.dashboard.world import SCRIPT, World
from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.controller.dashboard.security import HEADERS
from trainwright.controller.local.apiserver.verbs.pods import PodLogs
from trainwright.controller.local.podaccess import LogRequest, UnavailableError
from trainwright.controller.runtime.testing.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
TEXT = f"{SCRIPT}\n\x1b[31mred\xff ".encode("latin-1") + "ü\n".encode()
"""What a browser must not take for HTML, nor for anything else."""


class Lines:
    """The log of a container that says what the test tells it to. Used as a LogRun."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[bytes | None] = asyncio.Queue()
        """None: the container ends."""
        self.endless = False
        self.waiting = ""
        """Why the container has not started."""
        self.asked: list[LogRequest] = []
        self.read = 0
        self.open = 0

    async def __call__(self, namespace: str, pod: str, request: LogRequest) -> AsyncIterator[bytes]:
        assert (namespace.startswith("test-"), pod) == (True, "bert-node-0-0")
        self.asked.append(request)
        if self.waiting:
            raise UnavailableError(self.waiting)
        return self._chunks()

    async def _chunks(self) -> AsyncIterator[bytes]:
        self.open += 1
        try:
            while True:
                if self.endless:
                    await asyncio.sleep(0)
                    chunk: bytes | None = b"x" * 65536
                else:
                    chunk = await self.said.get()
                if chunk is None:
                    return
                self.read += len(chunk)
                yield chunk
        finally:
            self.open -= 1


async def pod_with_log(world: World) -> tuple[Lines, str]:
    """The log of a pod, and its path."""
    spec = {"containers": [{"name": "node", "image": "train:1"}], "nodeName": "here"}
    await world.add(Pod.RESOURCE, "bert-node-0-0", spec=spec)
    lines, server = Lines(), world.server.server
    server.register_handler("", "pods", "log", PodLogs(server.store, lines).get)
    return lines, world.path("bert", "pods", "bert-node-0-0", "log")


async def test_the_last_lines_are_text_and_nothing_else(world: World) -> None:
    lines, path = await pod_with_log(world)
    async with dashboard(world.transport, world.space) as (browser, _):
        for query in ("", "&tail=7&previous=true"):
            for chunk in (TEXT, b"end", None):
                lines.said.put_nowait(chunk)
            got = await browser.get(f"{path}?container=node{query}")
            assert (got.status, got.body) == (200, TEXT + b"end")
            assert {**HEADERS, "Content-Type": "text/plain; charset=utf-8"}.items() <= dict(got.headers).items()
    first, second = lines.asked
    assert (first.container, first.tail_lines, first.follow, first.previous) == ("node", 500, False, False)
    assert (second.tail_lines, second.previous) == (7, True)


async def test_a_log_is_followed_until_the_container_ends(world: World) -> None:
    lines, path = await pod_with_log(world)
    async with (
        dashboard(world.transport, world.space) as (browser, _),
        browser.raw(f"{path}?container=node&follow=true") as answer,
    ):
        for line in (b"step 1\n", b"step 2\n"):
            lines.said.put_nowait(line)
            assert await answer.content.readline() == line
        lines.said.put_nowait(None)
        assert await answer.content.read() == b""
    assert lines.asked[0].follow


async def test_a_log_that_breaks_off_does_not_look_complete(world: World) -> None:
    lines, path = await pod_with_log(world)
    async with (
        dashboard(world.transport, world.space) as (browser, _),
        browser.raw(f"{path}?container=node&follow=true") as answer,
    ):
        lines.said.put_nowait(b"step 1\n")
        await answer.content.readline()
        world.transport.lost = True
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.content.read()
        world.transport.lost = False
        await eventually(lambda: lines.open == 0)
        for chunk in (b"step 2\n", None):
            lines.said.put_nowait(chunk)
        assert (await browser.get(f"{path}?container=node")).body == b"step 2\n"


async def test_a_page_that_never_reads_a_log_holds_up_nothing(world: World) -> None:
    lines, path = await pod_with_log(world)
    lines.endless = True
    async with dashboard(world.transport, world.space) as (browser, _):
        async with browser.raw(f"{path}?container=node&follow=true"):

            async def is_full() -> bool:
                before = lines.read
                for _ in range(5):
                    assert (await browser.get("/api/v1/jobs")).status == 200
                return lines.read == before > 0

            # What is read ends where the buffers are full: of the sockets, and 8 MiB of this test's client.
            await eventually(is_full)
            assert lines.read < 2**26
            assert lines.open == 1
        await eventually(lambda: lines.open == 0)


async def test_a_container_that_has_not_started_says_why(world: World) -> None:
    lines, path = await pod_with_log(world)
    lines.waiting = 'container "node" in pod "bert-node-0-0" is waiting to start: ContainerCreating'
    async with dashboard(world.transport, world.space) as (browser, _):
        problem = (await browser.get(f"{path}?container=node&follow=true")).problem
    assert (problem.code, problem.reason, problem.message) == (400, "BadRequest", lines.waiting)


async def test_the_end_of_the_dashboard_ends_a_log_that_is_followed(world: World) -> None:
    lines, path = await pod_with_log(world)
    async with dashboard(world.transport, world.space) as (browser, _):
        answering = browser.raw(f"{path}?container=node&follow=true")
        await answering.__aenter__()
        await eventually(lambda: lines.open == 1)
    await eventually(lambda: lines.open == 0)
