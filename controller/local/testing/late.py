# SPDX-License-Identifier: Apache-2.0
"""Watches that are late, each kind by a time of its own, as on a busy API server.

Watches of two kinds keep no order between them, and a client that has just written reads of it later. Whoever takes one
for the sign of another finds out here.
"""

import asyncio
import os
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

from trainwright.controller.local.apiserver.http.server import APIServer
from trainwright.controller.local.apiserver.request.info import ServerRequest, ServerResponse, resource_route

SEED_VARIABLE = "TRAINWRIGHT_TEST_LATE_WATCHES"
"""Where a run of tests tells the processes that it starts the seed."""
RANGE = (0.2, 0.7)
"""Seconds by which a watch is late, and a status is written."""

Handle: TypeAlias = Callable[[ServerRequest], Coroutine[Any, Any, ServerResponse]]
Delay: TypeAlias = Callable[[str], float]
"""Seconds for a kind, by its plural."""


def late(handle: Handle, watches: Delay, statuses: Delay = lambda _: 0.0) -> Handle:
    """The same, but what a watch tells comes later, in its order, and so do writes of a status.

    Args:
        handle: answers a request.
        watches: how late the events of a kind are; asked for each of them.
        statuses: how late its status is written.
    """

    async def answer(request: ServerRequest) -> ServerResponse:
        route = resource_route(request.path)
        if route is None:
            return await handle(request)
        if route.subresource == "status" and request.method in ("PUT", "PATCH"):
            await asyncio.sleep(statuses(route.resource))
        found = await handle(request)
        if found.stream is None or route.subresource or not request.flag("watch"):
            return found
        return replace(found, stream=_late(found.stream, lambda: watches(route.resource)))

    return answer


def make_late(server: APIServer, watches: Delay) -> None:
    """Let the watches of one API server be late."""
    server.handle = late(server.handle, watches)  # type: ignore[method-assign, assignment]  # tests alone do so


def all_late(seed: str) -> None:
    """Let the watches of all API servers of this process be late; the seed decides which kind by how much."""
    delays: dict[tuple[str, str], float] = {}

    def delay(what: str, plural: str) -> float:
        key = (what, plural)
        if key not in delays:
            delays[key] = random.Random(f"{seed}/{what}/{plural}").uniform(*RANGE)  # noqa: S311 - no secret
        return delays[key]

    handle = APIServer.handle

    async def answer(self: APIServer, request: ServerRequest) -> ServerResponse:
        made = late(
            lambda asked: handle(self, asked), lambda plural: delay("watch", plural), lambda of: delay("status", of)
        )
        return await made(request)

    APIServer.handle = answer  # type: ignore[method-assign]  # tests alone do so


def late_if_wanted() -> None:
    """Do so in a process that such a run of tests has started."""
    if seed := os.environ.get(SEED_VARIABLE):
        all_late(seed)


async def _late(stream: AsyncIterator[bytes], seconds: Callable[[], float]) -> AsyncGenerator[bytes, None]:
    loop = asyncio.get_running_loop()
    frames: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue()

    async def take() -> None:
        try:
            async for frame in stream:
                frames.put_nowait((loop.time() + seconds(), frame))
        finally:
            frames.put_nowait((loop.time() + seconds(), None))

    taking = asyncio.create_task(take(), name="late watch")
    try:
        while True:
            due, frame = await frames.get()
            await asyncio.sleep(due - loop.time())
            if frame is None:
                return
            yield frame
    finally:
        taking.cancel()
        with suppress(asyncio.CancelledError):
            await taking
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
