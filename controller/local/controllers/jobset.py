# SPDX-License-Identifier: Apache-2.0
"""What to do for a JobSet, a pure function of the JobSet, its Jobs and the time; and the controller that does it.

Source: JobSet 0.12.0 with its default feature gates. Actions of failure policies that need an alpha feature gate are
refused by its webhook, and so by ours.
"""

import re
from collections.abc import Iterable, Sequence
from copy import deepcopy
from datetime import datetime

from trainwright.api.base import Resource
from trainwright.api.conditions import find, find_true, is_true, set_condition
from trainwright.api.objects import (
    Document,
    conditions_of,
    deletion_timestamp_of,
    labels_of,
    name_of,
    namespace_of,
    resource_version_of,
    spec_of,
    status_of,
    uid_of,
)
from trainwright.controller.local.controllers.base import (
    EventReport,
    Plan,
    PlannedWrite,
    PlanningController,
    seconds_to_live,
)
from trainwright.controller.local.controllers.jobset_objects import (
    COMPLETED,
    FAILED,
    MANAGED_BY_US,
    REPLICATED_JOB,
    RESTARTING,
    STARTUP_COMPLETED,
    STARTUP_IN_PROGRESS,
    SUSPENDED,
    Children,
    claims_of,
    has_host_names,
    is_suspended,
    job_name,
    job_of,
    replicas_of,
    replicated_jobs_of,
    service_of,
)
from trainwright.controller.local.controllers.objects import CLAIM, JOB, JOBSET, SERVICE, merge_patch
from trainwright.controller.runtime import AlreadyExists

_OPPOSITES = {STARTUP_IN_PROGRESS: STARTUP_COMPLETED, STARTUP_COMPLETED: STARTUP_IN_PROGRESS}
"""Conditions of which one becomes False when the other becomes True."""
COUNTS: tuple[str, ...] = ("ready", "succeeded", "failed", "active", "suspended")
_NO_SERVICE = EventReport("Warning", "HeadlessServiceCreationFailed", "{message}")
_NO_CLAIM = EventReport("Warning", "PVCCreationFailed", "{message}")
_NO_JOB = EventReport("Warning", "JobCreationFailed", 'job "{name}" creation failed with error: {message}')
_FOREGROUND = {"propagation": "Foreground"}


def plan(jobset: Document, jobs: Iterable[Document], now: datetime) -> Plan:
    """Plan one reconcile. Raises Terminal if a Job cannot be sorted.

    The headless Service and the volume claims are always created; whoever carries this out leaves out those that exist.
    """
    return _Planner(jobset, Children.of(jobset, jobs), now).plan()


