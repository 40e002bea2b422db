# SPDX-License-Identifier: Apache-2.0
"""The answers of the webhooks: TrainJobs are defaulted and validated, runtimes are validated.

The pipeline that later builds the job validates it here, and the answer gives every reason to refuse it. An existing
job is validated against the runtime in its snapshot. A change of metadata alone is not refused, so that labels can
always be set and finalizers can always be removed; of new annotations without effect it is warned.
"""

import contextlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from trainwright.api.jobset.v1alpha2 import ReplicatedJob
from trainwright.api.objects import Document, annotations_of, deletion_timestamp_of, key_of, labels_of
from trainwright.api.times import Now, format_time, wall_clock
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, RuntimePatch, TrainingRuntime, TrainJob
from trainwright.api.trainer.v1alpha1.completion import is_finished
from trainwright.api.trainer.v1alpha1.constants import (
    LABEL_ANCESTOR_STEP,
    LABEL_SUPPORT,
    STEP_CONTAINERS,
    SUPPORT_DEPRECATED,
)
from trainwright.api.trainer.v1alpha1.progress import declared
from trainwright.api.trainer.v1alpha1.queues import is_queued
from trainwright.api.trainer.v1alpha1.recovery import late_changes, named
from trainwright.api.trainer.v1alpha1.runtimes import Runtime, replicated_jobs_of
from trainwright.api.typed import as_typed
from trainwright.controller.runtime import AdmissionRequest, AdmissionResponse, Client, ErrorCause, NotFound
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.errors import NotSynced
from trainwright.controller.runtime.webhook.admission import ALLOWED
from trainwright.controller.trainer.build.kinds import CachedFacts
from trainwright.controller.trainer.build.runtimes import (
    LARGEST_CONFIG_MAP,
    SNAPSHOTS,
    RuntimeMissing,
    Runtimes,
    RuntimeUnsupported,
    SnapshotInvalid,
    Snapshots,
    kind_of_runtime,
    target_of,
    too_large,
)
from trainwright.controller.trainer.job import stall
from trainwright.controller.trainer.job.cleanup import NEVER, asked, problems
from trainwright.controller.trainer.job.obstacles import Defects, During, is_defect
from trainwright.plugins.contract import FactUnavailable, FieldError, internal, invalid
from trainwright.plugins.contract.errors import ErrorType, PipelineError
from trainwright.plugins.contract.facts import Unreadable
from trainwright.plugins.pipeline import Pipeline

log = logging.getLogger(__name__)

R = TypeVar("R", TrainingRuntime, ClusterTrainingRuntime)

POLICY = "https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html#runtime-deprecation-policy"


