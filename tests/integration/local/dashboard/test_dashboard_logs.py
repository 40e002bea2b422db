# SPDX-License-Identifier: Apache-2.0
"""Logs over HTTP: lines and files, a container that has not started, a user who may not, the end of the dashboard.

What is merged and followed: `tests/unit/dashboard/test_logbook.py`.
"""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from tests.dashboards import dashboard
from tests.integration.local.dashboard.world import SCRIPT, World
from trainwright.controller.dashboard import contract
from trainwright.controller.dashboard.security import HEADERS
from trainwright.controller.local.apiserver.verbs.pods import stream_log
from trainwright.controller.local.podaccess import LogRequest, UnavailableError
from trainwright.controller.runtime.testing.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
POD = "bert-node-0-1-abcde"
TEXT = f"{SCRIPT}\n\x1b[31mred\xff ".encode("latin-1") + "ü".encode()
"""What a browser must not take for HTML, nor for anything else."""


class Lines:
    """The log of a container: what is there, and then nothing until the test ends it. Used as a LogSource."""

    def __init__(self) -> None:
        self.waiting = ""
        """Why the container has not started."""
        self.ended = asyncio.Event()
        self.open = 0

    async def __call__(self, namespace: str, pod: str, request: LogRequest) -> AsyncIterator[bytes]:
        assert (namespace.startswith("test-"), pod) == (True, POD)
        if self.waiting:
            raise UnavailableError(self.waiting)
        return self._chunks(follow=request.follow)

    async def _chunks(self, *, follow: bool) -> AsyncIterator[bytes]:
        self.open += 1
        try:
            for second, line in enumerate(TEXT.split(b"\n")):
                yield b"2026-11-22T11:00:%02d.000000000Z %s\n" % (second, line)
            if follow:
                await self.ended.wait()
        finally:
            self.open -= 1


async def job_with_log(world: World) -> tuple[Lines, str]:
    """The log of a pod, and the path of its lines."""
    await world.failed_job()
    lines, server = Lines(), world.server.server
    server.register_handler("", "pods", "log", partial(stream_log, server.store, lines))
    return lines, world.path("bert", "lines")


async def test_lines_and_files_are_text_and_nothing_else(world: World) -> None:
    lines, path = await job_with_log(world)
    lines.ended.set()
    async with dashboard(world.transport, world.space) as (browser, _):
        read = f"{path}?pod={POD}&container=node&known=-1&from=0&count=9"
        found = (await browser.get(read)).as_(contract.Lines)
        assert (found.total, found.texts[0], found.problems) == (2, SCRIPT, [])
        searched = await browser.get(f"{path}/find?pod={POD}&container=node&text=SCRIPT")
        assert searched.as_(contract.Found) == contract.Found(total=2, lines=[0], more=False)
        for pod, name in ((POD, POD), ("*", "bert")):
            got = await browser.get(f"{path}/file?pod={pod}&container={'node' if pod == POD else ''}")
            assert (got.status, got.body) == (200, TEXT + b"\n")
            wanted = {"Content-Type": "text/plain; charset=utf-8"}
            wanted |= {"Content-Disposition": f'attachment; filename="{name}.log"'}
            assert {**HEADERS, **wanted}.items() <= dict(got.headers).items()
        for wrong in ("from=x", "count=-1", "known=-2", "previous=yes", "attempt=0", "container=/"):
            assert (await browser.get(f"{path}?pod={POD}&{wrong}")).problem.reason == "BadRequest", wrong


async def test_a_log_that_is_not_there_says_why(world: World) -> None:
    lines, path = await job_with_log(world)
    lines.waiting = 'container "node" in pod "bert-node-0-0" is waiting to start: ContainerCreating'
    async with dashboard(world.transport, world.space) as (browser, _):
        assert (await browser.get(f"{path}?pod=gone")).problem.reason == "NotFound"
        read = f"{path}?pod={POD}&container=node&known=-1"
        found = (await browser.get(read)).as_(contract.Lines)
        assert (found.total, found.problems) == (0, [f"rank 1: {lines.waiting}"])
    world.transport.forbidden = {"log"}
    async with dashboard(world.transport, world.space) as (browser, _):
        found = (await browser.get(read)).as_(contract.Lines)
        assert found.problems == [f"no right to get pods/log in namespace {world.space}; ask its administrator for it"]


async def test_the_end_of_the_dashboard_ends_a_log_that_is_followed(world: World) -> None:
    lines, path = await job_with_log(world)
    async with dashboard(world.transport, world.space) as (browser, _):
        found = (await browser.get(f"{path}?pod={POD}&container=node&known=-1")).as_(contract.Lines)
        assert found.follows
        await eventually(lambda: lines.open == 1)
    await eventually(lambda: lines.open == 0)