class _Planner:
    def __init__(self, jobset: Document, children: Children, now: datetime) -> None:
        self.jobset, self.children, self.now = jobset, children, now
        self.spec, self.replicated_jobs = spec_of(jobset), replicated_jobs_of(jobset)
        self.policy: Document = self.spec.get("failurePolicy") or {}
        self.status: Document = {"restarts": 0, **deepcopy(status_of(jobset))}
        self.out = Plan(status=self.status)
        counts = counts_of(jobset, children)
        self.counts = {str(count["name"]): count for count in counts}
        if {str(count["name"]): count for count in self.status.get("replicatedJobsStatus") or ()} != self.counts:
            self.status["replicatedJobsStatus"] = counts

    def plan(self) -> Plan:
        children = self.children
        if is_true(conditions_of(self.jobset), COMPLETED) or is_true(conditions_of(self.jobset), FAILED):
            self._delete(children.active)
            self._expire()
            return self.out
        self._delete(children.previous)
        up = sum(int(count["ready"]) + int(count["succeeded"]) for count in self.counts.values())
        if not is_suspended(self.jobset) and up == sum(map(replicas_of, self.replicated_jobs)):
            self._set(RESTARTING, "JobsReady", "all jobs are ready", value=False)
        if children.failed:
            self._apply_failure_policy(children.failed)
        elif children.successful and is_complete(self.jobset, children.successful):
            done = "jobset completed successfully"
            self._end(COMPLETED, "AllJobsCompleted", done, "JobSetCompleted", done)
        else:
            self._work()
        return self.out

    # ------------------------------------------------------------------ the status

    def _set(
        self,
        type_: str,
        reason: str,
        message: str,
        *,
        value: bool = True,
        warns: bool = False,
    ) -> None:
        """Set a condition and report it, if it changes. A condition that would only say False is not added."""
        before: list[Document] = self.status.get("conditions") or []
        opposite = find_true(before, _OPPOSITES.get(type_, "")) if value else None
        conditions = [{**one, "status": "False"} if one is opposite else one for one in before]
        if value or find(before, type_) is not None:
            wanted = {"type": type_, "status": "True" if value else "False", "reason": reason, "message": message}
            conditions = set_condition(conditions, wanted, now=lambda: self.now)
        if conditions != before:
            self.status["conditions"] = conditions
            self.out.reports.append(EventReport("Warning" if warns else "Normal", reason, message))

    def _end(self, type_: str, reason: str, message: str, restarted: str, over: str) -> None:
        """The JobSet is Completed or Failed, so a restart is over."""
        self._set(type_, reason, message, warns=type_ != COMPLETED)
        self._set(RESTARTING, restarted, over, value=False)
        self.status["terminalState"] = type_

    def _fail(self, reason: str, message: str) -> None:
        self._end(FAILED, reason, message, "JobSetFailed", "jobset failed")

    def _expire(self) -> None:
        if self.status != status_of(self.jobset):
            return  # once the status is written
        left = seconds_to_live(self.jobset, self.now, COMPLETED, FAILED)
        if left is not None and left <= 0:
            self.out.writes.append(PlannedWrite(verb="delete", kind=JOBSET, obj=self.jobset, options=_FOREGROUND))
        else:
            self.out.look_again = left

    def _apply_failure_policy(self, failed: Sequence[Document]) -> None:
        first = min(failed, key=_failed_at)
        if self.spec.get("failurePolicy") is None:
            self._fail("FailedJobs", _naming("jobset failed due to one or more job failures", first))
            return
        rule, job = _first_match(self.policy.get("rules") or (), failed)
        job = job or first
        action = rule.get("action") if rule is not None else "RestartJobSet"
        if action == "FailJobSet":
            self._fail("FailJobSetFailurePolicyAction", _naming("applying FailJobSet failure policy action", job))
            return
        counts = action != "RestartJobSetAndIgnoreMaxRestarts"
        counted = int(self.status.get("restartsCountTowardsMax") or 0)
        if counts and counted >= int(self.policy.get("maxRestarts") or 0):
            message = "jobset failed due to reaching max number of restarts"
            self._fail("ReachedMaxRestarts", _naming(message, job))
            return
        self.status["restarts"] = int(self.status.get("restarts") or 0) + 1
        if counts:
            self.status["restartsCountTowardsMax"] = counted + 1
        message = _naming(f"applying {action} failure policy action", job)
        reason = f"FailurePolicy_{rule.get('name')}" if rule is not None else "DefaultFailurePolicy"
        self._set(RESTARTING, reason, message, warns=True)
        self.out.reports.append(EventReport("Warning", f"{action}FailurePolicyAction", message))

    # ------------------------------------------------------------------ Jobs

    def _delete(self, jobs: Iterable[Document]) -> None:
        left = [job for job in jobs if deletion_timestamp_of(job) is None]
        self.out.writes += [PlannedWrite(verb="delete", kind=JOB, obj=job, options=_FOREGROUND) for job in left]

    def _patch(self, job: Document, body: Document, **options: str) -> None:
        self.out.writes.append(PlannedWrite(verb="patch", kind=JOB, obj=job, body=body, options=options))

    def _create(self, kind: Resource, obj: Document, refused: EventReport) -> None:
        tolerate = AlreadyExists if kind == CLAIM else ()
        self.out.writes.append(PlannedWrite(verb="create", kind=kind, obj=obj, tolerate=tolerate, refused=refused))

    def _work(self) -> None:
        jobset = self.jobset
        if has_host_names(jobset):
            self._create(SERVICE, service_of(jobset), _NO_SERVICE)
        for claim in claims_of(jobset):
            self._create(CLAIM, claim, _NO_CLAIM)
        in_order = (self.spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
        in_order = in_order and not is_suspended(jobset)
        turn = self._whose_turn(in_order=in_order)
        if not (self.children.previous and self.policy.get("restartStrategy") == "BlockingRecreate"):
            existing = self.children.names()
            places = [(one, index) for one in turn for index in range(replicas_of(one))]
            for replicated, index in places:
                if job_name(jobset, replicated, index) not in existing:
                    self._create(JOB, job_of(jobset, replicated, index), _NO_JOB)
        if in_order and turn:
            message = "in order startup policy is in progress"
            self._set(STARTUP_IN_PROGRESS, "InOrderStartupPolicyInProgress", message)
        elif in_order:
            message = "in order startup policy has completed"
            self._set(STARTUP_COMPLETED, "InOrderStartupPolicyCompleted", message)
        if is_suspended(jobset):
            self._suspend()
        else:
            self._resume(turn, is_whole=not (in_order and turn))

    def _suspend(self) -> None:
        for job in self.children.active:
            if not is_suspended(job):
                self._patch(job, {"spec": {"suspend": True}})
        self._set(SUSPENDED, "SuspendedJobs", "jobset is suspended")
        self._set(RESTARTING, "JobSetSuspended", "jobset is suspended", value=False)

    def _resume(self, turn: Sequence[Document], *, is_whole: bool) -> None:
        """Resume the Jobs whose turn it is; `is_whole`: no others wait."""
        held = [job for job in self.children.active if is_suspended(job)]
        waiting = [(job, one) for one in turn for job in held if labels_of(job).get(REPLICATED_JOB) == one.get("name")]
        # Only the template of a Job that never started can be changed.
        if started := [job for job, _ in waiting if status_of(job).get("startTime")]:
            for job in started:
                lock = {"uid": uid_of(job), "resourceVersion": resource_version_of(job)}
                self._patch(job, {"metadata": lock, "status": {"startTime": None}}, subresource="status")
            return
        for job, replicated in waiting:
            self._patch(job, resumption(job, replicated))
        if is_whole:
            self._set(SUSPENDED, "ResumeJobs", "jobset is resumed", value=False)

    def _whose_turn(self, *, in_order: bool) -> list[Document]:
        """The replicated jobs whose Jobs may run now; in order, only the first that has not started."""
        free = [one for one in self.replicated_jobs if all(map(self._has_come, one.get("dependsOn") or ()))]
        return free if not in_order else [one for one in free if not self._has_started(str(one.get("name")))][:1]

    def _has_come(self, dependency: Document) -> bool:
        """Whether what a replicated job depends on has come so far."""
        name, status = str(dependency.get("name")), dependency.get("status")
        if name not in self.counts:
            return False
        complete = self._wanted(name) == self.counts[name]["succeeded"]
        return complete if status == "Complete" else status != "Ready" or self._has_started(name)

    def _has_started(self, name: str) -> bool:
        """Whether all Jobs of the replicated job are ready or over."""
        count = self.counts[name]
        return self._wanted(name) == int(count["ready"]) + int(count["succeeded"]) + int(count["failed"])

    def _wanted(self, name: str) -> int:
        return sum(replicas_of(one) for one in self.replicated_jobs if one.get("name") == name)


def resumption(job: Document, replicated: Document) -> Document:
    """The patch that resumes a Job with what the template of the JobSet has more now; nothing is taken away."""
    template = spec_of(job).get("template") or {}
    source = spec_of(replicated.get("template") or {}).get("template") or {}
    parts = {
        "metadata": _merged(template.get("metadata"), source.get("metadata"), ("labels", "annotations"), ()),
        "spec": _merged(
            template.get("spec"), source.get("spec"), ("nodeSelector",), ("tolerations", "schedulingGates")
        ),
    }
    patch: Document = {"spec": {"suspend": False}}
    if changed := merge_patch(template, {**template, **{name: part for name, part in parts.items() if part}}):
        patch["spec"]["template"] = changed
        # The lists of the patch replace those of the Job that they were computed from.
        patch["metadata"] = {"resourceVersion": resource_version_of(job)}
    return patch


def _merged(old: Document | None, new: Document | None, maps: tuple[str, ...], lists: tuple[str, ...]) -> Document:
    merged, source = dict(old or {}), new or {}
    for name in maps:
        if source.get(name):
            merged[name] = {**(merged.get(name) or {}), **source[name]}
    for name in lists:
        present = merged.get(name) or []
        if added := [item for item in source.get(name) or () if item not in present]:
            merged[name] = [*present, *added]
    return merged


def is_complete(jobset: Document, successful: Sequence[Document]) -> bool:
    policy = spec_of(jobset).get("successPolicy") or {}
    jobs = replicated_jobs_of(jobset)
    targets = policy.get("targetReplicatedJobs") or [one.get("name") for one in jobs]
    done = sum(labels_of(job).get(REPLICATED_JOB) in targets for job in successful)
    wanted = sum(replicas_of(one) for one in jobs if one.get("name") in targets)
    return done >= (1 if policy.get("operator") == "Any" else wanted)


def counts_of(jobset: Document, children: Children) -> list[Document]:
    """`status.replicatedJobsStatus`: the Jobs of the current attempt, in descending order of the names."""
    counts: dict[str, dict[str, int]] = {
        str(r.get("name")): dict.fromkeys(COUNTS, 0) for r in replicated_jobs_of(jobset)
    }
    active = children.active
    for what, jobs in {
        "ready": [job for job in active if _is_ready(job)],
        "active": [job for job in active if status_of(job).get("active")],
        "suspended": [job for job in active if is_suspended(job)],
        "succeeded": children.successful,
        "failed": children.failed,
    }.items():
        for job in jobs:
            if (count := counts.get(labels_of(job).get(REPLICATED_JOB, ""))) is not None:
                count[what] += 1
    return [{"name": name, **counts[name]} for name in sorted(counts, reverse=True)]


def _is_ready(job: Document) -> bool:
    """Whether all pods of the Job are ready or have succeeded."""
    spec, status = spec_of(job), status_of(job)
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    pods = 1 if parallelism is None else int(parallelism)
    pods = pods if completions is None else min(pods, int(completions))
    return int(status.get("succeeded") or 0) + int(status.get("ready") or 0) >= pods


def _first_match(rules: Sequence[Document], failed: Sequence[Document]) -> tuple[Document | None, Document | None]:
    """The first rule that matches a Job, and the first of the Jobs that it matches."""
    for rule in rules:
        if matching := [job for job in failed if _matches(rule, job)]:
            return rule, min(matching, key=_failed_at)
    return None, None


def _matches(rule: Document, job: Document) -> bool:
    failure = find(conditions_of(job), "Failed") or {}
    reasons, patterns = rule.get("onJobFailureReasons"), rule.get("onJobFailureMessagePatterns")
    if reasons and failure.get("reason") not in reasons:
        return False
    if patterns and not any(_found(pattern, failure.get("message") or "") for pattern in patterns):
        return False
    parent = labels_of(job).get(REPLICATED_JOB)
    return bool(parent) and parent in (rule.get("targetReplicatedJobs") or (parent,))


def _found(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return False  # the other patterns still count


def _failed_at(job: Document) -> str:
    return str((find(conditions_of(job), "Failed") or {}).get("lastTransitionTime") or "")


def _naming(message: str, job: Document) -> str:
    return f"{message} (first failed job: {name_of(job)})"


class JobSetController(PlanningController):
    NAME, KIND, OWNS = "jobset", JOBSET, (JOB, SERVICE, CLAIM)
    REPORTER = "jobset"
    ACTION = "Reconciling"
    JOINS_REFUSALS = True

    def plan(self, obj: Document) -> Plan | None:
        """See `plan`; without the Service and the claims that are there already."""
        is_ours = (spec_of(obj).get("managedBy") or MANAGED_BY_US) == MANAGED_BY_US
        if deletion_timestamp_of(obj) is not None or not is_ours:
            return None
        step = plan(obj, self.cache.controlled_by(JOB, uid_of(obj)), self.now())
        step.writes = [
            one
            for one in step.writes
            if one.kind not in (SERVICE, CLAIM)
            or self.cache.get(one.kind, name_of(one.obj), namespace_of(one.obj)) is None
        ]
        return step
