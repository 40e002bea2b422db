# SPDX-License-Identifier: Apache-2.0
"""From a TrainJob to the runtime that it refers to, and back.

A TrainingRuntime is in the namespace of the job; a ClusterTrainingRuntime has no namespace. A reference without group
or kind gets the defaults of the schema.
"""

from collections.abc import Iterable, Sequence

from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, RuntimeRef, TrainJob
from trainwright.api.trainer.v1alpha1.runtimes import RUNTIMES, Runtime
from trainwright.controller.runtime import Cache, Key, KubernetesError, Terminal

INDEX = "runtime"
"""Name of the index of TrainJobs by `reference`."""

_BY_KIND: dict[tuple[str, str], type[Runtime]] = {(kind.RESOURCE.group, kind.RESOURCE.kind): kind for kind in RUNTIMES}
_DEFAULT = ClusterTrainingRuntime.RESOURCE


class RuntimeMissing(KubernetesError):  # noqa: N818 - as the condition's reason
    """The runtime does not exist. Its creation starts a reconcile, so a retry is useless."""


class RuntimeUnsupported(Terminal):
    """The reference names a kind that is not a runtime. References cannot be changed, so this is final."""


class Runtimes:
    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def index(self) -> None:
        """Index TrainJobs by the runtime that they refer to; TrainJobs must be declared in the cache."""
        self._cache.add_index(TrainJob, INDEX, _references)

    def of(self, job: TrainJob) -> Runtime:
        """The runtime of the job. It is shared: do not change it.

        Raises RuntimeMissing: there is no runtime of that name; RuntimeUnsupported: the kind is not one of `RUNTIMES`.
        """
        kind, key = target_of(job)
        found: Runtime | None = self._cache.get(kind, key.name, key.namespace)
        if found is None:
            where = f" in namespace {key.namespace}" if key.namespace else ""
            raise RuntimeMissing(
                f"{kind.RESOURCE.kind} {key.name} does not exist{where}: create it, or delete this TrainJob"
            )
        return found

    def namesake(self, job: TrainJob) -> Runtime | None:
        """A runtime of the same name but the other kind: most often the one that the user means."""
        missing, key = target_of(job)
        (other,) = (kind for kind in RUNTIMES if kind is not missing)
        found: Runtime | None = self._cache.get(other, key.name, job.namespace if other.RESOURCE.namespaced else "")
        return found

    def jobs_of(self, runtime: Runtime) -> Sequence[TrainJob]:
        return self._cache.indexed(TrainJob, INDEX, _value(type(runtime), Key(runtime.namespace, runtime.name)))


def kind_of_runtime(job: TrainJob) -> type[Runtime]:
    """The kind of runtime that the job refers to. Raises RuntimeUnsupported."""
    return target_of(job)[0]


def target_of(job: TrainJob) -> tuple[type[Runtime], Key]:
    """Kind and key of the runtime that the job refers to. Raises RuntimeUnsupported."""
    reference: RuntimeRef | None = job.spec.runtime_ref if job.spec is not None else None
    if reference is None:
        raise RuntimeUnsupported("spec.runtimeRef is not set; name a runtime")
    group = reference.api_group if reference.api_group is not None else _DEFAULT.group
    name = reference.kind if reference.kind is not None else _DEFAULT.kind
    kind = _BY_KIND.get((group, name))
    if kind is None:
        supported = " or ".join(supported for _, supported in _BY_KIND)
        raise RuntimeUnsupported(f"spec.runtimeRef refers to the unsupported kind {name}.{group}; use {supported}")
    return kind, Key(job.namespace if kind.RESOURCE.namespaced else "", reference.name)


def _references(job: TrainJob) -> Iterable[str]:
    try:
        return (_value(*target_of(job)),)
    except RuntimeUnsupported:
        return ()


def _value(kind: type[Runtime], key: Key) -> str:
    return f"{kind.RESOURCE.kind}/{key}"
