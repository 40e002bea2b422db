# SPDX-License-Identifier: Apache-2.0
"""Deletes what is over: Jobs that have outlived their time to live, and the oldest of many finished pods.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from trainwright.api.objects import (
    Document,
    Key,
    conditions_of,
    created_of,
    deletion_timestamp_of,
    name_of,
    namespace_of,
    resource_version_of,
    spec_of,
    status_of,
    uid_of,
)
from trainwright.api.rights import WATCH, Rule
from trainwright.api.times import LOOK_SECONDS, Now, parse, wall_clock
from trainwright.controller.local.controllers.base import each
from trainwright.controller.local.controllers.objects import JOB, POD, is_terminal
from trainwright.controller.runtime import Event, Manager, NotFound, Result, RetryAfter


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
        manager.controller("finished-jobs").for_(JOB).reconcile(self.reconcile)

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


MOST_FINISHED_PODS = 500
"""Finished pods that are kept."""
_ALL = Key("", "finished-pods")


def too_many(pods: Iterable[Document], most: int) -> Sequence[Document]:
    """The finished pods to delete: evicted ones first, then the oldest."""
    finished = [pod for pod in pods if is_terminal(pod) and deletion_timestamp_of(pod) is None]
    surplus = len(finished) - most
    return sorted(finished, key=_removal_order)[:surplus] if surplus > 0 else ()


def _removal_order(pod: Document) -> tuple[bool, str, str]:
    return status_of(pod).get("reason") != "Evicted", created_of(pod), name_of(pod)


class FinishedPods:
    """Looks at all pods together, under one key. The constructor declares its watches on the manager."""

    RULES = (Rule.on(POD, *WATCH, "delete"),)

    def __init__(self, manager: Manager, *, most: int = MOST_FINISHED_PODS) -> None:
        """Declare everything; `manager.run` starts it. `most`: finished pods that are kept."""
        self._client, self._cache, self._most = manager.client, manager.cache, most
        manager.controller("finished-pods").watches(POD, lambda _: (_ALL,), predicates=[_ends]).reconcile(
            self.reconcile, workers=1
        )

    async def reconcile(self, key: Key) -> Result:  # noqa: ARG002 - there is only one
        """Delete what is too much."""
        errors = await each(self._delete, too_many(self._cache.list(POD), self._most))
        if errors:
            raise errors[0]
        return None

    async def _delete(self, pod: Document) -> None:
        try:
            await self._client.delete(POD, name_of(pod), namespace_of(pod), uid=uid_of(pod), grace_period=0)
        except NotFound:
            return


def _ends(event: Event[Document]) -> bool:
    """Whether a pod has just ended."""
    return event.new is not None and is_terminal(event.new) and (event.old is None or not is_terminal(event.old))
