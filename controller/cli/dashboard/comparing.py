# SPDX-License-Identifier: Apache-2.0
"""The jobs that a page compares: those that the watch holds, with their JobSets where the user may read them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import Document, Key
from trainwright.api.times import wall_clock
from trainwright.controller.cli.comparing.comparison import ComparedRun, JobComparison, Missing, compare
from trainwright.controller.cli.dashboard.watching import HeldJob
from trainwright.controller.cli.progress.reports import KeptReport
from trainwright.controller.runtime import Client, KubernetesError

READ_SECONDS = 5.0
"""All JobSets together; what the runtimes decided is left out without them."""
AGAIN_SECONDS = 60.0
"""A JobSet that could not be read is asked for again after so long a time."""
KEPT = 500
"""JobSets that are remembered: what a job became does not change."""


@dataclass(frozen=True, slots=True)
class _Read:
    at: float
    """Time of the event loop."""
    jobset: Document | None


class Comparing:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._read: dict[str, _Read] = {}
        """By uid of the job."""

    async def comparison(
        self, found: Sequence[tuple[Key, HeldJob, Sequence[KeptReport]]], missing: Mapping[Key, str]
    ) -> JobComparison:
        """The jobs beside each other, each with its reports. `missing`: those that are not there, and why."""
        jobsets = await self._jobsets([(key, held.uid) for key, held, _ in found])
        runs = [
            ComparedRun(job=msgspec.to_builtins(held.job), reports=seen, jobset=jobset)
            for (_, held, seen), jobset in zip(found, jobsets, strict=True)
        ]
        told = [Missing(namespace=key.namespace, name=key.name, message=why) for key, why in missing.items()]
        return compare(runs, wall_clock(), told)

    async def _jobsets(self, jobs: Sequence[tuple[Key, str]]) -> list[Document | None]:
        now = asyncio.get_running_loop().time()
        wanted = [
            (key, uid)
            for key, uid in jobs
            if (read := self._read.get(uid)) is None or (read.jobset is None and now - read.at > AGAIN_SECONDS)
        ]
        for (_, uid), jobset in zip(wanted, await self._ask([key for key, _ in wanted]), strict=True):
            self._read.pop(uid, None)
            self._read[uid] = _Read(now, jobset)
        known = [self._read[uid].jobset for _, uid in jobs]
        while len(self._read) > KEPT:
            del self._read[next(iter(self._read))]
        return known

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
