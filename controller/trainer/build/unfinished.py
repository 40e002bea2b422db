# SPDX-License-Identifier: Apache-2.0
"""Starts a reconcile of every unfinished TrainJob when one object changes, spread over time.

A change of the CA certificates concerns all jobs. Reconciles of thousands of jobs at once would hold up other jobs and
send as many writes, so they follow each other.
"""

from typing import Any

from trainwright.api.conditions import is_true
from trainwright.api.objects import Key
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import CONDITION_COMPLETE, CONDITION_FAILED
from trainwright.controller.runtime import LOW_PRIORITY, Cache, Event, Informer, NotSynced, WorkQueue

SPREAD_SECONDS = 50.0
"""Time from the first reconcile to the last one: all must be done within a minute."""
STEP_SECONDS = 0.05
"""Longest time between two reconciles: few jobs need not wait for most of a minute."""


class UnfinishedJobs:
    """A source of the controller: the keys of all unfinished jobs after each change of the informer's objects."""

    def __init__(self, informer: Informer, cache: Cache) -> None:
        self._informer = informer
        self._cache = cache
        self._queue: WorkQueue[Key] | None = None
        informer.add_handler(self._changed)

    @property
    def name(self) -> str:
        """Plural and scope."""
        return f"{self._informer.resource.plural} ({self._informer.scope})"

    async def start(self, queue: WorkQueue[Key]) -> None:
        """Wait for the first list. It adds no keys: at the start every job is due anyway."""
        await self._informer.wait_synced()
        self._queue = queue

    def _changed(self, event: Event[Any]) -> None:
        if self._queue is None:
            return
        try:
            jobs = [job for job in self._cache.list(TrainJob) if not _is_finished(job)]
        except NotSynced:
            return
        reason = f"{self._informer.resource.kind} {event.type.lower()}"
        step = min(STEP_SECONDS, SPREAD_SECONDS / max(1, len(jobs)))
        for number, key in enumerate(sorted(Key(job.namespace, job.name) for job in jobs)):
            self._queue.add(key, priority=LOW_PRIORITY, after=number * step, reason=reason)


def _is_finished(job: TrainJob) -> bool:
    conditions = job.status_or_empty.conditions
    return is_true(conditions, CONDITION_COMPLETE) or is_true(conditions, CONDITION_FAILED)
