# SPDX-License-Identifier: Apache-2.0
"""What to do for a JobSet: a pure function of the JobSet, its Jobs and the time.

Source: JobSet 0.12.0 with its default feature gates.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from trainwright.api.conditions import find, is_true
from trainwright.api.objects import Document, deletion_timestamp_of, labels_of, resource_version_of
from trainwright.api.times import parse
from trainwright.controller.local.workloads.documents import conditions_of, merge_patch, spec_of, status_of
from trainwright.controller.local.workloads.jobset import names
from trainwright.controller.local.workloads.jobset.children import Children
from trainwright.controller.local.workloads.jobset.failure import apply_failure_policy
from trainwright.controller.local.workloads.jobset.objects import claims_of, is_suspended, job_of, service_of
from trainwright.controller.local.workloads.jobset.status import Draft, counts_of, is_finished
from trainwright.controller.local.workloads.reports import EventReport


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
    out.service = service_of(jobset) if names.has_host_names(jobset) else None
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
    wanted = sum(names.replicas_of(replicated) for replicated in names.replicated_jobs(jobset))
    return wanted == sum(int(count["ready"]) + int(count["succeeded"]) for count in counts)


def _expire(jobset: Document, now: datetime, out: Plan) -> None:
    seconds = spec_of(jobset).get("ttlSecondsAfterFinished")
    if seconds is None:
        return
    conditions = conditions_of(jobset)
    end = find(conditions, names.COMPLETED if is_true(conditions, names.COMPLETED) else names.FAILED) or {}
    left = (parse(end["lastTransitionTime"]) + timedelta(seconds=int(seconds)) - now).total_seconds()
    out.expired = left <= 0
    out.look_again = None if out.expired else left


def _to_create(jobset: Document, children: Children, counts: Mapping[str, Document], draft: Draft) -> list[Document]:
    policy = spec_of(jobset).get("failurePolicy") or {}
    blocked = bool(children.previous) and policy.get("restartStrategy") == "BlockingRecreate"
    existing = children.names()
    waits = starts_in_order(jobset) and not is_suspended(jobset)
    created: list[Document] = []
    replicated_jobs = names.replicated_jobs(jobset)
    for position, replicated in enumerate(replicated_jobs):
        if not may_start(replicated, replicated_jobs[: position + 1], counts):
            continue
        if waits and has_started(replicated, counts[str(replicated.get("name"))]):
            continue
        created += [
            job_of(jobset, replicated, index)
            for index in range(0 if blocked else names.replicas_of(replicated))
            if names.job_name(jobset, replicated, index) not in existing
        ]
        if waits:
            draft.start_in_order(completed=False)
            return created
    if waits:
        draft.start_in_order(completed=True)
    return created


def _to_resume(jobset: Document, children: Children, counts: Mapping[str, Document], draft: Draft) -> list[JobChange]:
    changes: list[JobChange] = []
    replicated_jobs = names.replicated_jobs(jobset)
    for position, replicated in enumerate(replicated_jobs):
        name = str(replicated.get("name"))
        if not may_start(replicated, replicated_jobs[: position + 1], counts):
            continue
        if starts_in_order(jobset) and has_started(replicated, counts[name]):
            continue
        changes += [
            _resumed(job, replicated)
            for job in children.active
            if is_suspended(job) and labels_of(job).get(names.REPLICATED_JOB) == name
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
    return names.replicas_of(replicated) == count["ready"] + count["succeeded"] + count["failed"]


def may_start(replicated: Document, before: Sequence[Document], counts: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether what the replicated job depends on has come so far.

    Args:
        replicated: the replicated job.
        before: this replicated job and those before it in the spec.
        counts: by name of the replicated job.
    """
    replicas = {str(other.get("name")): names.replicas_of(other) for other in before}
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
    done = sum(not targets or labels_of(job).get(names.REPLICATED_JOB) in targets for job in successful)
    if policy.get("operator") == "Any":
        return done >= 1
    wanted = sum(
        names.replicas_of(replicated)
        for replicated in names.replicated_jobs(jobset)
        if not targets or replicated.get("name") in targets
    )
    return done >= wanted
