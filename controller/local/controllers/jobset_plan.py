# SPDX-License-Identifier: Apache-2.0
"""What to do for a JobSet: a pure function of the JobSet, its Jobs and the time.

Source: JobSet 0.12.0 with its default feature gates.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from trainwright.api.conditions import find, is_true
from trainwright.api.objects import (
    Document,
    conditions_of,
    deletion_timestamp_of,
    labels_of,
    name_of,
    resource_version_of,
    spec_of,
    status_of,
)
from trainwright.api.times import format_time, parse
from trainwright.controller.local.controllers.base import EventReport
from trainwright.controller.local.controllers.jobset_objects import (
    COMPLETED,
    FAILED,
    REPLICATED_JOB,
    RESTARTING,
    STARTUP_COMPLETED,
    STARTUP_IN_PROGRESS,
    SUSPENDED,
    Children,
    claims_of,
    failure_of,
    has_host_names,
    is_suspended,
    job_name,
    job_of,
    replicas_of,
    replicated_jobs_of,
    service_of,
)
from trainwright.controller.local.controllers.objects import merge_patch

_OPPOSITES = {STARTUP_IN_PROGRESS: STARTUP_COMPLETED, STARTUP_COMPLETED: STARTUP_IN_PROGRESS}
"""Conditions of which one becomes False when the other becomes True."""
COUNTS: tuple[str, ...] = ("ready", "succeeded", "failed", "active", "suspended")


def is_finished(jobset: Document) -> bool:
    """Whether the JobSet is Completed or Failed."""
    return is_true(conditions_of(jobset), COMPLETED) or is_true(conditions_of(jobset), FAILED)


@dataclass
class Draft:
    """The next status of a JobSet."""

    jobset: Document
    now: datetime
    status: Document = field(init=False)
    reports: list[EventReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.status = deepcopy(status_of(self.jobset))

    def set(
        self,
        type_: str,
        reason: str,
        message: str,
        *,
        value: bool = True,
        kind: Literal["Normal", "Warning"] = "Normal",
    ) -> None:
        """Set a condition and report it, if it changes. A condition that would only say False is not added."""
        conditions: list[Document] = list(self.status.get("conditions") or ())
        current = find(conditions, type_)
        wanted = {"type": type_, "status": "True" if value else "False", "reason": reason, "message": message}
        since = format_time(self.now)
        changed = False
        other = find(conditions, _OPPOSITES.get(type_, ""))
        if value and other is not None and other.get("status") == "True":
            conditions[conditions.index(other)] = {**other, "status": "False"}
            changed = True
        if current is None:
            if value:
                conditions.append({**wanted, "lastTransitionTime": since})
                changed = True
        elif any(current.get(name) != wanted[name] for name in wanted):
            if current.get("status") == wanted["status"]:
                since = current.get("lastTransitionTime") or since
            conditions[conditions.index(current)] = {**wanted, "lastTransitionTime": since}
            changed = True
        if changed:
            self.status["conditions"] = conditions
            self.reports.append(EventReport(kind, reason, message))

    def set_restarting(self, reason: str, message: str) -> None:
        """The Jobs of the current attempt are made anew."""
        self.set(RESTARTING, reason, message, kind="Warning")

    def set_restarted(self, reason: str, message: str) -> None:
        """A restart, if there was one, is over."""
        self.set(RESTARTING, reason, message, value=False)

    def complete(self) -> None:
        """The success policy is fulfilled."""
        self.set(COMPLETED, "AllJobsCompleted", "jobset completed successfully")
        self.set_restarted("JobSetCompleted", "jobset completed successfully")
        self.status["terminalState"] = COMPLETED

    def fail(self, reason: str, message: str) -> None:
        """The failure policy ends the JobSet."""
        self.set(FAILED, reason, message, kind="Warning")
        self.set_restarted("JobSetFailed", "jobset failed")
        self.status["terminalState"] = FAILED

    def suspend(self) -> None:
        """All Jobs are suspended."""
        self.set(SUSPENDED, "SuspendedJobs", "jobset is suspended")
        self.set_restarted("JobSetSuspended", "jobset is suspended")

    def resume(self) -> None:
        """All Jobs are resumed."""
        self.set(SUSPENDED, "ResumeJobs", "jobset is resumed", value=False)

    def start_in_order(self, *, completed: bool) -> None:
        """The replicated jobs are started one after the other."""
        if completed:
            message = "in order startup policy has completed"
            self.set(STARTUP_COMPLETED, "InOrderStartupPolicyCompleted", message)
        else:
            message = "in order startup policy is in progress"
            self.set(STARTUP_IN_PROGRESS, "InOrderStartupPolicyInProgress", message)


def counts_of(jobset: Document, children: Children) -> list[Document]:
    """`status.replicatedJobsStatus`: the Jobs of the current attempt, in descending order of the names."""
    counts: dict[str, dict[str, int]] = {
        str(r.get("name")): dict.fromkeys(COUNTS, 0) for r in replicated_jobs_of(jobset)
    }

    def add(jobs: Iterable[Document], *what: str) -> None:
        for job in jobs:
            count = counts.get(labels_of(job).get(REPLICATED_JOB, ""))
            for name in what:
                if count is not None:
                    count[name] += 1

    add((job for job in children.active if _is_ready(job)), "ready")
    add((job for job in children.active if status_of(job).get("active")), "active")
    add((job for job in children.active if is_suspended(job)), "suspended")
    add(children.successful, "succeeded")
    add(children.failed, "failed")
    return [{"name": name, **counts[name]} for name in sorted(counts, reverse=True)]


def _is_ready(job: Document) -> bool:
    """Whether all pods of the Job are ready or have succeeded."""
    spec, status = spec_of(job), status_of(job)
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    pods = 1 if parallelism is None else int(parallelism)
    pods = pods if completions is None else min(pods, int(completions))
    return int(status.get("succeeded") or 0) + int(status.get("ready") or 0) >= pods


def apply_failure_policy(draft: Draft, failed: Sequence[Document]) -> None:
    """Fail or restart the JobSet in its draft. `failed` must not be empty."""
    policy = spec_of(draft.jobset).get("failurePolicy")
    first = min(failed, key=_failed_at)
    if policy is None:
        draft.fail("FailedJobs", _naming("jobset failed due to one or more job failures", first))
        return
    rule, job = _first_match(policy.get("rules") or (), failed)
    job = job or first
    action = rule.get("action") if rule is not None else "RestartJobSet"
    if action == "FailJobSet":
        draft.fail("FailJobSetFailurePolicyAction", _naming("applying FailJobSet failure policy action", job))
        return
    counts = action != "RestartJobSetAndIgnoreMaxRestarts"
    counted = int(draft.status.get("restartsCountTowardsMax") or 0)
    if counts and counted >= int(policy.get("maxRestarts") or 0):
        draft.fail("ReachedMaxRestarts", _naming("jobset failed due to reaching max number of restarts", job))
        return
    draft.status["restarts"] = int(draft.status.get("restarts") or 0) + 1
    if counts:
        draft.status["restartsCountTowardsMax"] = counted + 1
    message = _naming(f"applying {action} failure policy action", job)
    draft.set_restarting(f"FailurePolicy_{rule.get('name')}" if rule is not None else "DefaultFailurePolicy", message)
    draft.reports.append(EventReport("Warning", f"{action}FailurePolicyAction", message))


def _first_match(rules: Sequence[Document], failed: Sequence[Document]) -> tuple[Document | None, Document | None]:
    """The first rule that matches a Job, and the first of the Jobs that it matches."""
    for rule in rules:
        matching = [job for job in failed if _matches(rule, job)]
        if matching:
            return rule, min(matching, key=_failed_at)
    return None, None


def _matches(rule: Document, job: Document) -> bool:
    condition = failure_of(job)
    reasons, patterns = rule.get("onJobFailureReasons"), rule.get("onJobFailureMessagePatterns")
    targets = rule.get("targetReplicatedJobs")
    if reasons and condition.get("reason") not in reasons:
        return False
    if patterns and not any(_found(pattern, condition.get("message") or "") for pattern in patterns):
        return False
    parent = labels_of(job).get(REPLICATED_JOB)
    return bool(parent) and (not targets or parent in targets)


def _found(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return False  # the other patterns still count


def _failed_at(job: Document) -> str:
    return str(failure_of(job).get("lastTransitionTime") or "")


def _naming(message: str, job: Document) -> str:
    return f"{message} (first failed job: {name_of(job)})"


@dataclass(frozen=True, slots=True)
class JobChange:
    """A change of an existing Job."""

    job: Document
    patch: Document
    """JSON merge patch."""
    forget_start: bool = False
    """Remove `status.startTime` first: only the template of a Job that never started can be changed."""


@dataclass(slots=True)
class Plan:
    """What to do, in the order of the fields."""

    delete: list[Document] = field(default_factory=list)
    """Jobs to delete, in the foreground."""
    service: Document | None = None
    """The headless Service, to be created if there is none."""
    claims: list[Document] = field(default_factory=list)
    """Volume claims, to be created if there are none."""
    create: list[Document] = field(default_factory=list)
    """Jobs to create."""
    change: list[JobChange] = field(default_factory=list)
    status: Document = field(default_factory=dict)
    reports: list[EventReport] = field(default_factory=list)
    expired: bool = False
    """The JobSet has outlived its time to live: delete it."""
    look_again: float | None = None
    """Seconds after which the plan may be another one, if nothing else happens."""


def plan(jobset: Document, jobs: Iterable[Document], now: datetime) -> Plan:
    """Plan one reconcile. Raises Terminal if a Job cannot be sorted."""
    children = Children.of(jobset, jobs)
    draft = Draft(jobset, now)
    draft.status.setdefault("restarts", 0)
    counts = counts_of(jobset, children)
    if _by_name(draft.status.get("replicatedJobsStatus") or ()) != _by_name(counts):
        draft.status["replicatedJobsStatus"] = counts
    out = Plan(status=draft.status, reports=draft.reports)
    if is_finished(jobset):
        out.delete = _not_deleted(children.active)
        _expire(jobset, now, out)
        return out
    out.delete = _not_deleted(children.previous)
    if not is_suspended(jobset) and _all_ready(jobset, counts):
        draft.set_restarted("JobsReady", "all jobs are ready")
    if children.failed:
        apply_failure_policy(draft, children.failed)
        return out
    if children.successful and is_complete(jobset, children.successful):
        draft.complete()
        return out
    out.service = service_of(jobset) if has_host_names(jobset) else None
    out.claims = claims_of(jobset)
    named = _by_name(counts)
    out.create = _to_create(jobset, children, named, draft)
    if is_suspended(jobset):
        out.change = [JobChange(job, {"spec": {"suspend": True}}) for job in children.active if not is_suspended(job)]
        draft.suspend()
    else:
        out.change = _to_resume(jobset, children, named, draft)
    return out


def _by_name(counts: Iterable[Document]) -> dict[str, Document]:
    return {str(count["name"]): count for count in counts}


def _not_deleted(jobs: Iterable[Document]) -> list[Document]:
    return [job for job in jobs if deletion_timestamp_of(job) is None]


def _all_ready(jobset: Document, counts: Iterable[Mapping[str, Any]]) -> bool:
    wanted = sum(replicas_of(replicated) for replicated in replicated_jobs_of(jobset))
    return wanted == sum(int(count["ready"]) + int(count["succeeded"]) for count in counts)


def _expire(jobset: Document, now: datetime, out: Plan) -> None:
    seconds = spec_of(jobset).get("ttlSecondsAfterFinished")
    if seconds is None:
        return
    conditions = conditions_of(jobset)
    end = find(conditions, COMPLETED if is_true(conditions, COMPLETED) else FAILED) or {}
    left = (parse(end["lastTransitionTime"]) + timedelta(seconds=int(seconds)) - now).total_seconds()
    out.expired = left <= 0
    out.look_again = None if out.expired else left


def _to_create(jobset: Document, children: Children, counts: Mapping[str, Document], draft: Draft) -> list[Document]:
    policy = spec_of(jobset).get("failurePolicy") or {}
    blocked = bool(children.previous) and policy.get("restartStrategy") == "BlockingRecreate"
    existing = children.names()
    waits = starts_in_order(jobset) and not is_suspended(jobset)
    created: list[Document] = []
    replicated_jobs = replicated_jobs_of(jobset)
    for position, replicated in enumerate(replicated_jobs):
        if not may_start(replicated, replicated_jobs[: position + 1], counts):
            continue
        if waits and has_started(replicated, counts[str(replicated.get("name"))]):
            continue
        created += [
            job_of(jobset, replicated, index)
            for index in range(0 if blocked else replicas_of(replicated))
            if job_name(jobset, replicated, index) not in existing
        ]
        if waits:
            draft.start_in_order(completed=False)
            return created
    if waits:
        draft.start_in_order(completed=True)
    return created


def _to_resume(jobset: Document, children: Children, counts: Mapping[str, Document], draft: Draft) -> list[JobChange]:
    changes: list[JobChange] = []
    replicated_jobs = replicated_jobs_of(jobset)
    for position, replicated in enumerate(replicated_jobs):
        name = str(replicated.get("name"))
        if not may_start(replicated, replicated_jobs[: position + 1], counts):
            continue
        if starts_in_order(jobset) and has_started(replicated, counts[name]):
            continue
        changes += [
            _resumed(job, replicated)
            for job in children.active
            if is_suspended(job) and labels_of(job).get(REPLICATED_JOB) == name
        ]
        if starts_in_order(jobset):
            draft.start_in_order(completed=False)
            return changes
    draft.resume()
    return changes


def _resumed(job: Document, replicated: Document) -> JobChange:
    """The Job with what the template of the JobSet has more now; nothing is taken away."""
    template = spec_of(job).get("template") or {}
    source = spec_of(replicated.get("template") or {}).get("template") or {}
    parts = {
        "metadata": _merged(template.get("metadata"), source.get("metadata"), ("labels", "annotations"), ()),
        "spec": _merged(
            template.get("spec"), source.get("spec"), ("nodeSelector",), ("tolerations", "schedulingGates")
        ),
    }
    wanted = {**template, **{name: part for name, part in parts.items() if part}}
    patch: Document = {"spec": {"suspend": False}}
    if changed := merge_patch(template, wanted):
        patch["spec"]["template"] = changed
        # The lists of the patch replace those of the Job that they were computed from.
        patch["metadata"] = {"resourceVersion": resource_version_of(job)}
    return JobChange(job, patch, forget_start=bool(status_of(job).get("startTime")))


def _merged(old: Document | None, new: Document | None, maps: tuple[str, ...], lists: tuple[str, ...]) -> Document:
    merged: Document = dict(old or {})
    for name in maps:
        if (new or {}).get(name):
            merged[name] = {**(merged.get(name) or {}), **(new or {})[name]}
    for name in lists:
        present = merged.get(name) or []
        added = [item for item in (new or {}).get(name) or () if item not in present]
        if added:
            merged[name] = [*present, *added]
    return merged


def starts_in_order(jobset: Document) -> bool:
    """Whether each replicated job waits until the one before it has started."""
    return (spec_of(jobset).get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"


def has_started(replicated: Document, count: Mapping[str, int]) -> bool:
    """Whether all Jobs of the replicated job are ready or over."""
    return replicas_of(replicated) == count["ready"] + count["succeeded"] + count["failed"]


def may_start(replicated: Document, before: Sequence[Document], counts: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether what the replicated job depends on has come so far.

    Args:
        replicated: the replicated job.
        before: this replicated job and those before it in the spec.
        counts: by name of the replicated job.
    """
    replicas = {str(other.get("name")): replicas_of(other) for other in before}
    for dependency in replicated.get("dependsOn") or ():
        name, status = str(dependency.get("name")), dependency.get("status")
        count = counts.get(name)
        if count is None:
            return False
        wanted = replicas.get(name, 0)
        if status == "Complete" and wanted != count["succeeded"]:
            return False
        if status == "Ready" and wanted != count["ready"] + count["succeeded"] + count["failed"]:
            return False
    return True


def is_complete(jobset: Document, successful: Sequence[Document]) -> bool:
    """Whether the Jobs that succeeded fulfil `spec.successPolicy`."""
    policy = spec_of(jobset).get("successPolicy") or {}
    targets = policy.get("targetReplicatedJobs")
    done = sum(not targets or labels_of(job).get(REPLICATED_JOB) in targets for job in successful)
    if policy.get("operator") == "Any":
        return done >= 1
    wanted = sum(
        replicas_of(replicated)
        for replicated in replicated_jobs_of(jobset)
        if not targets or replicated.get("name") in targets
    )
    return done >= wanted
