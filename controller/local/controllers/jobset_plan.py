# SPDX-License-Identifier: Apache-2.0
"""What to do for a JobSet: a pure function of the JobSet, its Jobs and the time.

Source: JobSet 0.12.0 with its default feature gates. Actions of failure policies that need an alpha feature gate are
refused by its webhook, and so by ours.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import datetime, timedelta
from typing import Any, Literal

from trainwright.api.conditions import find, find_true, is_true, set_condition
from trainwright.api.objects import (
    Document,
    conditions_of,
    deletion_timestamp_of,
    labels_of,
    name_of,
    resource_version_of,
    spec_of,
    status_of,
    uid_of,
)
from trainwright.api.times import parse
from trainwright.controller.local.controllers.base import EventReport, Plan, PlannedWrite
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
from trainwright.controller.local.controllers.objects import CLAIM, JOB, JOBSET, SERVICE, merge_patch
from trainwright.controller.runtime import AlreadyExists

_OPPOSITES = {STARTUP_IN_PROGRESS: STARTUP_COMPLETED, STARTUP_COMPLETED: STARTUP_IN_PROGRESS}
"""Conditions of which one becomes False when the other becomes True."""
COUNTS: tuple[str, ...] = ("ready", "succeeded", "failed", "active", "suspended")
_NO_SERVICE = EventReport("Warning", "HeadlessServiceCreationFailed", "{message}")
_NO_CLAIM = EventReport("Warning", "PVCCreationFailed", "{message}")
_NO_JOB = EventReport("Warning", "JobCreationFailed", 'job "{name}" creation failed with error: {message}')


def is_finished(jobset: Document) -> bool:
    """Whether the JobSet is Completed or Failed."""
    return is_true(conditions_of(jobset), COMPLETED) or is_true(conditions_of(jobset), FAILED)


class Draft:
    """The next status of a JobSet, and the events of its changes."""

    def __init__(self, jobset: Document, now: datetime) -> None:
        self.jobset, self.now = jobset, now
        self.status: Document = deepcopy(status_of(jobset))
        self.reports: list[EventReport] = []

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
        before: list[Document] = self.status.get("conditions") or []
        opposite = find_true(before, _OPPOSITES.get(type_, "")) if value else None
        conditions = [{**one, "status": "False"} if one is opposite else one for one in before]
        if value or find(before, type_) is not None:
            wanted = {"type": type_, "status": "True" if value else "False", "reason": reason, "message": message}
            conditions = set_condition(conditions, wanted, now=lambda: self.now)
        if conditions != before:
            self.status["conditions"] = conditions
            self.reports.append(EventReport(kind, reason, message))

    def end(self, type_: str, reason: str, message: str, restarted: tuple[str, str]) -> None:
        """The JobSet is Completed or Failed, so a restart is over."""
        self.set(type_, reason, message, kind="Normal" if type_ == COMPLETED else "Warning")
        self.set(RESTARTING, *restarted, value=False)
        self.status["terminalState"] = type_

    def fail(self, reason: str, message: str) -> None:
        """The failure policy ends the JobSet."""
        self.end(FAILED, reason, message, ("JobSetFailed", "jobset failed"))

    def start_in_order(self, *, completed: bool) -> None:
        """The replicated jobs are started one after the other."""
        if completed:
            self.set(STARTUP_COMPLETED, "InOrderStartupPolicyCompleted", "in order startup policy has completed")
        else:
            self.set(STARTUP_IN_PROGRESS, "InOrderStartupPolicyInProgress", "in order startup policy is in progress")


def plan(jobset: Document, jobs: Iterable[Document], now: datetime) -> Plan:
    """Plan one reconcile. Raises Terminal if a Job cannot be sorted.

    The headless Service and the volume claims are always created; whoever carries this out leaves out those that exist.
    """
    children = Children.of(jobset, jobs)
    draft = Draft(jobset, now)
    draft.status.setdefault("restarts", 0)
    counts = counts_of(jobset, children)
    if _by_name(draft.status.get("replicatedJobsStatus") or ()) != _by_name(counts):
        draft.status["replicatedJobsStatus"] = counts
    out = Plan(status=draft.status, reports=draft.reports)
    if is_finished(jobset):
        out.writes = _deletions(children.active)
        _expire(jobset, now, out)
        return out
    out.writes = _deletions(children.previous)
    if not is_suspended(jobset) and _all_ready(jobset, counts):
        draft.set(RESTARTING, "JobsReady", "all jobs are ready", value=False)
    if children.failed:
        apply_failure_policy(draft, children.failed)
        return out
    if children.successful and is_complete(jobset, children.successful):
        done = "jobset completed successfully"
        draft.end(COMPLETED, "AllJobsCompleted", done, ("JobSetCompleted", done))
        return out
    if has_host_names(jobset):
        out.writes.append(PlannedWrite(verb="create", kind=SERVICE, obj=service_of(jobset), refused=_NO_SERVICE))
    for claim in claims_of(jobset):
        out.writes.append(PlannedWrite(verb="create", kind=CLAIM, obj=claim, tolerate=AlreadyExists, refused=_NO_CLAIM))
    _work(jobset, children, _by_name(counts), draft, out)
    return out


def _work(jobset: Document, children: Children, counts: Mapping[str, Document], draft: Draft, out: Plan) -> None:
    """Create, suspend and resume Jobs."""
    suspended = is_suspended(jobset)
    in_order = (spec_of(jobset).get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder" and not suspended
    turn = _whose_turn(jobset, counts, in_order=in_order)
    policy = spec_of(jobset).get("failurePolicy") or {}
    if not (children.previous and policy.get("restartStrategy") == "BlockingRecreate"):
        existing = children.names()
        for replicated in turn:
            for index in range(replicas_of(replicated)):
                if job_name(jobset, replicated, index) not in existing:
                    job = job_of(jobset, replicated, index)
                    out.writes.append(PlannedWrite(verb="create", kind=JOB, obj=job, refused=_NO_JOB))
    if in_order:
        draft.start_in_order(completed=not turn)
    if suspended:
        body = {"spec": {"suspend": True}}
        running = [job for job in children.active if not is_suspended(job)]
        out.writes += [PlannedWrite(verb="patch", kind=JOB, obj=job, body=body) for job in running]
        draft.set(SUSPENDED, "SuspendedJobs", "jobset is suspended")
        draft.set(RESTARTING, "JobSetSuspended", "jobset is suspended", value=False)
        return
    waiting = [(job, replicated) for replicated in turn for job in children.active if _is_held(job, replicated)]
    # Only the template of a Job that never started can be changed.
    started = [job for job, _ in waiting if status_of(job).get("startTime")]
    if started:
        out.writes += [_forgets_start(job) for job in started]
        return
    out.writes += [_resumed(job, replicated) for job, replicated in waiting]
    if not (in_order and turn):
        draft.set(SUSPENDED, "ResumeJobs", "jobset is resumed", value=False)


def _whose_turn(jobset: Document, counts: Mapping[str, Document], *, in_order: bool) -> list[Document]:
    """The replicated jobs whose Jobs may run now; in order, only the first that has not started."""
    found: list[Document] = []
    replicated_jobs = replicated_jobs_of(jobset)
    for position, replicated in enumerate(replicated_jobs):
        if not may_start(replicated, replicated_jobs[: position + 1], counts):
            continue
        if not in_order:
            found.append(replicated)
        elif not has_started(replicated, counts[str(replicated.get("name"))]):
            return [replicated]
    return found


def _is_held(job: Document, replicated: Document) -> bool:
    return is_suspended(job) and labels_of(job).get(REPLICATED_JOB) == replicated.get("name")


def _forgets_start(job: Document) -> PlannedWrite:
    lock = {"uid": uid_of(job), "resourceVersion": resource_version_of(job)}
    body = {"metadata": lock, "status": {"startTime": None}}
    return PlannedWrite(verb="patch", kind=JOB, obj=job, body=body, options={"subresource": "status"})


def _by_name(counts: Iterable[Document]) -> dict[str, Document]:
    return {str(count["name"]): count for count in counts}


def _deletions(jobs: Iterable[Document]) -> list[PlannedWrite]:
    options = {"propagation": "Foreground"}
    left = [job for job in jobs if deletion_timestamp_of(job) is None]
    return [PlannedWrite(verb="delete", kind=JOB, obj=job, options=options) for job in left]


def _all_ready(jobset: Document, counts: Iterable[Mapping[str, Any]]) -> bool:
    wanted = sum(replicas_of(replicated) for replicated in replicated_jobs_of(jobset))
    return wanted == sum(int(count["ready"]) + int(count["succeeded"]) for count in counts)


def _expire(jobset: Document, now: datetime, out: Plan) -> None:
    seconds = spec_of(jobset).get("ttlSecondsAfterFinished")
    if seconds is None or out.status != status_of(jobset):
        return  # once the status is written
    end = find_true(conditions_of(jobset), COMPLETED) or find_true(conditions_of(jobset), FAILED) or {}
    left = (parse(end["lastTransitionTime"]) + timedelta(seconds=int(seconds)) - now).total_seconds()
    if left <= 0:
        out.writes.append(PlannedWrite(verb="delete", kind=JOBSET, obj=jobset, options={"propagation": "Foreground"}))
    else:
        out.look_again = left


def _resumed(job: Document, replicated: Document) -> PlannedWrite:
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
    return PlannedWrite(verb="patch", kind=JOB, obj=job, body=patch)


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
    reason = f"FailurePolicy_{rule.get('name')}" if rule is not None else "DefaultFailurePolicy"
    draft.set(RESTARTING, reason, message, kind="Warning")
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
