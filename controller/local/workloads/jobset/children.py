# SPDX-License-Identifier: Apache-2.0
"""The Jobs of a JobSet, sorted by what they mean to it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from trainwright.api.conditions import find, is_true
from trainwright.api.objects import Document, labels_of, name_of
from trainwright.controller.local.workloads.documents import conditions_of
from trainwright.controller.local.workloads.jobset import names
from trainwright.controller.local.workloads.jobset.objects import restarts_of
from trainwright.controller.runtime import Terminal


@dataclass
class Children:
    """The Jobs that a JobSet controls."""

    active: list[Document] = field(default_factory=list)
    successful: list[Document] = field(default_factory=list)
    failed: list[Document] = field(default_factory=list)
    previous: list[Document] = field(default_factory=list)
    """Of an earlier attempt: to be deleted."""

    @classmethod
    def of(cls, jobset: Document, jobs: Iterable[Document]) -> "Children":
        """Sort the Jobs. Raises Terminal if the attempt of a Job cannot be read."""
        children = cls()
        for job in sorted(jobs, key=name_of):
            attempt = labels_of(job).get(names.RESTART_ATTEMPT, "")
            if not attempt.isdecimal():
                raise Terminal(f"Job {name_of(job)}: label {names.RESTART_ATTEMPT} must be a number, not {attempt!r}")
            if int(attempt) < restarts_of(jobset):
                children.previous.append(job)
            elif is_true(conditions_of(job), "Failed"):
                children.failed.append(job)
            elif is_true(conditions_of(job), "Complete"):
                children.successful.append(job)
            else:
                children.active.append(job)
        return children

    def names(self) -> set[str]:
        """The names of all of them."""
        return {name_of(job) for part in (self.active, self.successful, self.failed, self.previous) for job in part}


def failure_of(job: Document) -> Document:
    """The condition Failed of a failed Job."""
    return find(conditions_of(job), "Failed") or {}
