# SPDX-License-Identifier: Apache-2.0
"""Reconciles JobSets: makes a plan and carries it out, until the plan is empty."""

from trainwright.api.objects import (
    Document,
    Key,
    deletion_timestamp_of,
    name_of,
    namespace_of,
    resource_version_of,
    spec_of,
    status_of,
    uid_of,
)
from trainwright.api.rights import WATCH, Rule
from trainwright.api.times import LOOK_SECONDS, Now, wall_clock
from trainwright.controller.local.controllers.base import EventReport, each, record, write_status
from trainwright.controller.local.controllers.jobset_objects import MANAGED_BY_US
from trainwright.controller.local.controllers.jobset_plan import JobChange, Plan, plan
from trainwright.controller.local.controllers.objects import CLAIM, JOB, JOBSET, SERVICE
from trainwright.controller.runtime import (
    AlreadyExists,
    ApiError,
    Backoff,
    EventRecorder,
    Forbidden,
    Manager,
    NotFound,
    Result,
    RetryAfter,
    is_namespace_ending,
)

NAME = "jobset"
REPORTER = "jobset"
"""Reporting controller of the events."""
ACTION = "Reconciling"
_PASSES = 20
"""Plans that are carried out in one reconcile. Three are usual; more than this would be a defect."""


class JobSetController:
    """Reconciles JobSets. The constructor declares its watches on the manager."""

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

    def __init__(self, manager: Manager, recorder: EventRecorder, *, now: Now = wall_clock) -> None:
        """Declare everything; `manager.run` starts it.

        Args:
            manager: of the process.
            recorder: for events; its owner runs it.
            now: for times to live and transition times.
        """
        self._client, self._cache = manager.client, manager.cache
        self._recorder, self._now = recorder, now
        manager.controller(NAME).for_(JOBSET).owns(JOB).owns(SERVICE).owns(CLAIM).reconcile(self.reconcile)

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
            jobset = self._cache.get(JOBSET, key.name, key.namespace)
            if jobset is None or deletion_timestamp_of(jobset) is not None or not _is_ours(jobset):
                return None
            step = plan(jobset, self._cache.controlled_by(JOB, uid_of(jobset)), self._now())
            if not await self._carry_out(jobset, step):
                return None if step.look_again is None else RetryAfter(min(step.look_again, LOOK_SECONDS))
        return Backoff(f"no end after {_PASSES} passes")

    async def _carry_out(self, jobset: Document, step: Plan) -> bool:
        """Carry out one plan. Returns whether the next one may be another."""
        acted = bool(step.delete or step.create or step.change)
        _raise(await each(self._delete, step.delete))
        if step.service is not None:
            await self._ensure_service(jobset, step.service)
        for claim in step.claims:
            await self._ensure_claim(jobset, claim)
        await self._create(jobset, step.create)
        _raise(await each(self._change, step.change))
        changed = step.status != status_of(jobset)
        if changed:
            written = await write_status(self._client, JOBSET, jobset, step.status)
            for report in step.reports:
                self._report(written, report)
        if step.expired:
            try:
                await self._client.delete(JOBSET, name_of(jobset), namespace_of(jobset), propagation="Foreground")
            except NotFound:
                return False
        return acted or changed

    async def _delete(self, job: Document) -> None:
        try:
            await self._client.delete(JOB, name_of(job), namespace_of(job), uid=uid_of(job), propagation="Foreground")
        except NotFound:
            return

    async def _ensure_service(self, jobset: Document, service: Document) -> None:
        if self._cache.get(SERVICE, name_of(service), namespace_of(service)) is not None:
            return
        try:
            await self._client.create(service, kind=SERVICE)
        except ApiError as error:
            self._report_failure(jobset, "HeadlessServiceCreationFailed", error)
            raise

    async def _ensure_claim(self, jobset: Document, claim: Document) -> None:
        if self._cache.get(CLAIM, name_of(claim), namespace_of(claim)) is not None:
            return
        try:
            await self._client.create(claim, kind=CLAIM)
        except AlreadyExists:
            return
        except ApiError as error:
            self._report_failure(jobset, "PVCCreationFailed", error)
            raise

    async def _create(self, jobset: Document, jobs: list[Document]) -> None:
        failures: list[str] = []

        async def create(job: Document) -> None:
            try:
                await self._client.create(job, kind=JOB)
            except ApiError as error:
                if is_namespace_ending(error):
                    raise
                failures.append(f'job "{name_of(job)}" creation failed with error: {error.message}')
                raise

        errors = await each(create, jobs)
        if failures:
            self._report(jobset, EventReport("Warning", "JobCreationFailed", "\n".join(sorted(failures))))
        _raise(errors)

    async def _change(self, change: JobChange) -> None:
        name, namespace = name_of(change.job), namespace_of(change.job)
        patch = change.patch
        if change.forget_start:
            lock = {"uid": uid_of(change.job), "resourceVersion": resource_version_of(change.job)}
            forget = {"metadata": lock, "status": {"startTime": None}}
            written = await self._client.patch(JOB, name, namespace, forget, subresource="status")
            if "metadata" in patch:
                patch = {**patch, "metadata": {"resourceVersion": resource_version_of(written)}}
        await self._client.patch(JOB, name, namespace, patch)

    def _report_failure(self, jobset: Document, reason: str, error: ApiError) -> None:
        if not is_namespace_ending(error):
            self._report(jobset, EventReport("Warning", reason, error.message))

    def _report(self, jobset: Document, report: EventReport) -> None:
        record(self._recorder, jobset, [report], action=ACTION)


def _is_ours(jobset: Document) -> bool:
    return (spec_of(jobset).get("managedBy") or MANAGED_BY_US) == MANAGED_BY_US


def _raise(errors: list[Exception]) -> None:
    """Raise the first error; the others are of the same kind, and all items are tried again."""
    if errors:
        raise errors[0]
