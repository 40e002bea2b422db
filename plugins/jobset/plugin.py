# SPDX-License-Identifier: Apache-2.0
"""The extension points of the JobSet plugin; the other modules have their parts."""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace

import msgspec

from trainwright.api.conditions import set_condition
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import is_controlled_by
from trainwright.api.trainer.v1alpha1 import JobStatus, TrainJob, TrainJobStatus
from trainwright.api.trainer.v1alpha1 import TrainJobStatus as Status
from trainwright.api.trainer.v1alpha1.constants import CONDITION_COMPLETE, CONDITION_FAILED
from trainwright.plugins.contract import (
    APPLY,
    WATCH,
    ClusterFacts,
    Component,
    Finding,
    Info,
    Reference,
    Rule,
    Runtime,
    Watch,
)
from trainwright.plugins.jobset.document import as_stored, jobset_component, may_apply, name_findings, with_fallback
from trainwright.plugins.jobset.validation import findings

_TERMINAL = {"Completed": CONDITION_COMPLETE, "Failed": CONDITION_FAILED}
"""Conditions of a JobSet that end its TrainJob, and the TrainJob's conditions that they become."""


def status_from(job: TrainJob, jobset: JobSet) -> TrainJobStatus:
    """The status of the TrainJob, updated from the JobSet; other conditions stay."""
    status = copy(job.status) if job.status is not None else TrainJobStatus()
    observed = jobset.status_or_empty
    for condition in observed.conditions or ():
        if condition.type in _TERMINAL and condition.status == "True":
            wanted = msgspec.structs.replace(condition, type=_TERMINAL[condition.type])
            status.conditions = set_condition(status.conditions, wanted, at=condition.last_transition_time)
    counts = observed.replicated_jobs_status or ()
    status.jobs_status = msgspec.convert(counts, list[JobStatus], from_attributes=True) or None
    return status


class JobSetPlugin:
    """Owns the kind of the template. Builds the JobSet from the pod sets and computes the TrainJob's status from it.

    It checks that the runtime has the replicated jobs and containers that initializers and runtimePatches need.
    """

    name = "JobSet"
    # Deleted when the deadline of a job has passed.
    rules = (Rule.on(JobSet.RESOURCE, *WATCH, *APPLY, "delete"),)

    def watches(self) -> Sequence[Watch]:
        """JobSets of TrainJobs."""
        remedy = "install JobSet (https://jobset.sigs.k8s.io)"
        return (Watch(JobSet.RESOURCE, model=JobSet, remedy=remedy, counters=("replicated_jobs_status",)),)

    def uses_facts(self, job: TrainJob, runtime: Runtime) -> Iterable[Reference]:  # noqa: ARG002 - the contract's
        """The JobSet with the name of the job, whether the job controls it or not."""
        yield jobset_of(job)

    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        """Check initializers, the targets of runtimePatches, and whether patches may change now."""
        return findings(info, old, job, jobset_of(job))

    def validate_shaped(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        """Warn of names that JobSet would refuse, while the job can still get another name."""
        return name_findings(info, job) if old is None else ()

    def prepare_components(self, info: Info, job: TrainJob) -> None:  # noqa: ARG002 - the contract's
        """Write the numbers of pods into the template; each pod gets an index."""
        for pod_set, replicated in zip(info.pod_sets, info.template.replicated_jobs or (), strict=True):
            spec = replicated.template.spec
            assert spec is not None  # made when the pod set was
            spec.parallelism = spec.completions = pod_set.count

    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        """The JobSet, unless it is running.

        If the name is taken by a JobSet that the job does not control, the JobSet is built too: the attempt to apply it
        tells the user.
        """
        live = info.facts.get(jobset_of(job), JobSet)
        if live is None or not is_controlled_by(live, job):
            return [replace(jobset_component(info, job), settled=live is None)]
        if not may_apply(job, live, held=info.held):
            return []
        return [with_fallback(as_stored(jobset_component(info, job), live), live)]

    def status_facts(self, job: TrainJob) -> Iterable[Reference]:
        """The JobSet with the name of the job, whether the job controls it or not."""
        yield jobset_of(job)

    def status(self, job: TrainJob, facts: ClusterFacts) -> Status | None:
        """Conditions and counters of the JobSet; None if the job has no JobSet."""
        live = facts.get(jobset_of(job), JobSet)
        return status_from(job, live) if live is not None and is_controlled_by(live, job) else None


def jobset_of(job: TrainJob) -> Reference:
    """The JobSet of a TrainJob has its namespace and name."""
    return Reference(JobSet.RESOURCE, job.namespace, job.name)
