# SPDX-License-Identifier: Apache-2.0
"""Deletes what is over: Jobs that have outlived their time to live, and the oldest of many finished pods.

Pods of Jobs usually go with their Job. Others would stay for ever.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/
"""

from collections.abc import Iterable
from datetime import datetime

from trainwright.api.objects import (
    Document,
    Key,
    created_of,
    deletion_timestamp_of,
    name_of,
    resource_version_of,
    status_of,
)
from trainwright.controller.local.controllers.base import (
    ControllerBase,
    Plan,
    PlannedWrite,
    PlanningController,
    seconds_to_live,
)
from trainwright.controller.local.controllers.objects import JOB, POD, is_terminal
from trainwright.controller.runtime import Event, Manager, Result

_ALL = Key("", "finished-pods")


def plan_for_job(job: Document, now: datetime) -> Plan:
    """Delete a Job when its time to live is over."""
    left = seconds_to_live(job, now, "Complete", "Failed")
    if left is None or deletion_timestamp_of(job) is not None:
        return Plan()
    if left > 0:
        return Plan(look_again=left)
    # With its version, because the time to live may just have been raised.
    options = {"propagation": "Foreground", "resource_version": resource_version_of(job)}
    return Plan(writes=[PlannedWrite(verb="delete", kind=JOB, obj=job, options=options)])


def plan_for_pods(pods: Iterable[Document], most: int) -> Plan:
    """Delete finished pods beyond `most`: evicted ones first, then the oldest."""
    finished = [pod for pod in pods if is_terminal(pod) and deletion_timestamp_of(pod) is None]
    surplus = max(0, len(finished) - most)
    finished.sort(key=lambda pod: (status_of(pod).get("reason") != "Evicted", created_of(pod), name_of(pod)))
    options = {"grace_period": 0}
    return Plan(writes=[PlannedWrite(verb="delete", kind=POD, obj=pod, options=options) for pod in finished[:surplus]])


class FinishedJobs(PlanningController):
    """Reconciles Jobs."""

    NAME, KIND = "finished-jobs", JOB

    def plan(self, obj: Document) -> Plan:
        """See `plan_for_job`."""
        return plan_for_job(obj, self.now())


class FinishedPods(ControllerBase):
    """Looks at all pods together, under one key."""

    def declare(self, manager: Manager) -> None:
        """Declare what it watches."""
        builder = manager.controller("finished-pods").watches(POD, lambda _: (_ALL,), predicates=[_ends])
        builder.reconcile(self.reconcile, workers=1)

    async def reconcile(self, key: Key) -> Result:  # noqa: ARG002 - there is only one
        """Delete what is too much."""
        await self.make(plan_for_pods(self.cache.list(POD), self.settings.finished_pods).writes)
        return None


def _ends(event: Event[Document]) -> bool:
    """Whether a pod has just ended."""
    return event.new is not None and is_terminal(event.new) and (event.old is None or not is_terminal(event.old))