@dataclass(frozen=True, slots=True)
class TrainJobAdmission:
    client: Client
    cache: Cache
    pipeline: Pipeline
    facts: CachedFacts
    runtimes: Runtimes
    snapshots: Snapshots
    defects: Defects
    cleans_up: bool = False
    """Whether annotations about the time after the end have an effect."""
    recovers: bool = False
    """Whether annotations about recovery have an effect."""
    now: Now = wall_clock

    def default(self, request: AdmissionRequest[TrainJob]) -> None:
        """Set the time of the last change in each entry of `runtimePatches`."""
        job, old = request.new, request.old
        assert job is not None
        before = {patch.manager: patch for patch in _patches(old)}
        now = format_time(self.now())
        for patch in _patches(job):
            stored = before.get(patch.manager)
            if stored is not None:
                patch.time = stored.time if _without_time(stored) == _without_time(patch) else now
            elif patch.time is None:
                patch.time = now

    async def validate(self, request: AdmissionRequest[TrainJob]) -> AdmissionResponse:
        """Every reason to refuse a TrainJob or its change, and every warning."""
        job, old = request.new, request.old
        assert job is not None
        warnings = [*self._deprecation(job), *self._about_lifetimes(job, old), *self._about_recovery(job, old)]
        if old is not None and (old.spec == job.spec or deletion_timestamp_of(job)):
            late = late_changes(annotations_of(old), annotations_of(job)) if self.recovers else ()
            return _refused((), [*warnings, *_about_progress(job, old), *late])
        try:
            runtime = await self._runtime(job, old)
        except RuntimeUnsupported as error:
            return AdmissionResponse(message=str(error))
        except RuntimeMissing as error:
            return _refused([invalid(_runtime_path(job), _reference(job), str(error))], warnings)
        if old is None:
            warnings = [*_deprecations(runtime), *self._about_lifetimes(job, old), *self._about_recovery(job, old)]
            errors = [
                *(_unusable_lifetimes(job) if self.cleans_up else ()),
                *_stall_errors(job),
                *_size_errors(job, runtime),
            ]
            if errors:
                return _refused(errors, warnings)
        run = self.pipeline.begin(job, runtime, old)
        try:
            references = run.admission_references()
        except (PipelineError, FactUnavailable) as error:
            if is_defect(error):
                self._met_defect(job, error)
            return _refused([internal("", str(error))], warnings)
        facts = await self.facts.read(references)
        verdict = run.validate(facts)
        if not any(isinstance(fact, Unreadable) for fact in facts.objects.values()):
            # All facts could be read, so an internal error is a defect of the plugin that it names.
            for finding in verdict.errors:
                if finding.type is ErrorType.INTERNAL:
                    self._met_defect(job, finding)
        return _refused(verdict.errors, [*warnings, *map(str, verdict.warnings)])

    def validate_runtime(self, request: AdmissionRequest[R]) -> AdmissionResponse:
        """Check a runtime, and warn of an edit that restarts jobs.

        Kueue compares a job with the runtime as it is now, while its pods are those of the snapshot. It stops a job
        that differs at its next change, and queues it again.
        """
        answer: AdmissionResponse = validate_runtime(request)
        old, new = request.old, request.new
        if old is None or new is None or _pods_of(old) == _pods_of(new):
            return answer
        with contextlib.suppress(NotSynced):
            jobs = self.runtimes.jobs_of(new)
            number = sum(is_queued(one) and not one.spec_or_empty.suspend and not is_finished(one) for one in jobs)
            which = "1 running job in a queue uses" if number == 1 else f"{number} running jobs in queues use"
            text = f"{which} this runtime and will restart, since Kueue compares jobs with their runtime"
            return replace(answer, warnings=(*answer.warnings, text)) if number else answer
        return answer

    def _about_lifetimes(self, job: TrainJob, old: TrainJob | None) -> list[str]:
        """Warnings about annotations that have no effect. A new value that cannot be used is refused at creation."""
        if not self.cleans_up:
            return [f"annotation {name} has no effect: this manager does not clean up" for name, _ in asked(job)]
        return [str(error) for error in _unusable_lifetimes(job)] if old is not None else []

    def _about_recovery(self, job: TrainJob, old: TrainJob | None) -> list[str]:
        """Warnings about new annotations that no plugin looks at, since the feature is off."""
        if self.recovers:
            return []
        own, before = annotations_of(job), annotations_of(old) if old is not None else {}
        new = [name for name in named(own) if before.get(name) != own[name]]
        return [f"annotation {name} has no effect: this manager runs without the feature gate Recovery" for name in new]

    def _met_defect(self, job: TrainJob, defect: Exception | FieldError) -> None:
        self.defects.met(During.ADMISSION)
        traceback = defect if isinstance(defect, Exception) else None
        log.warning("%s: refused because of a defect: %s", key_of(job), defect, exc_info=traceback)

    def _deprecation(self, job: TrainJob) -> list[str]:
        """The warning about the current runtime, whatever has changed and whatever the snapshot holds."""
        with contextlib.suppress(RuntimeMissing, RuntimeUnsupported, NotSynced):
            return _deprecations(self.runtimes.of(job))
        return []

    async def _runtime(self, job: TrainJob, old: TrainJob | None) -> Runtime:
        if old is not None:
            # Requests may come before the first lists have arrived.
            await self.cache.wait_synced([SNAPSHOTS])
            # The controller reports an unusable snapshot; admission does not refuse a change because of it.
            with contextlib.suppress(SnapshotInvalid):
                kept = await self.snapshots.existing(job)
                if kept is not None:
                    return kept
        try:
            return self.runtimes.of(job)
        except (RuntimeMissing, NotSynced):
            # A runtime that was just applied, for example from the same file, may not be in the cache yet.
            kind, key = target_of(job)
            try:
                return await self.client.get(kind, key.name, key.namespace)
            except NotFound:
                raise RuntimeMissing(
                    f"{kind.RESOURCE.kind} {key.name} does not exist; create it before the TrainJob{self._hint(job)}"
                ) from None

    def _hint(self, job: TrainJob) -> str:
        """How to refer to the runtime that the user probably means; empty if there is none."""
        with contextlib.suppress(NotSynced):
            namesake = self.runtimes.namesake(job)
            if namesake is not None:
                kind = namesake.RESOURCE.kind
                return f"; a {kind} of this name exists: to use it, set spec.runtimeRef.kind to {kind}"
        return ""


def _about_progress(job: TrainJob, old: TrainJob) -> Iterable[str]:
    """Warnings about new annotations that count as not set."""
    before = annotations_of(old)
    for problem in declared(annotations_of(job), {})[1]:
        if before.get(problem.annotation) != problem.value:
            yield problem.warning


