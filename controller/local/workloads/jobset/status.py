# SPDX-License-Identifier: Apache-2.0
"""The status of a JobSet while it is being computed, and the events that its changes cause."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from trainwright.api.conditions import find, is_true
from trainwright.api.objects import Document, labels_of
from trainwright.api.times import format_time
from trainwright.controller.local.workloads.documents import conditions_of, spec_of, status_of
from trainwright.controller.local.workloads.jobset import names
from trainwright.controller.local.workloads.jobset.children import Children
from trainwright.controller.local.workloads.jobset.objects import is_suspended
from trainwright.controller.local.workloads.reports import EventReport

_EXCLUSIVE = {names.STARTUP_IN_PROGRESS: names.STARTUP_COMPLETED, names.STARTUP_COMPLETED: names.STARTUP_IN_PROGRESS}
"""Conditions of which one becomes False when the other becomes True."""
COUNTS: tuple[str, ...] = ("ready", "succeeded", "failed", "active", "suspended")


def is_finished(jobset: Document) -> bool:
    """Whether the JobSet is Completed or Failed."""
    return is_true(conditions_of(jobset), names.COMPLETED) or is_true(conditions_of(jobset), names.FAILED)


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
        other = find(conditions, _EXCLUSIVE.get(type_, ""))
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
        self.set(names.RESTARTING, reason, message, kind="Warning")

    def set_restarted(self, reason: str, message: str) -> None:
        """A restart, if there was one, is over."""
        self.set(names.RESTARTING, reason, message, value=False)

    def complete(self) -> None:
        """The success policy is fulfilled."""
        self.set(names.COMPLETED, "AllJobsCompleted", "jobset completed successfully")
        self.set_restarted("JobSetCompleted", "jobset completed successfully")
        self.status["terminalState"] = names.COMPLETED

    def fail(self, reason: str, message: str) -> None:
        """The failure policy ends the JobSet."""
        self.set(names.FAILED, reason, message, kind="Warning")
        self.set_restarted("JobSetFailed", "jobset failed")
        self.status["terminalState"] = names.FAILED

    def suspend(self) -> None:
        """All Jobs are suspended."""
        self.set(names.SUSPENDED, "SuspendedJobs", "jobset is suspended")
        self.set_restarted("JobSetSuspended", "jobset is suspended")

    def resume(self) -> None:
        """All Jobs are resumed."""
        self.set(names.SUSPENDED, "ResumeJobs", "jobset is resumed", value=False)

    def start_in_order(self, *, completed: bool) -> None:
        """The replicated jobs are started one after the other."""
        if completed:
            message = "in order startup policy has completed"
            self.set(names.STARTUP_COMPLETED, "InOrderStartupPolicyCompleted", message)
        else:
            message = "in order startup policy is in progress"
            self.set(names.STARTUP_IN_PROGRESS, "InOrderStartupPolicyInProgress", message)


def counts_of(jobset: Document, children: Children) -> list[Document]:
    """`status.replicatedJobsStatus`: the Jobs of the current attempt, in descending order of the names."""
    counts: dict[str, dict[str, int]] = {
        str(r.get("name")): dict.fromkeys(COUNTS, 0) for r in names.replicated_jobs(jobset)
    }

    def add(jobs: Iterable[Document], *what: str) -> None:
        for job in jobs:
            count = counts.get(labels_of(job).get(names.REPLICATED_JOB, ""))
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
