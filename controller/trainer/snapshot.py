# SPDX-License-Identifier: Apache-2.0
"""The runtime that a TrainJob was made with, kept beside it (KEP-2599).

A job must not change its shape because somebody edits or deletes its runtime. So the runtime, as it was when the job
was first looked at, is written into the ConfigMap `<job>-runtime-snapshot`, once, before anything else of the job, and
from then on the job is built from there. Deleting the ConfigMap makes the next look take the runtime as it is then.

What is written is the object as the API server has it, fields included that this version does not know; it is read
live for that, once per version of the runtime and not once per job. Its template is in the form that the original gives
it (`as_typed`), which is also the one that jobs are built from. Of ConfigMaps only the metadata is watched: the
content of a snapshot is read once per version of the snapshot, and equal contents are decoded once.
"""

import hashlib
from collections import OrderedDict
from typing import Any

import msgspec

from trainwright.api.jobset.v1alpha2 import JobSetSpec
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.manifest import ManifestError, dump, load
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.constants import KEY_RUNTIME_SNAPSHOT, SUFFIX_RUNTIME_SNAPSHOT
from trainwright.api.typed import as_typed
from trainwright.controller.runtime import Cache, Client, Key, MetadataOnly
from trainwright.controller.runtime.apply.owner import owner_reference
from trainwright.controller.runtime.errors import AlreadyExists, Conflict, KubernetesError, NotFound
from trainwright.controller.runtime.objects import (
    AnyObject,
    Document,
    controller_of,
    name_of,
    resource_version_of,
    uid_of,
)
from trainwright.controller.runtime.rights import READ, Rule
from trainwright.controller.trainer.runtimes import RUNTIMES, Runtime, RuntimeMissing, Runtimes, kind_of_runtime

SNAPSHOTS = MetadataOnly(ConfigMap.RESOURCE)
"""How the cache holds them."""

_KEPT = 256
"""Runtimes whose text or decoded form is kept: clusters have dozens."""


class SnapshotInvalid(KubernetesError):  # noqa: N818 - as the condition's reason
    """The ConfigMap is not this job's, or does not hold its runtime. Whose the name is, is not watched: look again."""


