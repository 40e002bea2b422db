# SPDX-License-Identifier: Apache-2.0
"""The validation of the JobSet plugin: initializers, and the targets and the time of patches."""

from collections.abc import Iterator

import msgspec

from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1 import RuntimePatch, TrainJob
from trainwright.api.trainer.v1alpha1.constants import (
    DATASET_INITIALIZER,
    MODEL_INITIALIZER,
    VOLUME_INITIALIZER,
)
from trainwright.api.typed import as_typed
from trainwright.plugins.contract import (
    FactUnavailable,
    Finding,
    Info,
    Reference,
    forbidden,
    internal,
    invalid,
)
from trainwright.plugins.jobset.targets import patch_findings

_PATCHES = "spec.runtimePatches"


def findings(info: Info, old: TrainJob | None, job: TrainJob, jobset: Reference) -> Iterator[Finding]:
    yield from _initializer_findings(info, job)
    yield from patch_findings(info, job)
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
    """What the runtime lacks for this initializer; empty: nothing."""
    pod_set = info.pod_set(name)
    if pod_set is None:
        return f"the runtime has no replicated job {name}, which the job needs"
    if pod_set.any_container(name) is None:
        return f"the runtime's replicated job {name} has no container {name}, which the job needs"
    container = pod_set.container(name)
    if container is not None and all(mount.name != VOLUME_INITIALIZER for mount in container.mounts):
        return f"the runtime's container {name} must mount a volume {VOLUME_INITIALIZER}"
    return ""


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
