# SPDX-License-Identifier: Apache-2.0
"""From a TrainJob to the runtime that it names, and back (hop 4, Resolve).

A TrainingRuntime lives in the job's own namespace, a ClusterTrainingRuntime in none. The group and kind that a
reference leaves out are those of the schema's defaults.
"""

from collections.abc import Iterable, Sequence

from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, RuntimeRef, TrainingRuntime, TrainJob
from trainwright.controller.runtime import Key
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.errors import KubernetesError, Terminal

Runtime = TrainingRuntime | ClusterTrainingRuntime
RUNTIMES: tuple[type[Runtime], ...] = (TrainingRuntime, ClusterTrainingRuntime)
"""The kinds that a TrainJob may refer to."""

INDEX = "runtime"
"""Name of the index of TrainJobs by `reference`."""

_BY_KIND: dict[tuple[str, str], type[Runtime]] = {(kind.RESOURCE.group, kind.RESOURCE.kind): kind for kind in RUNTIMES}
_DEFAULT = ClusterTrainingRuntime.RESOURCE


class RuntimeMissing(KubernetesError):  # noqa: N818 - as the condition's reason
    """The runtime does not exist (yet). What is waited for is its creation, so nothing is gained by trying again."""


class RuntimeUnsupported(Terminal):
    """The reference names a kind that is no runtime; the reference cannot be changed, so this is final."""


class Runtimes:
    """Reads runtimes from the cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def index(self) -> None:
        """File TrainJobs under the runtime that they refer to; TrainJobs must be declared to the cache."""
        self._cache.add_index(TrainJob, INDEX, _references)

    def of(self, job: TrainJob) -> Runtime:
        """The runtime of the job: shared, not to be changed.

        Raises:
            RuntimeMissing: there is none of that name.
            RuntimeUnsupported: the kind is not one of `RUNTIMES`.
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
        """A runtime of the name that the job refers to, but of the other kind: most often, the one that is meant."""
        missing, key = target_of(job)
        (other,) = (kind for kind in RUNTIMES if kind is not missing)
        found: Runtime | None = self._cache.get(other, key.name, job.namespace if other.RESOURCE.namespaced else "")
        return found

    def jobs_of(self, runtime: Runtime) -> Sequence[TrainJob]:
        """The TrainJobs that refer to the runtime."""
        return self._cache.indexed(TrainJob, INDEX, _value(type(runtime), Key(runtime.namespace, runtime.name)))


def kind_of_runtime(job: TrainJob) -> type[Runtime]:
    """The kind of runtime that the job refers to. Raises RuntimeUnsupported."""
    return target_of(job)[0]


def target_of(job: TrainJob) -> tuple[type[Runtime], Key]:
    """Kind and key of the runtime that the job refers to. Raises RuntimeUnsupported."""
    reference: RuntimeRef | None = job.spec.runtime_ref if job.spec is not None else None
    if reference is None:
        raise RuntimeUnsupported("spec.runtimeRef is missing: name a runtime")
    group = reference.api_group if reference.api_group is not None else _DEFAULT.group
    name = reference.kind if reference.kind is not None else _DEFAULT.kind
    kind = _BY_KIND.get((group, name))
    if kind is None:
        supported = " and ".join(supported for _, supported in _BY_KIND)
        raise RuntimeUnsupported(f"spec.runtimeRef names {name}.{group}, which is no runtime: {supported} are")
    return kind, Key(job.namespace if kind.RESOURCE.namespaced else "", reference.name)


def _references(job: TrainJob) -> Iterable[str]:
    try:
        return (_value(*target_of(job)),)
    except RuntimeUnsupported:
        return ()


def _value(kind: type[Runtime], key: Key) -> str:
    return f"{kind.RESOURCE.kind}/{key}"
