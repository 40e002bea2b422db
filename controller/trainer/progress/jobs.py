# SPDX-License-Identifier: Apache-2.0
"""Finds the TrainJob that a report names: in the cache, or with one request if the cache does not hold it yet."""

import asyncio
from collections.abc import Callable

from trainwright.api.objects import Key
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Cache, Client, NotCached, NotFound, NotSynced, TokenMemory
from trainwright.controller.trainer.progress.refusals import UnknownJob

REMEMBERED_SECONDS = 5.0
"""How long the answer of the API server is used, also that there is no such TrainJob."""
REMEMBERED = 5_000


class Jobs:
    """TrainJobs by name."""

    def __init__(self, client: Client, cache: Cache, *, time: Callable[[], float] | None = None) -> None:
        """Create it inside a running event loop.

        Args:
            client: of the API server.
            cache: holds the TrainJobs; its namespace is the only one that is looked at, if it has one.
            time: a clock in seconds that never goes back; None: that of the event loop.
        """
        self._client = client
        self._cache = cache
        clock = time or asyncio.get_running_loop().time
        self._answers: TokenMemory[Key, tuple[TrainJob | None]] = TokenMemory(REMEMBERED, time=clock)

    async def find(self, key: Key) -> TrainJob:
        """The TrainJob.

        Raises:
            UnknownJob: it does not exist, or this manager does not manage its namespace.
            KubernetesError: the API server did not answer.
        """
        try:
            job = self._cache.get(TrainJob, key.name, key.namespace)
        except NotCached:
            raise UnknownJob from None
        except NotSynced:
            job = None
        if job is not None:
            return job
        return await self._ask(key)

    async def _ask(self, key: Key) -> TrainJob:
        known = self._answers.get(key)
        if known is None:
            try:
                known = (await self._client.get(TrainJob, key.name, key.namespace),)
            except NotFound:
                known = (None,)
            self._answers.put(key, known, REMEMBERED_SECONDS)
        if known[0] is None:
            raise UnknownJob
        return known[0]
