# SPDX-License-Identifier: Apache-2.0
"""What to do for a Job, a pure function of the Job, its pods, the failures so far and the time.

The plan is carried out in this order: pods are deleted and created; then the plan is made again, because the counts of
the status depend on it; then the status is written; then finalizers are removed; then the plan is made again until
there is nothing left to do.

Source: the Job controller of Kubernetes 1.36, with the default feature gates.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from trainwright.api.conditions import find, is_true
from trainwright.api.objects import (
    Document,
    conditions_of,
    deletion_timestamp_of,
    spec_of,
    status_of,
    uid_of,
)
from trainwright.api.times import format_time, parse
from trainwright.controller.local.controllers.base import EventReport, Plan, PlannedWrite, released
from trainwright.controller.local.controllers.job_pods import (
    NO_FAILURES,
    TRACKING,
    Failures,
    Pods,
    absent_indexes,
    count,
    index_of,
    is_indexed,
    is_tracked,
    judge,
    met,
    pod_of,
    replaces_failed_only,
    settle,
)
from trainwright.controller.local.controllers.objects import (
    POD,
    in_order_of_removal,
    is_ready,
    phase_of,
    restarts_of,
)

COMPLETE, FAILED = "Complete", "Failed"
SUCCESS_CRITERIA_MET, FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"
SUSPENDED = "Suspended"
MOST_AT_ONCE = 500
"""Pods that are created or deleted before the status is written again."""
_CREATED = EventReport("Normal", "SuccessfulCreate", "Created pod: {name}")
_NOT_CREATED = EventReport("Warning", "FailedCreate", "Error creating: {message}")
_DELETED = EventReport("Normal", "SuccessfulDelete", "Deleted pod: {name}")
_NOT_DELETED = EventReport("Warning", "FailedDelete", "Error deleting: {message}")


def is_finished(job: Document) -> bool:
    return is_true(conditions_of(job), COMPLETE) or is_true(conditions_of(job), FAILED)


@dataclass(slots=True, kw_only=True)
class JobPlan(Plan):
    end: Document | None = None
    """The condition of why the Job ends, and the pods are deleted. To remember until the status has it: what caused it,
    such as the restarts of a pod, may be gone with the pods."""
    failures: Failures = NO_FAILURES
    """To remember once the status is written."""
    releases: list[PlannedWrite] = field(default_factory=list)
    """Once the status is written."""


def plan(
    job: Document,
    pods: Pods,
    failures: Failures,
    now: datetime,
    *,
    create: bool = True,
    end: Document | None = None,
) -> JobPlan:
    """Plan the next step. The Job must be ours and not finished.

    `create`: whether pods may be created. `end`: what an earlier plan has decided, see `JobPlan.end`.
    """
    return _Planner(job, pods, failures, now, create, end).plan()


class _Planner:
    def __init__(
        self, job: Document, pods: Pods, failures: Failures, now: datetime, create: bool, decided: Document | None
    ) -> None:
        self.may_create, self.decided = create, decided
        self.job, self.pods, self.now = job, pods, now
        self.spec = spec_of(job)
        self.is_suspended = bool(self.spec.get("suspend"))
        self.is_deleted = deletion_timestamp_of(job) is not None
        self.status: Document = deepcopy(status_of(job))
        self.out = JobPlan(failures=failures.after(pods.new_succeeded, pods.new_failed))
        if not self.status.get("startTime") and not self.is_suspended:
            self.status["startTime"] = format_time(now)
        self.indexed = is_indexed(job)
        self.succeeded_indexes = pods.succeeded_indexes() if self.indexed else frozenset[int]()

    def plan(self) -> JobPlan:
        end = self._end()
        if end is not None:
            self._delete(self.pods.active)
            self.out.end = end
        elif not self.is_deleted:
            self._manage()
        if self.out.writes:
            return self.out
        if end is None and self._is_complete():
            end = self._condition(
                SUCCESS_CRITERIA_MET, "CompletionsReached", "Reached expected number of succeeded pods"
            )
        elif end is None and not self.is_deleted:
            self._note_suspension()
        if end is not None and not self.status.get("startTime"):
            # It is suspended, and its last pods have ended it. The API server takes no finished Job without this time;
            # Kubernetes 1.32 and later then try for ever (https://github.com/kubernetes/kubernetes/issues/132144).
            self.status["startTime"] = format_time(self.now)
        self._count(end)
        self.out.status = self.status
        return self.out

    def _condition(self, type_: str, reason: str, message: str, status: str = "True") -> Document:
        when = format_time(self.now)
        times = {"lastProbeTime": when, "lastTransitionTime": when}
        return {"type": type_, "status": status, **times, "reason": reason, "message": message}

    def _number(self, name: str, default: int = 1) -> int:
        value = self.spec.get(name)
        return default if value is None else int(value)

    # ------------------------------------------------------------------ the end

    def _end(self) -> Document | None:
        """Why the Job ends: the condition that is there already, the one that was decided before, or a new one."""
        for type_ in (SUCCESS_CRITERIA_MET, FAILURE_TARGET):
            if is_true(conditions_of(self.job), type_):
                return find(conditions_of(self.job), type_)
        if self.decided:
            return self.decided
        if (failure := self._failure()) is not None:
            return self._condition(FAILURE_TARGET, *failure)
        succeeded = self.succeeded_indexes
        message = met(self.spec.get("successPolicy"), self.pods.completions, succeeded) if self.indexed else None
        return self._condition(SUCCESS_CRITERIA_MET, "SuccessPolicy", message) if message else None

    def _failure(self) -> tuple[str, str] | None:
        policy = self.spec.get("podFailurePolicy")
        for pod in self.pods.all if policy else ():
            message = judge(policy, pod).message if self.pods.is_failed(pod) else None
            if message is not None:
                return "PodFailurePolicy", message
        if self._failed() > self._number("backoffLimit", 6) or self._restarted_too_often():
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        if self._is_overdue():
            return "DeadlineExceeded", "Job was active longer than specified deadline"
        return None

    def _succeeded(self) -> int:
        if self.indexed:
            return len(self.succeeded_indexes)
        listed = self.pods.uncounted.get("succeeded") or ()
        return int(status_of(self.job).get("succeeded") or 0) + len(self.pods.new_succeeded) + len(listed)

    def _failed(self) -> int:
        new = sum(self.pods.failure_counts(pod) for pod in self.pods.new_failed)
        return int(status_of(self.job).get("failed") or 0) + new + len(self.pods.uncounted.get("failed") or ())

    def _restarted_too_often(self) -> bool:
        """With restartPolicy OnFailure, containers restart inside their pod and count as well."""
        if spec_of(self.spec.get("template") or {}).get("restartPolicy") != "OnFailure":
            return False
        restarts = sum(restarts_of(pod) for pod in self.pods.all if phase_of(pod) in ("Running", "Pending"))
        return restarts >= max(1, self._number("backoffLimit", 6))

    def _is_overdue(self) -> bool:
        seconds, started = self.spec.get("activeDeadlineSeconds"), self.status.get("startTime")
        if seconds is None or not started or self.is_suspended:
            return False
        left = (parse(started) + timedelta(seconds=int(seconds)) - self.now).total_seconds()
        if left > 0:
            self._look_again(left)
        return left <= 0

    def _is_complete(self) -> bool:
        return self._succeeded() >= self._number("completions") and not self.pods.active

    # ------------------------------------------------------------------ pods

    def _manage(self) -> None:
        active = self.pods.active
        if self.is_suspended:
            self._delete(active, uncounted=True)
            return
        wanted = self._wanted()
        surplus = self._surplus(max(0, len(active) - wanted))[:MOST_AT_ONCE]
        if surplus:
            self._delete(surplus, uncounted=True)
            return
        held = len(self.pods.terminating) if replaces_failed_only(self.job) else 0
        missing = min(wanted - held - len(active), MOST_AT_ONCE)
        if missing <= 0 or not self.may_create:
            return
        delay = self.out.failures.seconds_left(self.now)
        if delay > 0:
            self._look_again(delay)
            return
        for index in self._pending_indexes(missing) if self.indexed else [None] * missing:
            pod = pod_of(self.job, index)
            self.out.writes.append(PlannedWrite(verb="create", kind=POD, obj=pod, done=_CREATED, refused=_NOT_CREATED))

    def _delete(self, pods: Sequence[Document], *, uncounted: bool = False) -> None:
        """Delete pods. `uncounted`: release them before, so that the deletion is not counted as a failure."""
        if uncounted:
            self.out.writes += [released(POD, pod, TRACKING) for pod in pods if is_tracked(pod)]
        options = {"propagation": "Background"}
        self.out.writes += [
            PlannedWrite(verb="delete", kind=POD, obj=pod, options=options, done=_DELETED, refused=_NOT_DELETED)
            for pod in pods
        ]

    def _wanted(self) -> int:
        if self.spec.get("completions") is not None:
            return max(0, min(self._number("completions") - self._succeeded(), self._number("parallelism")))
        # A work queue: after the first success the pods that run go on, and none is started.
        return len(self.pods.active) if self._succeeded() else self._number("parallelism")

    def _surplus(self, least: int) -> list[Document]:
        """Pods to remove: those without an index of their own, then as many as needed for `least`."""
        left = in_order_of_removal(self.pods.active)
        surplus: list[Document] = []
        if self.indexed:
            # Of several pods with one index, the one that has got furthest stays.
            keeper = {place: uid_of(pod) for pod in left if (place := self.pods.place_of(pod)) is not None}
            kept = set(keeper.values())
            surplus = [pod for pod in left if uid_of(pod) not in kept]
            left = [pod for pod in left if uid_of(pod) in kept]
        return surplus + left[: max(0, least - len(surplus))]

    def _pending_indexes(self, most: int) -> list[int]:
        running = [*self.pods.active, *(self.pods.terminating if replaces_failed_only(self.job) else ())]
        taken = {index for pod in running if (index := index_of(pod)) is not None}
        return absent_indexes(self.succeeded_indexes | taken, most, self.pods.completions)

    def _look_again(self, seconds: float) -> None:
        self.out.look_again = seconds if self.out.look_again is None else min(seconds, self.out.look_again)

    # ------------------------------------------------------------------ the status

    def _set(self, wanted: Document) -> bool:
        """Put a condition into the status, unless it would only say False; returns whether that changes it."""
        conditions: list[Document] = self.status.get("conditions") or []
        current = find(conditions, wanted["type"])
        if current is None and wanted["status"] == "False":
            return False
        if current is not None and all(current.get(name) == wanted[name] for name in ("status", "reason", "message")):
            return False
        replaced = [wanted if one is current else one for one in conditions]
        self.status["conditions"] = replaced if current is not None else [*conditions, wanted]
        return True

    def _note_suspension(self) -> None:
        reason, state = ("Suspended", "True") if self.is_suspended else ("Resumed", "False")
        if not self._set(self._condition(SUSPENDED, f"Job{reason}", f"Job {reason.lower()}", state)):
            return
        self.status.pop("startTime", None)
        if not self.is_suspended:
            # The deadline counts from here.
            self.status["startTime"] = format_time(self.now)
        self.out.reports.append(EventReport("Normal", reason, f"Job {reason.lower()}"))

    def _count(self, end: Document | None) -> None:
        tracked = {uid_of(pod) for pod in self.pods.all if is_tracked(pod)}
        settle(self.status, tracked)
        fails = end is not None and end["type"] == FAILURE_TARGET
        counted = count(self.status, self.pods, self._countable(end), fails)
        self.out.releases = [released(POD, pod, TRACKING) for pod in counted]
        self.status["active"] = len(self.pods.active)
        self.status["ready"] = sum(is_ready(pod) for pod in self.pods.active)
        self.status["terminating"] = len(self.pods.terminating)
        if end is not None:
            self._finish(end, fails)
        for name in ("active", "succeeded", "failed", "completedIndexes"):
            if not self.status.get(name):
                self.status.pop(name, None)

    def _countable(self, end: Document | None) -> list[Document]:
        """The tracked pods that may be counted now."""
        over = end is not None or self.is_deleted
        found = [
            pod
            for pod in self.pods.all
            if is_tracked(pod) and (over or phase_of(pod) == "Succeeded" or self.pods.is_failed(pod))
        ]
        # In the order of their indexes, so that `completedIndexes` grows in order.
        return sorted(found, key=lambda pod: index_of(pod) or 0) if self.indexed else found

    def _finish(self, end: Document, fails: bool) -> None:
        """Two steps: the reason of the end first, and the end itself when no pod is left to count or to wait for."""
        if find(conditions_of(self.job), end["type"]) is None:
            self._set(end)
            return
        waiting = self.status["uncountedTerminatedPods"]
        if self.out.releases or waiting.get("succeeded") or waiting.get("failed") or self.pods.terminating:
            return
        final = self._condition(FAILED if fails else COMPLETE, end["reason"], end["message"])
        self._set(final)
        if fails:
            self.out.reports.append(EventReport("Warning", end["reason"], end["message"]))
            return
        self.status["completionTime"] = final["lastTransitionTime"]
        succeeded = int(self.status.get("succeeded") or 0)
        if succeeded > self._number("completions", succeeded):
            message = "Too many succeeded pods running after completion count reached"
            self.out.reports.append(EventReport("Warning", "TooManySucceededPods", message))
        self.out.reports.append(EventReport("Normal", "Completed", "Job completed"))
