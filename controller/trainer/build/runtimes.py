# SPDX-License-Identifier: Apache-2.0
"""From a TrainJob to the runtime that it refers to, and back; and the snapshot of it that the job is built from.

A TrainingRuntime is in the namespace of the job; a ClusterTrainingRuntime has no namespace. A reference without group
or kind gets the defaults of the schema.

An edit or deletion of a runtime must not change the jobs that use it (Kubeflow Trainer's KEP-2599). Before any other
object of a job, the manager writes the runtime into the ConfigMap `<job>-runtime-snapshot`, once, and builds the job
from there. If the ConfigMap is deleted, a new snapshot is taken of the runtime as it is at that moment, and written a
second later (`build/objects.py`).

The snapshot holds the object as the API server has it, including fields that this version does not know. It is read
live for that, once for each version of the runtime, not for each job. The template has the form that Kubeflow Trainer
writes (`as_typed`), and jobs are built from this form. Only the metadata of ConfigMaps is watched: the content of a
snapshot is read once per version of the snapshot, and equal contents are decoded once.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from trainwright.api.jobset.v1alpha2 import JobSetSpec
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.manifest import ManifestError, dump, load
from trainwright.api.objects import (
    AnyObject,
    Document,
    is_controlled_by,
    name_of,
    owner_reference,
    resource_version_of,
    uid_of,
)
from trainwright.api.rights import READ, Rule
from trainwright.api.trainer.v1alpha1 import ClusterTrainingRuntime, RuntimeRef, TrainJob
from trainwright.api.trainer.v1alpha1.constants import KEY_RUNTIME_SNAPSHOT, SUFFIX_RUNTIME_SNAPSHOT
from trainwright.api.trainer.v1alpha1.runtimes import RUNTIMES, Runtime
from trainwright.api.typed import as_typed
from trainwright.controller.runtime import (
    AlreadyExists,
    Client,
    Conflict,
    Key,
    KubernetesError,
    MetadataOnly,
    NotFound,
    Terminal,
)
from trainwright.controller.runtime.cache.cache import Cache

INDEX = "runtime"
"""Name of the index of TrainJobs by `reference`."""

_BY_KIND: dict[tuple[str, str], type[Runtime]] = {(kind.RESOURCE.group, kind.RESOURCE.kind): kind for kind in RUNTIMES}
_DEFAULT = ClusterTrainingRuntime.RESOURCE


SNAPSHOTS = MetadataOnly(ConfigMap.RESOURCE)
"""The kind under which the cache holds snapshots."""

LARGEST_CONFIG_MAP = 1024 * 1024
"""Bytes of data that a ConfigMap holds (https://kubernetes.io/docs/concepts/configuration/configmap/)."""
_KEPT = 256
"""How many runtimes are kept as text and as decoded objects; a cluster has dozens."""
_YAML_FACTOR = 4
"""How many times larger YAML may be than JSON, in templates of real runtimes with deep lists."""
_CONTENTS = 50_000
"""How many snapshots have the digest of their content kept, by uid and resource version: one per job."""


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


class SnapshotInvalid(KubernetesError):  # noqa: N818 - as the condition's reason
    """The ConfigMap is not this job's, or does not hold its runtime. Retry: foreign ConfigMaps are not watched."""


class Snapshots:
    """Gives each job its runtime, and takes the snapshot if there is none."""

    RULES = (Rule.on(ConfigMap.RESOURCE, *READ, "create"), *(Rule.on(runtime.RESOURCE, "get") for runtime in RUNTIMES))

    def __init__(self, client: Client, cache: Cache) -> None:
        self._client = client
        self._cache = cache
        self.runtimes = Runtimes(cache)
        self._texts: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._decoded: OrderedDict[bytes, Runtime] = OrderedDict()
        self._contents: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    async def runtime_of(self, job: TrainJob, text: str = "") -> Runtime:
        """The runtime that the job is built from. It is shared: do not change it.

        `text`: what a new snapshot holds, as `current` gave it; empty: the runtime as it is now.

        Raises:
            RuntimeMissing: there is neither a snapshot nor a runtime.
            RuntimeUnsupported: the job refers to a kind that is not a runtime.
            SnapshotInvalid: the snapshot cannot be used, or another object has its name.
            Conflict: the cache is behind; retry.
            KubernetesError: the API server does not answer, or refuses.
        """
        kept = await self.existing(job)
        return kept if kept is not None else await self._take(job, text or await self.current(job))

    async def existing(self, job: TrainJob) -> Runtime | None:
        """The runtime of the job's snapshot; None if there is no snapshot. Never takes one: admission asks too.

        Raises SnapshotInvalid, KubernetesError.
        """
        name = name_of_snapshot(job)
        found = self._cache.get(SNAPSHOTS, name, job.namespace)
        if found is None:
            return None
        _owned(found, job)
        known = self._contents.get(_version(found), b"")
        if known in self._decoded:
            self._contents.move_to_end(_version(found))
            self._decoded.move_to_end(known)
            return _checked(self._decoded[known], job, name)
        try:
            content = await self._client.get(ConfigMap, name, job.namespace)
        except NotFound:
            return None
        return _checked(self._remember(content, _text_in(content), job), job, name)

    def taken(self, job: TrainJob) -> AnyObject | None:
        """The metadata of the job's snapshot, the first object that is made for a job, if the cache holds it."""
        found: AnyObject | None = self._cache.get(SNAPSHOTS, name_of_snapshot(job), job.namespace)
        return found

    def holding(self, job: TrainJob, runtime: Runtime) -> AnyObject | None:
        """As `taken`, if it is known to hold this runtime: somebody may have edited it since the runtime was read."""
        found = self.taken(job)
        known = self._contents.get(_version(found), b"") if found is not None else b""
        return found if self._decoded.get(known) is runtime else None

    async def current(self, job: TrainJob) -> str:
        """What a snapshot holds that is taken now. Raises RuntimeMissing, RuntimeUnsupported, KubernetesError."""
        return await self._text(self.runtimes.of(job))

    async def _take(self, job: TrainJob, text: str) -> Runtime:
        name = name_of_snapshot(job)
        document = {
            "apiVersion": ConfigMap.RESOURCE.api_version,
            "kind": ConfigMap.RESOURCE.kind,
            "metadata": {
                "name": name,
                "namespace": job.namespace,
                "ownerReferences": [owner_reference(job, TrainJob.RESOURCE)],
            },
            "data": {KEY_RUNTIME_SNAPSHOT: text},
        }
        try:
            created = await self._client.create(document, kind=ConfigMap.RESOURCE)
        except AlreadyExists as error:
            # A foreign ConfigMap, which the cache does not hold, or one whose event has not arrived yet.
            found = await self._client.get(ConfigMap, name, job.namespace)
            _owned(found, job)
            raise Conflict(f"ConfigMap {name} was created a moment ago") from error
        return self._remember(created, text, job)

    async def _text(self, live: Runtime) -> str:
        version = _version(live)
        text = self._texts.get(version)
        if text is None:
            resource = live.RESOURCE
            try:
                stored = await self._client.get(resource, live.name, live.namespace)
            except NotFound as error:
                raise RuntimeMissing(
                    f"{resource.kind} {live.name} was deleted a moment ago; create it again"
                ) from error
            # managedFields say who wrote the runtime, and would be most of the text.
            stored["metadata"].pop("managedFields", None)
            _type_template(stored)
            text = dump({**stored, "apiVersion": resource.api_version, "kind": resource.kind})
            version = _version(stored)
            self._texts[version] = text
        self._texts.move_to_end(version)
        _trim(self._texts, _KEPT)
        return text

    def _remember(self, snapshot: AnyObject, text: str, job: TrainJob) -> Runtime:
        digest = hashlib.sha256(text.encode()).digest()
        if digest not in self._decoded:
            self._decoded[digest] = _decode(text, name_of(snapshot), job)
        self._decoded.move_to_end(digest)
        runtime = self._decoded[digest]
        _trim(self._decoded, _KEPT)
        self._contents[_version(snapshot)] = digest
        _trim(self._contents, _CONTENTS)
        return runtime


def too_large(runtime: Runtime) -> int | None:
    """The size of the runtime's snapshot in bytes if no ConfigMap can hold it; else None.

    A close estimate: YAML is larger than JSON, mostly by indentation. So only a runtime whose JSON is large is written
    as YAML, which takes a second for each megabyte.
    """
    document = msgspec.to_builtins(runtime)
    if len(msgspec.json.encode(document)) < LARGEST_CONFIG_MAP // _YAML_FACTOR:
        return None
    document.get("metadata", {}).pop("managedFields", None)
    size = len(dump(document).encode())
    return size if size > LARGEST_CONFIG_MAP else None


def name_of_snapshot(job: TrainJob) -> str:
    return job.name + SUFFIX_RUNTIME_SNAPSHOT


def runtime_in(snapshot: ConfigMap, job: TrainJob) -> Runtime:
    """The runtime that a snapshot holds, for whoever reads one without a cache. Raises SnapshotInvalid."""
    _owned(snapshot, job)
    return _checked(_decode(_text_in(snapshot), name_of(snapshot), job), job, name_of(snapshot))


def _text_in(snapshot: ConfigMap) -> str:
    text = (snapshot.data or {}).get(KEY_RUNTIME_SNAPSHOT)
    if text is None:
        raise SnapshotInvalid(
            f"ConfigMap {name_of(snapshot)} has no key {KEY_RUNTIME_SNAPSHOT}; delete it, and a new snapshot is taken"
        )
    return text


def _owned(found: AnyObject, job: TrainJob) -> None:
    if not is_controlled_by(found, job):
        raise SnapshotInvalid(
            f"ConfigMap {name_of(found)} is not controlled by this TrainJob, which needs its name; delete it"
        )


def _type_template(stored: Document) -> None:
    template = stored.get("spec", {}).get("template", {})
    for name, model in (("metadata", ObjectMeta), ("spec", JobSetSpec)):
        if name in template:
            template[name] = as_typed(model, template[name])


def _version(obj: AnyObject) -> tuple[str, str]:
    return (uid_of(obj), resource_version_of(obj))


def _trim(kept: OrderedDict[Any, Any], most: int) -> None:
    while len(kept) > most:
        kept.popitem(last=False)


def _decode(text: str, name: str, job: TrainJob) -> Runtime:
    try:
        data = load(text)
        if not isinstance(data, dict):
            raise SnapshotInvalid(f"ConfigMap {name} does not hold an object; delete it, and a new snapshot is taken")
        runtime: Runtime = msgspec.convert(data, kind_of_runtime(job))
    except (ManifestError, msgspec.ValidationError) as error:
        problem = f"ConfigMap {name} does not hold a runtime ({error}); delete it, and a new snapshot is taken"
        raise SnapshotInvalid(problem) from error
    runtime.set_defaults()
    return runtime


def _checked(runtime: Runtime, job: TrainJob, name: str) -> Runtime:
    kind = kind_of_runtime(job).RESOURCE
    reference = job.spec_or_empty.runtime_ref
    expected = (kind.kind, kind.group, reference.name)
    group = (runtime.api_version or "").rpartition("/")[0]
    if (runtime.kind, group, runtime.name) != expected:
        found = f"{runtime.kind or 'an object without a kind'} {runtime.name} of {group or 'no group'}"
        wanted = f"{kind.kind} {expected[2]} of {kind.group}"
        raise SnapshotInvalid(f"ConfigMap {name} holds {found}, not {wanted}; delete it, and a new snapshot is taken")
    return runtime
