# SPDX-License-Identifier: Apache-2.0
"""Keeps the tokens of a pod until they are due: its volumes are looked at whenever something changes."""

from collections.abc import Callable, Mapping

from trainwright.api.objects import Document
from trainwright.controller.local.node.volumes.projections import ProjectionSources, Token


class KeptTokens:
    """The sources of one pod, with its tokens kept; a `ProjectionSources`."""

    def __init__(self, sources: ProjectionSources, clock: Callable[[], float]) -> None:
        """`clock` gives seconds that only grow, also while the machine sleeps: tokens expire meanwhile."""
        self._sources = sources
        self._clock = clock
        self._kept: dict[tuple[str, int], tuple[str, float]] = {}
        """Text and time to renew, by audience and lifetime."""

    async def config_map(self, namespace: str, name: str) -> Document | None:
        """One ConfigMap."""
        return await self._sources.config_map(namespace, name)

    async def secret(self, namespace: str, name: str) -> Document | None:
        """One Secret."""
        return await self._sources.secret(namespace, name)

    async def token(self, pod: Document, *, audience: str, seconds: int) -> Token:
        """The kept token, or a new one if it is due."""
        text, due = self._kept.get((audience, seconds), ("", 0.0))
        now = self._clock()
        if not text or now >= due:
            fresh = await self._sources.token(pod, audience=audience, seconds=seconds)
            text, due = fresh.text, now + fresh.renew_after
            self._kept[audience, seconds] = (text, due)
        return Token(text, due - now)

    async def claim_folder(self, namespace: str, claim: str) -> str:
        """The folder of a claim."""
        return await self._sources.claim_folder(namespace, claim)

    def allocatable(self) -> Mapping[str, str]:
        """What the node has to give to pods."""
        return self._sources.allocatable()
