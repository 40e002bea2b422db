# SPDX-License-Identifier: Apache-2.0
"""Deletes finished Jobs after `spec.ttlSecondsAfterFinished`.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/
"""

from datetime import datetime, timedelta

from trainwright.api.objects import Document, Key, deletion_timestamp_of, resource_version_of, uid_of
from trainwright.api.rights import WATCH, Rule
from trainwright.api.times import LOOK_SECONDS, Now, parse, wall_clock
from trainwright.controller.local.workloads.documents import conditions_of, spec_of
from trainwright.controller.local.workloads.kinds import JOB
from trainwright.controller.runtime import Manager, NotFound, Result, RetryAfter

NAME = "finished-jobs"


def seconds_left(job: Document, now: datetime) -> float | None:
    """Seconds until the Job has to go, at most 0 if it is due; None if it stays."""
    seconds = spec_of(job).get("ttlSecondsAfterFinished")
    ends = [
        condition
        for condition in conditions_of(job)
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"
    ]
    if seconds is None or not ends or deletion_timestamp_of(job) is not None:
        return None
    return (parse(ends[0]["lastTransitionTime"]) + timedelta(seconds=int(seconds)) - now).total_seconds()


class FinishedJobs:
    """Reconciles Jobs. The constructor declares its watches on the manager."""

    RULES = (Rule.on(JOB, *WATCH, "delete"),)

    def __init__(self, manager: Manager, *, now: Now = wall_clock) -> None:
        """Declare everything; `manager.run` starts it. `now` tells when a Job is due."""
        self._client, self._cache, self._now = manager.client, manager.cache, now
        manager.controller(NAME).for_(JOB).reconcile(self.reconcile)

    async def reconcile(self, key: Key) -> Result:
        """Delete one Job if it is due."""
        job = self._cache.get(JOB, key.name, key.namespace)
        left = seconds_left(job, self._now()) if job is not None else None
        if job is None or left is None:
            return None
        if left > 0:
            return RetryAfter(min(left, LOOK_SECONDS))
        try:
            await self._client.delete(
                JOB,
                key.name,
                key.namespace,
                uid=uid_of(job),
                # The time to live may just have been raised.
                resource_version=resource_version_of(job),
                propagation="Foreground",
            )
        except NotFound:
            return None
        return None
