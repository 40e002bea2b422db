# SPDX-License-Identifier: Apache-2.0
"""The extension points of the JobSet plugin, and its checks of initializers and of the entries of runtimePatches.

Of an entry it checks the time, the name of the manager, and the replicated jobs and containers that it changes. A patch
must not set variables that belong to spec.trainer or spec.initializer. Targets are looked up in the runtime's own
template; the patched one would contain whatever the patch names.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace

import msgspec

from trainwright.api.conditions import set_condition
from trainwright.api.jobset.v1alpha2 import JobSet, ReplicatedJob
from trainwright.api.objects import Document, is_controlled_by
from trainwright.api.trainer.v1alpha1 import JobStatus, ReplicatedJobPatch, RuntimePatch, TrainJob, TrainJobStatus
from trainwright.api.trainer.v1alpha1 import TrainJobStatus as Status
from trainwright.api.trainer.v1alpha1.constants import (
    CONDITION_COMPLETE,
    CONDITION_FAILED,
    DATASET_INITIALIZER,
    MODEL_INITIALIZER,
    STEP_CONTAINERS,
    VOLUME_INITIALIZER,
)
from trainwright.api.trainer.v1alpha1.queues import may_be_queued
from trainwright.api.trainer.v1alpha1.runtimes import replicated_jobs_of
from trainwright.api.typed import as_typed
from trainwright.plugins.contract import (
    ClusterFacts,
    Component,
    FactUnavailable,
    Finding,
    Info,
    Reference,
    Watch,
    forbidden,
    internal,
    invalid,
    required,
)
from trainwright.plugins.jobset.document import (
    as_stored,
    jobset_component,
    may_apply,
    name_findings,
    with_fallback,
    with_selectors_of_jobs,
)

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
    def watches(self) -> Sequence[Watch]:
        remedy = "install JobSet (https://jobset.sigs.k8s.io)"
        counters = ("replicated_jobs_status",)
        return (Watch(JobSet.RESOURCE, makes=True, deletes=True, model=JobSet, remedy=remedy, counters=counters),)

    def uses_facts(self, job: TrainJob) -> Iterable[Reference]:
        """The JobSet with the name of the job, whether the job controls it or not."""
        yield jobset_of(job)

    def validate(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        """Check initializers, the targets of runtimePatches, and whether patches may change now."""
        return findings(info, old, job, jobset_of(job))

    def validate_shaped(self, info: Info, old: TrainJob | None, job: TrainJob) -> Iterable[Finding]:
        """Warn of names that JobSet would refuse, while the job can still get another name."""
        return name_findings(info, job) if old is None else ()

    def prepare_components(self, info: Info) -> None:
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
        component = as_stored(jobset_component(info, job), live)
        if may_be_queued(job):
            component = with_selectors_of_jobs(component, live)
        return [component if component.replaces else with_fallback(component, live)]

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


_PATCHES = "spec.runtimePatches"
_MANAGER = "spec.runtimePatches.manager"
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_DOMAIN_LIMIT = 253
_OWN_SECTION = frozenset(STEP_CONTAINERS.values())
"""Containers whose variables come from spec.trainer and spec.initializer."""


def findings(info: Info, old: TrainJob | None, job: TrainJob, jobset: Reference) -> Iterator[Finding]:
    yield from _initializer_findings(info, job)
    yield from _patch_findings(info, job)
    yield from _moment_findings(info, old, job, jobset)


def _initializer_findings(info: Info, job: TrainJob) -> Iterator[Finding]:
    spec = job.spec_or_empty
    initializer = spec.initializer
    if initializer is None:
        return
    for wanted, name in ((initializer.dataset, DATASET_INITIALIZER), (initializer.model, MODEL_INITIALIZER)):
        if wanted is not None and (problem := _initializer_problem(info, name)):
            yield invalid("spec.runtimeRef", spec.runtime_ref, problem)


def _initializer_problem(info: Info, name: str) -> str:
    pod_set = info.pod_set(name)
    if pod_set is None:
        return f"the runtime has no replicated job {name}, which the job needs"
    if pod_set.any_container(name) is None:
        return f"the runtime's replicated job {name} has no container {name}, which the job needs"
    container = pod_set.container(name)
    if container is not None and all(mount.name != VOLUME_INITIALIZER for mount in container.mounts):
        return f"the runtime's container {name} must mount a volume {VOLUME_INITIALIZER}"
    return ""


def _patch_findings(info: Info, job: TrainJob) -> Iterator[Finding]:
    jobs = {replicated.name: replicated for replicated in replicated_jobs_of(info.runtime)}
    for patch in job.spec_or_empty.runtime_patches or ():
        yield from _manager_findings(patch.manager)
        for target in patch.training_runtime_spec_or_empty.template_or_empty.spec_or_empty.replicated_jobs or ():
            replicated = jobs.get(target.name)
            if replicated is None:
                problem = f"the runtime has no replicated job {target.name}; it has {_names(jobs)}"
                yield invalid(_PATCHES, target, problem)
            else:
                yield from _container_findings(replicated, target)


def _manager_findings(manager: str) -> Iterator[Finding]:
    if not manager:
        yield required(_MANAGER, "must name the manager of the patch, such as example.com/team")
        return
    domain, slash, path = manager.partition("/")
    if not slash or not path or not _DOMAIN.fullmatch(domain) or len(domain) > _DOMAIN_LIMIT:
        yield invalid(_MANAGER, manager, "must be a domain and a path, such as example.com/team")
    elif not _PATH.fullmatch(path):
        yield invalid(_MANAGER, manager, "the path after the domain has characters that are not allowed in a URL path")


def _container_findings(replicated: ReplicatedJob, target: ReplicatedJobPatch) -> Iterator[Finding]:
    pod = target.template_or_empty.spec_or_empty.template_or_empty.spec
    spec = replicated.template.spec_or_empty.template.spec_or_empty
    if pod is None:
        return
    for kind, patches, existing in (
        ("init container", pod.init_containers, spec.init_containers),
        ("container", pod.containers, spec.containers),
    ):
        known = {container.name for container in existing or ()}
        for patch in patches or ():
            if patch.name not in known:
                problem = f"replicated job {target.name} has no {kind} {patch.name}; it has {_names(known)}"
                yield invalid(_PATCHES, patch, problem)
            elif kind == "container" and patch.name in _OWN_SECTION and patch.env:
                problem = f"must not set env of container {patch.name}; use spec.trainer.env or spec.initializer"
                yield invalid(_PATCHES, patch, problem)


def _names(names: dict[str, ReplicatedJob] | set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _moment_findings(info: Info, old: TrainJob | None, job: TrainJob, reference: Reference) -> Iterator[Finding]:
    """Patches change the pods, so they may change only while no pod runs."""
    if old is None or old.spec is None or job.spec is None:
        return
    if _said(old.spec.runtime_patches) == _said(job.spec.runtime_patches):
        return
    if not old.spec.suspend and not job.spec.suspend:
        yield forbidden(_PATCHES, "runtimePatches can be changed only while the TrainJob is suspended")
        return
    try:
        jobset = info.facts.get(reference, JobSet)
    except FactUnavailable as error:
        yield internal(_PATCHES, str(error))
        return
    for entry in (jobset.status_or_empty.replicated_jobs_status if jobset is not None else None) or ():
        if entry.active > 0:
            problem = (
                f"replicated job {entry.name} still has active jobs ({entry.active}); wait until their pods are gone"
            )
            yield forbidden(_PATCHES, problem)


def _said(patches: list[RuntimePatch] | None) -> list[Document]:
    """The entries without empty values, which typed clients such as Kueue's leave out when they update a job."""
    return [as_typed(RuntimePatch, msgspec.to_builtins(patch)) for patch in patches or ()]
