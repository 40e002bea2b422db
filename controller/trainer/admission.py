# SPDX-License-Identifier: Apache-2.0
"""What the webhooks answer (hop 1, Admit): TrainJobs are completed and checked, runtimes are checked.

The same pipeline that builds a job later checks it here, and every reason to refuse it is given at once. A job that
exists is checked against the runtime that it was made with. A change of metadata alone is not checked at all, so that a
job can always be labelled, and deleted when it has finalizers.
"""

import contextlib
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from trainwright.api.jobset.v1alpha2 import ReplicatedJob
from trainwright.api.times import format_time
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, RuntimePatch, TrainingRuntime, TrainJob
from trainwright.api.trainer.v1alpha1.constants import (
    LABEL_ANCESTOR_STEP,
    LABEL_SUPPORT,
    STEP_CONTAINERS,
    SUPPORT_DEPRECATED,
)
from trainwright.api.typed import as_typed
from trainwright.controller.runtime import Cache, Client, NotFound
from trainwright.controller.runtime.clock import Now, wall_clock
from trainwright.controller.runtime.errors import Cause, NotSynced
from trainwright.controller.runtime.objects import Document, deletion_timestamp_of, labels_of
from trainwright.controller.runtime.webhook.admission import ALLOWED, Admission, Verdict
from trainwright.controller.trainer.kinds import WatchedKinds
from trainwright.controller.trainer.runtimes import (
    Runtime,
    RuntimeMissing,
    Runtimes,
    RuntimeUnsupported,
    kind_of_runtime,
    target_of,
)
from trainwright.controller.trainer.snapshot import SNAPSHOTS, SnapshotInvalid, Snapshots
from trainwright.plugins.contract import ClusterFacts, FactUnavailable, FieldError, PipelineError, internal, invalid
from trainwright.plugins.pipeline import Pipeline

R = TypeVar("R", TrainingRuntime, ClusterTrainingRuntime)

POLICY = "https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html#runtime-deprecation-policy"
JOBSET_NAME_LIMIT = 63
"""Characters of the longest name that JobSet makes from a job's."""
_GENERATED_SUFFIX = "-abcde"
"""As long as what pods get from a generated name."""
_MARGIN = len("--9999-99999") + len(_GENERATED_SUFFIX)
"""What is added to the names of TrainJob and replicated job, at most."""


class TrainJobAdmission:
    """Completes and checks TrainJobs."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        pipeline: Pipeline,
        kinds: WatchedKinds,
        runtimes: Runtimes,
        snapshots: Snapshots,
        *,
        now: Now = wall_clock,
    ) -> None:
        """`now` is the wall clock, for the times of patches."""
        self._client = client
        self._cache = cache
        self._pipeline = pipeline
        self._kinds = kinds
        self._runtimes = runtimes
        self._snapshots = snapshots
        self._now = now

    def default(self, request: Admission[TrainJob]) -> None:
        """Stamp each entry of `runtimePatches` with the time of its last change."""
        job, old = request.new, request.old
        assert job is not None
        before = {patch.manager: patch for patch in _patches(old)}
        now = format_time(self._now())
        for patch in _patches(job):
            stored = before.get(patch.manager)
            if stored is not None:
                patch.time = stored.time if _without_time(stored) == _without_time(patch) else now
            elif patch.time is None:
                patch.time = now

    async def validate(self, request: Admission[TrainJob]) -> Verdict:
        """Everything that speaks against a TrainJob, or its change."""
        job, old = request.new, request.old
        assert job is not None
        warnings = self._deprecation(job)
        if old is not None and (old.spec == job.spec or deletion_timestamp_of(job)):
            return _refused((), warnings)
        try:
            runtime = await self._runtime(job, old)
        except RuntimeUnsupported as error:
            return Verdict(message=str(error))
        except RuntimeMissing as error:
            return _refused([invalid(_runtime_path(job), _reference(job), str(error))], warnings)
        if old is None:
            warnings = _deprecations(runtime)
        try:
            references = self._pipeline.admission_references(job, runtime)
        except PipelineError as error:
            return _refused([internal("", str(error))], warnings)
        facts = await self._kinds.facts(self._client, self._cache, references)
        verdict = self._pipeline.validate(job, runtime, facts, old=old)
        if old is None and not verdict.errors:
            warnings += too_long(self._pipeline, job, runtime, facts)
        return _refused(verdict.errors, [*warnings, *map(str, verdict.warnings)])

    def _deprecation(self, job: TrainJob) -> list[str]:
        """The warning about the runtime as it is now, whatever changes, and whatever the job's snapshot says."""
        with contextlib.suppress(RuntimeMissing, RuntimeUnsupported, NotSynced):
            return _deprecations(self._runtimes.of(job))
        return []

    async def _runtime(self, job: TrainJob, old: TrainJob | None) -> Runtime:
        if old is not None:
            # The first requests may come before the first lists.
            await self._cache.wait_synced([SNAPSHOTS])
            # A snapshot that cannot be used is the controller's to tell of; it is no reason to refuse a change.
            with contextlib.suppress(SnapshotInvalid):
                kept = await self._snapshots.existing(job)
                if kept is not None:
                    return kept
        try:
            return self._runtimes.of(job)
        except (RuntimeMissing, NotSynced):
            # A runtime that was applied a moment ago, in the same file, is not in the cache yet.
            kind, key = target_of(job)
            try:
                return await self._client.get(kind, key.name, key.namespace)
            except NotFound:
                raise RuntimeMissing(
                    f"{kind.RESOURCE.kind} {key.name} does not exist: it must be there before the TrainJob"
                    f"{self._hint(job)}"
                ) from None

    def _hint(self, job: TrainJob) -> str:
        """How to name the runtime that is meant, if that can be told."""
        with contextlib.suppress(NotSynced):
            namesake = self._runtimes.namesake(job)
            if namesake is not None:
                kind = namesake.RESOURCE.kind
                return f"; there is a {kind} of that name: to use it, set spec.runtimeRef.kind to {kind}"
        return ""


