# SPDX-License-Identifier: Apache-2.0
"""When a replicated job may start, and when the JobSet is complete: pure functions of the counts of its Jobs."""

from collections.abc import Mapping, Sequence

from trainwright.api.objects import Document, labels_of
from trainwright.controller.local.workloads.documents import spec_of
from trainwright.controller.local.workloads.jobset import names


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