class Snapshots:
    """Gives each job its runtime, taking the snapshot when there is none."""

    RULES = (
        Rule.on(ConfigMap.RESOURCE, *READ, "create"),
        *(Rule.on(runtime.RESOURCE, "get") for runtime in RUNTIMES),
    )

    def __init__(self, client: Client, cache: Cache, runtimes: Runtimes) -> None:
        self._client = client
        self._cache = cache
        self._runtimes = runtimes
        self._texts: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._decoded: OrderedDict[bytes, Runtime] = OrderedDict()
        self._contents: dict[Key, tuple[str, bytes]] = {}

    async def runtime_of(self, job: TrainJob) -> Runtime:
        """The runtime that the job is built from: shared, not to be changed.

        Raises:
            RuntimeMissing: there is neither a snapshot nor a runtime.
            RuntimeUnsupported: the job refers to no runtime.
            SnapshotInvalid: the snapshot cannot be used, or its name is taken.
            Conflict: the cache is behind; try again.
            KubernetesError: the API server could not be asked or refused.
        """
        kept = await self.existing(job)
        return kept if kept is not None else await self._take(job, Key(job.namespace, _name(job)))

    async def existing(self, job: TrainJob) -> Runtime | None:
        """The runtime of the job's snapshot, or None while there is none. Takes none, since admission asks as well.

        Raises SnapshotInvalid, KubernetesError.
        """
        name = _name(job)
        key = Key(job.namespace, name)
        found = self._cache.get(SNAPSHOTS, name, job.namespace)
        if found is None:
            return None
        _owned(found, job)
        version = resource_version_of(found)
        known = self._contents.get(key)
        if known is not None and known[0] == version and known[1] in self._decoded:
            self._decoded.move_to_end(known[1])
            return _checked(self._decoded[known[1]], job, name)
        try:
            content = await self._client.get(ConfigMap, name, job.namespace)
        except NotFound:
            return None
        text = (content.data or {}).get(KEY_RUNTIME_SNAPSHOT)
        if text is None:
            raise SnapshotInvalid(f"ConfigMap {name} has no key {KEY_RUNTIME_SNAPSHOT}: delete it to take it anew")
        return _checked(self._remember(key, resource_version_of(content), text, job), job, name)

    def forget(self, job: Key) -> None:
        """The job is gone."""
        self._contents.pop(Key(job.namespace, job.name + SUFFIX_RUNTIME_SNAPSHOT), None)

    async def _take(self, job: TrainJob, key: Key) -> Runtime:
        live = self._runtimes.of(job)
        text = await self._text(live)
        document = {
            "apiVersion": ConfigMap.RESOURCE.api_version,
            "kind": ConfigMap.RESOURCE.kind,
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "ownerReferences": [owner_reference(job, TrainJob.RESOURCE)],
            },
            "data": {KEY_RUNTIME_SNAPSHOT: text},
        }
        try:
            created = await self._client.create(document, kind=ConfigMap.RESOURCE)
        except AlreadyExists as error:
            # Somebody else's, which the cache does not hold, or one whose event has not arrived.
            found = await self._client.get(ConfigMap, key.name, key.namespace)
            _owned(found, job)
            raise Conflict(f"ConfigMap {key.name} appeared a moment ago", code=409, reason="Conflict") from error
        return self._remember(key, resource_version_of(created), text, job)

    async def _text(self, live: Runtime) -> str:
        """The runtime as YAML, as the API server has it now."""
        version = (uid_of(live), resource_version_of(live))
        text = self._texts.get(version)
        if text is None:
            resource = live.RESOURCE
            try:
                stored = await self._client.get(resource, live.name, live.namespace)
            except NotFound as error:
                raise RuntimeMissing(f"{resource.kind} {live.name} was deleted a moment ago: create it") from error
            # managedFields describe who wrote the original, and would be most of the text.
            stored["metadata"].pop("managedFields", None)
            _type_template(stored)
            text = dump({**stored, "apiVersion": resource.api_version, "kind": resource.kind})
            version = (stored["metadata"]["uid"], stored["metadata"]["resourceVersion"])
            self._texts[version] = text
        self._texts.move_to_end(version)
        _trim(self._texts)
        return text

    def _remember(self, key: Key, version: str, text: str, job: TrainJob) -> Runtime:
        digest = hashlib.sha256(text.encode()).digest()
        if digest not in self._decoded:
            self._decoded[digest] = _decode(text, key.name, job)
        self._decoded.move_to_end(digest)
        runtime = self._decoded[digest]
        _trim(self._decoded)
        self._contents[key] = (version, digest)
        return runtime


def _name(job: TrainJob) -> str:
    return job.name + SUFFIX_RUNTIME_SNAPSHOT


def _owned(found: AnyObject, job: TrainJob) -> None:
    controller = controller_of(found)
    if controller is None or controller.uid != uid_of(job):
        raise SnapshotInvalid(
            f"ConfigMap {name_of(found)} is not controlled by this TrainJob, and its name is needed: delete it"
        )


def _type_template(stored: Document) -> None:
    template = stored.get("spec", {}).get("template", {})
    for name, model in (("metadata", ObjectMeta), ("spec", JobSetSpec)):
        if name in template:
            template[name] = as_typed(model, template[name])


def _trim(kept: OrderedDict[Any, Any]) -> None:
    while len(kept) > _KEPT:
        kept.popitem(last=False)


def _decode(text: str, name: str, job: TrainJob) -> Runtime:
    try:
        data = load(text)
        if not isinstance(data, dict):
            raise SnapshotInvalid(f"ConfigMap {name} holds no object: delete it to take it anew")
        runtime: Runtime = msgspec.convert(data, kind_of_runtime(job))
    except (ManifestError, msgspec.ValidationError) as error:
        raise SnapshotInvalid(f"ConfigMap {name} holds no runtime ({error}): delete it to take it anew") from error
    runtime.set_defaults()
    return runtime


def _checked(runtime: Runtime, job: TrainJob, name: str) -> Runtime:
    """The runtime, if it is the one that the job refers to."""
    kind = kind_of_runtime(job).RESOURCE
    reference = job.spec.runtime_ref if job.spec is not None else None
    expected = (kind.kind, kind.group, reference.name if reference is not None else "")
    group = (runtime.api_version or "").rpartition("/")[0]
    if (runtime.kind, group, runtime.name) != expected:
        raise SnapshotInvalid(
            f"ConfigMap {name} holds {runtime.kind} {runtime.name} and not {expected[0]} {expected[2]}: "
            "delete it to take it anew"
        )
    return runtime
