# SPDX-License-Identifier: Apache-2.0
"""The jobs that a page compares: those that the watch holds, with their JobSets where the user may read them."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import Document, Key
from trainwright.controller.cli.comparing.comparison import Comparison, Missing, Run, compare
from trainwright.controller.cli.dashboard.watching import Held, Watched
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.errors import KubernetesError

READ_SECONDS = 5.0
"""All JobSets together; what the runtimes decided is left out without them."""
AGAIN_SECONDS = 60.0
"""A JobSet that could not be read is asked for again after so long a time."""
KEPT = 500
"""JobSets that are remembered: what a job became does not change."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A JobSet that was asked for."""

    at: float
    """Time of the event loop."""
    jobset: Document | None


class Comparing:
    """Compares jobs for pages."""

    def __init__(self, watched: Watched, client: Client) -> None:
        self._watched, self._client = watched, client
        self._read: dict[str, _Read] = {}
        """By uid of the job."""

    async def comparison(self, keys: Iterable[Key], refused: Mapping[Key, str]) -> Comparison:
        """The jobs beside each other. `refused`: those that this dashboard does not show, and why."""
        wanted = list(dict.fromkeys(keys))
        missing = dict(refused)
        found: list[tuple[Key, Held]] = []
        for key in wanted:
            held = self._watched.held(key)
            if held is not None and key not in refused:
                found.append((key, held))
            else:
                missing.setdefault(key, f"there is no TrainJob {key.name} in namespace {key.namespace}")
        jobsets = await self._jobsets(found)
        runs = [
            Run(job=msgspec.to_builtins(held.job), reports=held.reports(), jobset=jobset)
            for (_, held), jobset in zip(found, jobsets, strict=True)
        ]
        told = [Missing(namespace=key.namespace, name=key.name, message=why) for key, why in missing.items()]
        return compare(runs, self._watched.now(), told)

    async def _jobsets(self, found: Sequence[tuple[Key, Held]]) -> list[Document | None]:
        now = asyncio.get_running_loop().time()
        wanted = [
            (key, held.uid)
            for key, held in found
            if (read := self._read.get(held.uid)) is None or (read.jobset is None and now - read.at > AGAIN_SECONDS)
        ]
        for (_, uid), jobset in zip(wanted, await self._ask([key for key, _ in wanted]), strict=True):
            self._read.pop(uid, None)
            self._read[uid] = _Read(now, jobset)
        while len(self._read) > KEPT:
            del self._read[next(iter(self._read))]
        known = (self._read.get(held.uid) for _, held in found)
        return [read.jobset if read is not None else None for read in known]

    async def _ask(self, keys: Sequence[Key]) -> list[Document | None]:
        try:
            async with asyncio.timeout(READ_SECONDS):
                return await asyncio.gather(*map(self._jobset, keys))
        except TimeoutError:
            return [None] * len(keys)

    async def _jobset(self, key: Key) -> Document | None:
        try:
            return await self._client.get(JobSet.RESOURCE, key.name, key.namespace)
        except KubernetesError:
            return None  # the job was not built yet, its JobSet is gone, or the user may not read it