def validate_runtime(request: Admission[R]) -> Verdict:
    """Each step of a runtime runs once, and has the container that a TrainJob changes."""
    runtime = request.new
    assert runtime is not None
    if runtime.RESOURCE.kind == "TrainingRuntime" and request.operation != "CREATE":
        return ALLOWED
    warnings = _deprecations(runtime) if request.operation == "CREATE" else []
    errors: list[FieldError] = []
    for index, job in enumerate(_replicated(runtime)):
        errors += _step_errors(f"spec.template.spec.replicatedJobs[{index}]", job)
    return _refused(errors, warnings)


def is_deprecated(runtime: Runtime) -> bool:
    """Whether the runtime says that it will be removed."""
    return labels_of(runtime).get(LABEL_SUPPORT) == SUPPORT_DEPRECATED


def deprecation(runtime: Runtime) -> str:
    """The warning about a deprecated runtime."""
    return (
        f'{runtime.RESOURCE.kind} "{runtime.name}" is deprecated and will be removed in a later version; see {POLICY}'
    )


def _deprecations(runtime: Runtime) -> list[str]:
    """The warning, if there is one; runtimes of a namespace never warn."""
    warns = runtime.RESOURCE.kind == "ClusterTrainingRuntime" and is_deprecated(runtime)
    return [deprecation(runtime)] if warns else []


def _step_errors(path: str, job: ReplicatedJob) -> Iterable[FieldError]:
    labels = (job.template.metadata.labels if job.template.metadata is not None else None) or {}
    needed = STEP_CONTAINERS.get(labels.get(LABEL_ANCESTOR_STEP, ""))
    if needed is None:
        return
    if job.replicas is not None and job.replicas != 1:
        yield invalid(f"{path}.replicas", job.replicas, "a step of a TrainJob runs once: set it to 1")
    pod = job.template.spec.template.spec if job.template.spec is not None else None
    names = [container.name for container in (pod.containers if pod is not None else None) or ()]
    if needed not in names:
        message = f"a container named {needed} is missing: it is the one that a TrainJob changes"
        yield invalid(f"{path}.template.spec.template.spec.containers", names, message)


def too_long(pipeline: Pipeline, job: TrainJob, runtime: Runtime, facts: ClusterFacts) -> list[str]:
    """A warning when JobSet will refuse the names that it would make of the job's."""
    names = [len(replicated.name) for replicated in _replicated(runtime)]
    if len(job.name) + max(names, default=0) + _MARGIN <= JOBSET_NAME_LIMIT:
        return []  # as most are: spares the work
    try:
        replicated_jobs = pipeline.enforced(job, runtime, facts).template.replicated_jobs or ()
    except (PipelineError, FactUnavailable):
        return []  # the controller will tell, if it lasts
    made = {f"{job.name}-{replicated.name}{_indexes(replicated)}": replicated.name for replicated in replicated_jobs}
    name = max(made, key=len, default="")
    if len(name) <= JOBSET_NAME_LIMIT:
        return []
    excess = f"metadata.name is too long by {len(name) - JOBSET_NAME_LIMIT} characters"
    limit = f"makes names of more than {JOBSET_NAME_LIMIT}, which JobSet refuses"
    return [f"{excess}: with {made[name]} of its runtime it {limit}"]


def _indexes(replicated: ReplicatedJob) -> str:
    """What JobSet appends to the names of a replicated job's Job and, where it knows their number, pods."""
    job = f"-{max((replicated.replicas or 1) - 1, 0)}"
    spec = replicated.template.spec
    if spec is None or spec.completions is None or spec.completion_mode not in {None, "Indexed"}:
        return job
    return f"{job}-{max(spec.completions - 1, 0)}{_GENERATED_SUFFIX}"


def _replicated(runtime: Runtime) -> list[ReplicatedJob]:
    template = runtime.spec.template.spec if runtime.spec is not None and runtime.spec.template is not None else None
    return (template.replicated_jobs if template is not None else None) or []


def _patches(job: TrainJob | None) -> list[RuntimePatch]:
    return (job.spec.runtime_patches if job is not None and job.spec is not None else None) or []


def _without_time(patch: RuntimePatch) -> Document:
    """What the entry says; an empty list says no more than none."""
    document = as_typed(RuntimePatch, msgspec.to_builtins(patch))
    document.pop("time", None)
    return document


def _runtime_path(job: TrainJob) -> str:
    """Where a missing runtime is reported: for a ClusterTrainingRuntime with the original's capital letter, which
    clients may look for."""
    return "spec.RuntimeRef" if kind_of_runtime(job) is ClusterTrainingRuntime else "spec.runtimeRef"


def _reference(job: TrainJob) -> object:
    return job.spec.runtime_ref if job.spec is not None else None


def _refused(errors: Iterable[FieldError], warnings: Iterable[str]) -> Verdict:
    """As Kubernetes writes several errors: in brackets. Empty errors allow."""
    found = tuple(errors)
    texts = [str(error) for error in found]
    return Verdict(
        errors=tuple(Cause(error.type.value, error.path, text) for error, text in zip(found, texts, strict=True)),
        message="" if not texts else texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]",
        warnings=tuple(warnings),
    )
