# SPDX-License-Identifier: Apache-2.0
"""The extension points of the JobSet plugin; each part is in a module of its own."""

from collections.abc import Iterable, Sequence

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1 import TrainJobStatus as Status
from trainwright.controller.runtime.objects import controller_of, uid_of
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
from trainwright.plugins.jobset.document import jobset_component, may_apply, with_fallback
from trainwright.plugins.jobset.status import status_from
from trainwright.plugins.jobset.validation import findings


class JobSetPlugin:
    """Source: spec/plugins.md sections 2.4 and 3."""

    name = "JobSet"
    # Deleted when the deadline of a job has passed.
    rules = (Rule.on(JobSet.RESOURCE, *WATCH, *APPLY, "delete"),)

    def watches(self) -> Sequence[Watch]:
        """JobSets of TrainJobs."""
        return (Watch(JobSet.RESOURCE),)

    def uses_facts(self, job: TrainJob, runtime: Runtime) -> Iterable[Reference]:  # noqa: ARG002 - the contract's
        """The JobSet of this name, whoever made it."""
        yield jobset_of(job)

    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        """Initializers, and the targets and the moment of runtimePatches."""
        return findings(info, old, job, jobset_of(job))

    def prepare_components(self, info: Info, job: TrainJob) -> None:  # noqa: ARG002 - the contract's
        """The template runs as many pods as the pod sets say, each with an index of its own."""
        for pod_set, replicated in zip(info.pod_sets, info.template.replicated_jobs or (), strict=True):
            spec = replicated.template.spec
            assert spec is not None  # made when the pod set was
            spec.parallelism = spec.completions = pod_set.count

    def build(self, info: Info, job: TrainJob) -> Iterable[Component]:
        """The JobSet, unless a running one must not be touched.

        One that somebody else made is no reason to leave it out: applying it is what says that the name is taken.
        """
        live = info.facts.get(jobset_of(job), JobSet)
        if live is None or not is_of(job, live):
            return [jobset_component(info, job)]
        return [with_fallback(jobset_component(info, job), live)] if may_apply(job, live) else []

    def status_facts(self, job: TrainJob) -> Iterable[Reference]:
        """The JobSet of this name, whoever made it."""
        yield jobset_of(job)

    def status(self, job: TrainJob, facts: ClusterFacts) -> Status | None:
        """Conditions and counters of the JobSet; None while the job has none of its own."""
        live = facts.get(jobset_of(job), JobSet)
        return status_from(job, live) if live is not None and is_of(job, live) else None


def jobset_of(job: TrainJob) -> Reference:
    """Where the JobSet of a TrainJob is: same namespace, same name."""
    return Reference(JobSet.RESOURCE, job.namespace, job.name)


def is_of(job: TrainJob, jobset: JobSet) -> bool:
    """Whether the JobSet is this TrainJob's, and not that of somebody else who took the name (or had it before)."""
    controller = controller_of(jobset)
    return controller is not None and controller.uid == uid_of(job)
