# SPDX-License-Identifier: Apache-2.0
"""Waits until a manager on a real server has nothing left to do.

Settled means twice in a row: each cache holds exactly the objects that the server lists, at the same versions, every
controller that may work has begun, and every queue is empty, without delayed keys.
"""

from trainwright.api.objects import key_of, resource_version_of
from trainwright.controller.runtime.cache.informer import Informer
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.kinds import MetadataOnly
from trainwright.controller.runtime.manager.manager import Manager
from trainwright.controller.runtime.testing.waiting import eventually, is_empty

LIMIT_SECONDS = 30.0


async def settle_manager(manager: Manager, *, limit: float = LIMIT_SECONDS, client: Client | None = None) -> None:
    """Wait until nothing is left to do. `client` reads from the server, for example around a proxy.

    Raises GaveUp after `limit` seconds, with what is not settled.
    """

    async def settled() -> str:
        for _ in range(2):
            for controller in manager.controllers:
                if not controller.synced and (manager.leads or not controller.needs_leader):
                    return f"controller {controller.name} has not begun"
                queue = controller.statistics().queue
                if queue.depth or queue.processing or queue.parked or queue.delayed:
                    return f"controller {controller.name} is working: {queue}"
            for informer in manager.cache.informers():
                if difference := await cache_difference(informer, client or manager.client):
                    return difference
        return ""

    await eventually(settled, is_empty, seconds=limit, what="settled")


async def cache_difference(informer: Informer, client: Client) -> str:
    """The first difference between a cache and a list of the server; empty without one.

    An own write that the watch has not shown yet is a difference. Objects that a transform keeps out of a cache of
    metadata are none; in other caches they count as missing.
    """
    if informer.store.ahead:
        return f"{informer.resource.plural}: the watch has not shown {informer.store.ahead} own writes yet"
    scope = informer.scope
    listed = await client.list(
        MetadataOnly(informer.resource),
        scope.namespace,
        label_selector=scope.label_selector,
        field_selector=scope.field_selector,
    )
    judged = isinstance(informer.kind, MetadataOnly)
    wanted = {key_of(obj): resource_version_of(obj) for obj in listed.items if not judged or informer.keeps(obj)}
    held = {key_of(obj): resource_version_of(obj) for obj in informer.store.list()}
    held |= {key: resource_version_of(document) for key, document in informer.store.undecodable.items()}
    for key in wanted.keys() | held.keys():
        if wanted.get(key) != held.get(key):
            return f"{informer.resource.plural} {key}: the server has {wanted.get(key)}, the cache {held.get(key)}"
    return ""
