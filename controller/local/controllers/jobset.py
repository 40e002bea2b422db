# SPDX-License-Identifier: Apache-2.0
"""Reconciles JobSets: makes a plan and carries it out, until the plan is empty."""

from trainwright.api.objects import Document, Key, deletion_timestamp_of, name_of, namespace_of, spec_of, uid_of
from trainwright.api.rights import WATCH, Rule
from trainwright.api.times import LOOK_SECONDS
from trainwright.controller.local.controllers.base import ControllerBase, PlannedWrite
from trainwright.controller.local.controllers.jobset_objects import MANAGED_BY_US
from trainwright.controller.local.controllers.jobset_plan import plan
from trainwright.controller.local.controllers.objects import CLAIM, JOB, JOBSET, SERVICE
from trainwright.controller.runtime import (
    Backoff,
    EventRecorder,
    Forbidden,
    Manager,
    NotFound,
    Result,
    RetryAfter,
    is_namespace_ending,
)

_PASSES = 20
"""Plans that are carried out in one reconcile. Three are usual; more than this would be a defect."""


class JobSetController(ControllerBase):
    """Reconciles JobSets."""

    RULES = (
        Rule.on(JOBSET, *WATCH, "delete"),
        Rule.on(JOBSET, "patch", subresource="status"),
        Rule.on(JOBSET, "update", subresource="finalizers"),
        Rule.on(JOB, *WATCH, "create", "delete", "patch"),
        Rule.on(JOB, "patch", subresource="status"),
        Rule.on(SERVICE, *WATCH, "create"),
        Rule.on(CLAIM, *WATCH, "create"),
        *EventRecorder.RULES,
    )
    REPORTER = "jobset"
    ACTION = "Reconciling"
    JOINS_REFUSALS = True

    def declare(self, manager: Manager) -> None:
        """Declare what it watches."""
        manager.controller("jobset").for_(JOBSET).owns(JOB).owns(SERVICE).owns(CLAIM).reconcile(self.reconcile)

    async def reconcile(self, key: Key) -> Result:
        """Reconcile one JobSet."""
        try:
            return await self._reconcile(key)
        except NotFound:
            return None  # the JobSet or a Job was deleted meanwhile; the event of the deletion brings what follows
        except Forbidden as error:
            if is_namespace_ending(error):
                return None
            raise

    async def _reconcile(self, key: Key) -> Result:
        for _ in range(_PASSES):
            jobset = self.cache.get(JOBSET, key.name, key.namespace)
            if jobset is None or deletion_timestamp_of(jobset) is not None or not _is_ours(jobset):
                return None
            step = plan(jobset, self.cache.controlled_by(JOB, uid_of(jobset)), self.now())
            step.writes = [write for write in step.writes if not self._exists(write)]
            if not await self.carry_out(step, JOBSET, jobset):
                return None if step.look_again is None else RetryAfter(min(step.look_again, LOOK_SECONDS))
        return Backoff(f"no end after {_PASSES} passes")

    def _exists(self, write: PlannedWrite) -> bool:
        """Whether a Service or a claim is there already."""
        obj, shared = write.obj, write.verb == "create" and write.kind in (SERVICE, CLAIM)
        return shared and self.cache.get(write.kind, name_of(obj), namespace_of(obj)) is not None


def _is_ours(jobset: Document) -> bool:
    return (spec_of(jobset).get("managedBy") or MANAGED_BY_US) == MANAGED_BY_US