def _stall_errors(job: TrainJob) -> Iterable[FieldError]:
    for problem in stall.problems(job):
        yield invalid(f"metadata.annotations[{problem.annotation}]", problem.value, problem.message)


def _size_errors(job: TrainJob, runtime: Runtime) -> Iterable[FieldError]:
    size = too_large(runtime)
    if size is not None:
        problem = (
            f"{runtime.RESOURCE.kind} {runtime.name} has {size} bytes as YAML. Each job keeps a copy of its runtime in "
            f"a ConfigMap, which holds {LARGEST_CONFIG_MAP} bytes at most; make the runtime smaller"
        )
        yield invalid(_runtime_path(job), _reference(job), problem)


def _unusable_lifetimes(job: TrainJob) -> Iterable[FieldError]:
    for name, value in problems(job):
        yield invalid(f"metadata.annotations[{name}]", value, f"must be a number of seconds, or {NEVER}")


def validate_runtime(request: AdmissionRequest[R]) -> AdmissionResponse:
    """Check that each step of a runtime runs once and has the container that a TrainJob changes."""
    runtime = request.new
    assert runtime is not None
    if runtime.RESOURCE.kind == "TrainingRuntime" and request.operation != "CREATE":
        return ALLOWED
    warnings = _deprecations(runtime) if request.operation == "CREATE" else []
    errors: list[FieldError] = []
    for index, job in enumerate(replicated_jobs_of(runtime)):
        errors += _step_errors(f"spec.template.spec.replicatedJobs[{index}]", job)
    return _refused(errors, warnings)


def _pods_of(runtime: Runtime) -> object:
    """What Kueue computes the pods of a job from."""
    spec = runtime.spec_or_empty
    return spec.ml_policy, spec.template_or_empty.spec_or_empty.replicated_jobs


def is_deprecated(runtime: Runtime) -> bool:
    return labels_of(runtime).get(LABEL_SUPPORT) == SUPPORT_DEPRECATED


def deprecation(runtime: Runtime) -> str:
    return (
        f'{runtime.RESOURCE.kind} "{runtime.name}" is deprecated and will be removed in a later version; see {POLICY}'
    )


def _deprecations(runtime: Runtime) -> list[str]:
    """The warning, if there is one. As in Kubeflow Trainer, a TrainingRuntime gives none."""
    warns = runtime.RESOURCE.kind == "ClusterTrainingRuntime" and is_deprecated(runtime)
    return [deprecation(runtime)] if warns else []


def _step_errors(path: str, job: ReplicatedJob) -> Iterable[FieldError]:
    labels = job.template.metadata_or_empty.labels or {}
    needed = STEP_CONTAINERS.get(labels.get(LABEL_ANCESTOR_STEP, ""))
    if needed is None:
        return
    if job.replicas is not None and job.replicas != 1:
        yield invalid(f"{path}.replicas", job.replicas, "a step of a TrainJob runs once; set replicas to 1")
    pod = job.template.spec_or_empty.template.spec_or_empty
    names = [container.name for container in pod.containers or ()]
    if needed not in names:
        message = f"the container {needed}, which TrainJobs change, is missing; name a container {needed}"
        yield invalid(f"{path}.template.spec.template.spec.containers", names, message)


def _patches(job: TrainJob | None) -> list[RuntimePatch]:
    return (job.spec_or_empty.runtime_patches if job is not None else None) or []


def _without_time(patch: RuntimePatch) -> Document:
    """The entry without its time, and without empty lists, which mean the same as no list."""
    document = as_typed(RuntimePatch, msgspec.to_builtins(patch))
    document.pop("time", None)
    return document


def _runtime_path(job: TrainJob) -> str:
    """The path of the error about a missing runtime. Kubeflow Trainer writes `RuntimeRef` for a ClusterTrainingRuntime,
    and clients may look for it."""
    return "spec.RuntimeRef" if kind_of_runtime(job) is ClusterTrainingRuntime else "spec.runtimeRef"


def _reference(job: TrainJob) -> object:
    return job.spec.runtime_ref if job.spec is not None else None


def _refused(errors: Iterable[FieldError], warnings: Iterable[str]) -> AdmissionResponse:
    """A refusal; several errors are written in brackets, as Kubernetes does. Without errors: allowed."""
    found = tuple(errors)
    texts = [str(error) for error in found]
    return AdmissionResponse(
        errors=tuple(ErrorCause(error.type.value, error.path, text) for error, text in zip(found, texts, strict=True)),
        message="" if not texts else texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]",
        warnings=tuple(warnings),
    )
