# SPDX-License-Identifier: Apache-2.0
"""Waiting for a manager on a real server to have nothing left to do.

Settled means: each cache holds exactly what the server lists, at the same versions, and every controller's queue is
empty, twice in a row. Delayed keys count as work if they are due within `horizon`.
"""

import asyncio
from collections.abc import Awaitable, Callable

from trainwright.controller.runtime.cache.informer import Informer
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.kinds import MetadataOnly
from trainwright.controller.runtime.manager.manager import Manager
from trainwright.controller.runtime.objects import key_of, resource_version_of

LIMIT_SECONDS = 30.0
PAUSE_SECONDS = 0.02


async def settle_manager(manager: Manager, *, limit: float = LIMIT_SECONDS, client: Client | None = None) -> None:
    """Wait until nothing is left to do. `client` asks the server another way, for example around a proxy.

    Raises AssertionError after `limit` seconds, with what is not settled.
    """

    async def settled() -> str:
        for _ in range(2):
            for controller in manager.controllers:
                queue = controller.statistics().queue
                if queue.depth or queue.processing or queue.parked or queue.delayed:
                    return f"controller {controller.name} is at work: {queue}"
            for informer in manager.cache.informers():
                if difference := await cache_difference(informer, client or manager.client):
                    return difference
        return ""

    await eventually(settled, limit=limit)


async def cache_difference(informer: Informer, client: Client) -> str:
    """Where a cache differs from what the server lists now; empty if nowhere. Objects kept out by transforms count.

    An own write that the watch has not shown yet is a difference too.
    """
    if informer.store.ahead:
        return f"{informer.resource.plural}: {informer.store.ahead} own writes are not in the watch yet"
    scope = informer.scope
    listed = await client.list(
        MetadataOnly(informer.resource),
        scope.namespace,
        label_selector=scope.label_selector,
        field_selector=scope.field_selector,
    )
    wanted = {key_of(obj): resource_version_of(obj) for obj in listed.items}
    held = {key_of(obj): resource_version_of(obj) for obj in informer.store.list()}
    held |= {key: resource_version_of(document) for key, document in informer.store.undecodable.items()}
    for key in wanted.keys() | held.keys():
        if wanted.get(key) != held.get(key):
            return f"{informer.resource.plural} {key}: the server has {wanted.get(key)}, the cache {held.get(key)}"
    return ""


async def eventually(condition: Callable[[], Awaitable[str]] | Callable[[], object], *, limit: float = 10.0) -> None:
    """Wait until a plain function gives something true, or an async one an empty text.

    Raises AssertionError after `limit` seconds. For the state of a real server, which nothing announces.
    """
    last: object = None
    try:
        async with asyncio.timeout(limit):
            while True:
                answer = condition()
                if asyncio.iscoroutine(answer):
                    last = await answer
                    if not last:
                        return
                elif answer:
                    return
                await asyncio.sleep(PAUSE_SECONDS)
    except TimeoutError:
        raise AssertionError(f"not so after {limit} s: {last or condition}") from None
