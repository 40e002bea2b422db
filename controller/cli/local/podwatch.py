# SPDX-License-Identifier: Apache-2.0
"""Sees every state that the pods of a job report, also of those that are gone a moment later."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec

from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import Document, uid_of
from trainwright.controller.runtime import Client, KubernetesError

_RETRY_SECONDS = 0.1


class PodWatch:
    """Watches the pods of a selector; `take` is called with each state of each pod."""

    def __init__(self, client: Client, namespace: str, selector: str, take: Callable[[Document], None]) -> None:
        self._client, self._namespace, self._selector, self._take = client, namespace, selector, take
        self.present: set[str] = set()
        """The uids of the pods that are there."""
        self.changed = asyncio.Event()
        """Set with each change; whoever waits for it clears it before."""

    async def run(self) -> None:
        """Watch until cancelled; after a broken watch, from a new list on."""
        while True:
            with suppress(KubernetesError):
                listed = await self._client.list(Pod.RESOURCE, self._namespace, label_selector=self._selector)
                self.present = {uid_of(pod) for pod in listed.items}
                for pod in listed.items:
                    self._take(pod)
                self.changed.set()
                await self._follow(listed.resource_version)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _follow(self, version: str) -> None:
        async with self._client.watch(
            Pod.RESOURCE, self._namespace, label_selector=self._selector, resource_version=version
        ) as batches:
            async for batch in batches:
                for frame in batch:
                    if frame.type == "ERROR":
                        return
                    if frame.type == "BOOKMARK":
                        continue
                    pod: Document = msgspec.json.decode(frame.object)
                    if frame.type == "DELETED":
                        self.present.discard(uid_of(pod))
                    else:
                        self.present.add(uid_of(pod))
                    self._take(pod)
                self.changed.set()
