# SPDX-License-Identifier: Apache-2.0
"""CustomResourceDefinitions: what they define is served as soon as they are there.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

import asyncio
import copy
import logging
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import msgspec

from trainwright.api import times
from trainwright.api.conditions import find, set_condition
from trainwright.api.objects import Document, dig
from trainwright.api.times import Now, wall_clock
from trainwright.controller.local.apiserver.kinds.conversion import WebhookConversion
from trainwright.controller.local.apiserver.kinds.custom import CustomStrategy
from trainwright.controller.local.apiserver.kinds.definition_strategy import (
    CLEANUP,
    PENDING,
    accepted_names,
    set_terminating,
)
from trainwright.controller.local.apiserver.kinds.registry import (
    CUSTOM_VERBS,
    Conversion,
    Resource,
    ResourceRegistry,
    ScalePaths,
    version_priority,
)
from trainwright.controller.local.apiserver.merge.fieldmanager import custom_resource_managers
from trainwright.controller.local.apiserver.schema.published.kinds import STATUS_VERBS, Column, Subresource
from trainwright.controller.local.apiserver.store import (
    Changed,
    ObjectName,
    ObjectStore,
    ObjectTooLarge,
    Overflow,
    StoredObject,
    StoreWatch,
)

log = logging.getLogger(__name__)

_MANAGER = "kube-apiserver"
COLLECTION = "customresourcedefinitions.apiextensions.k8s.io"
_SCALE_PATHS = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
_IN_PROGRESS = "InstanceDeletionInProgress", "CustomResource deletion is in progress"


class _Held(NamedTuple):
    """A definition that is being deleted and waits for finalizers of its objects."""

    name: ObjectName
    uid: str
    """Another definition may get the name."""
    collection: str
    """Of its objects."""


class DefinitionsState(NamedTuple):
    """What is served of the definitions of a store, so that another server need not read them again."""

    there: tuple[StoredObject, ...]
    names: dict[ObjectName, tuple[str, Document]]
    resources: tuple[Resource, ...]


class Definitions:
    """Keeps the registry in step with the CRDs in the store."""

    def __init__(self, store: ObjectStore, registry: ResourceRegistry, *, now: Now = wall_clock) -> None:
        self._store = store
        self._registry = registry
        self._now = now
        self._served: dict[ObjectName, tuple[str, Document]] = {}
        """What is served of which definition: its uid, since another one may get the name, and its spec."""
        self._held: dict[_Held, asyncio.Task[None] | None] = {}
        """With what follows their objects."""
        self._loaded: tuple[StoredObject, ...] | None = None
        """The definitions as of the last time that all of them were looked at."""

    def state(self) -> DefinitionsState:
        """What is served now."""
        resources = tuple(served for served in self._registry if served.custom)
        return DefinitionsState(self._there(), dict(self._served), resources)

    def restore(self, state: DefinitionsState) -> None:
        """Serve what another server of the same definitions served."""
        self._served.update(state.names)
        for served in state.resources:
            self._registry.add(served)
        self._loaded = state.there

    def _there(self) -> tuple[StoredObject, ...]:
        return tuple(self._store.collection(COLLECTION).listed())

    def load(self) -> None:
        """Serve what the definitions in the store define, and nothing else."""
        there = self._there()
        if there == self._loaded:
            return
        uids = {one.name: one.document()["metadata"]["uid"] for one in there}
        for name in [name for name, (uid, _) in self._served.items() if uids.get(name) != uid]:
            self._forget(name)
        for one in there:
            self._serve(one)
        # What this has written itself is looked at again.
        self._loaded = there

    async def run(self) -> None:
        """Follow the definitions until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                since = self._store.version
                self.load()
                watch = self._store.watch(COLLECTION, since)
                try:
                    await self._keep_up(watch, tasks)
                except Overflow:
                    log.info("more definitions changed at once than a watch holds; all are looked at again")
                finally:
                    self._store.unwatch(COLLECTION, watch)

    async def _keep_up(self, watch: StoreWatch, tasks: asyncio.TaskGroup) -> None:
        """Act on what changes. Raises Overflow."""
        while True:
            for held in [held for held, following in self._held.items() if following is None]:
                self._held[held] = tasks.create_task(self._follow(held))
            for change in await watch.take():
                if change.type == "DELETED":
                    self._forget(change.name)
                    self._reconsider(change.object.document()["spec"]["group"], change.name)
                elif self._store.get(COLLECTION, change.name) is change.object:
                    self._serve(change.object)

    async def _follow(self, held: _Held) -> None:
        """Clean up a definition again whenever one of its objects goes, until it is gone itself."""
        watch = self._store.watch(held.collection, self._store.version)
        try:
            while (one := self._store.get(COLLECTION, held.name)) is not None:
                document = one.document()
                if document["metadata"]["uid"] != held.uid:
                    return
                self._clean_up(one, document)
                try:
                    await watch.take()
                except Overflow:
                    # The objects are looked at again, whatever became of them.
                    self._store.unwatch(held.collection, watch)
                    watch = self._store.watch(held.collection, self._store.version)
        finally:
            self._store.unwatch(held.collection, watch)
            del self._held[held]

    def _reconsider(self, group: str, name: ObjectName) -> None:
        """Look at the other definitions of a group again: one of them may want a name that is free now."""
        for one in list(self._store.collection(COLLECTION).listed()):
            # An earlier one of them may have changed it.
            if one.name != name and self._store.get(COLLECTION, one.name) is one:
                document = one.document()
                if document["spec"]["group"] == group and not document["metadata"].get("deletionTimestamp"):
                    self._serve(one)

    def _serve(self, one: StoredObject) -> None:
        document = one.document()
        spec = document["spec"]
        if document["metadata"].get("deletionTimestamp"):
            if one.name not in self._served:
                # After a restart: objects that are still there are served until their finalizers are gone.
                self._register(one.name, document)
            if (find((document.get("status") or {}).get("conditions"), "Terminating") or {}).get("reason") == PENDING:
                set_terminating(document, *_IN_PROGRESS, times.format_time(self._now()))
                self._write(one, self._tracked(one, document))
            else:
                self._clean_up(one, document)
        elif self._write_status(one, document) and self._served.get(one.name, ("", None))[1] != spec:
            self._register(one.name, document)

    def _register(self, name: ObjectName, document: Document) -> None:
        spec = document["spec"]
        self._registry.remove(spec["group"], spec["names"]["plural"])
        changed = document["metadata"].get("generation", 1) > 1
        if (spec.get("conversion") or {}).get("webhook") is not None:
            # What a webhook has answered is not shared by servers of one process.
            versions: Iterable[Resource] = served_versions(spec, changed=changed)
        else:
            versions = _compiled_versions(msgspec.json.encode(spec), changed=changed)
        for served in versions:
            self._registry.add(served)
        self._served[name] = document["metadata"]["uid"], spec

    def _write_status(self, one: StoredObject, document: Document) -> bool:
        """Say in the status which names it has; returns whether it is established."""
        others = [other.document() for other in self._store.collection(COLLECTION).listed() if other.name != one.name]
        names, states = accepted_names(document, others)
        status = dict(document.get("status") or {})
        moment = times.format_time(self._now())
        conditions: list[Document] = list(status.get("conditions") or ())
        for condition in states:
            conditions = set_condition(conditions, condition, at=moment)
        made = {**status, "conditions": conditions, "acceptedNames": names}
        if status != made:
            self._write(one, self._tracked(one, {**document, "metadata": dict(document["metadata"]), "status": made}))
        if status.get("acceptedNames") != names:
            self._reconsider(document["spec"]["group"], one.name)
        return bool(states[1]["status"] == "True")

    def _tracked(self, one: StoredObject, document: Document) -> Document:
        """With managed fields for a write of the status by the server itself."""
        served = self._registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert served is not None
        return served.managers["status"].update(one.document(), document, _MANAGER, now=self._now())

    def _clean_up(self, one: StoredObject, document: Document) -> None:
        """Delete all objects of a deleted definition, then let it go."""
        spec = document["spec"]
        collection = _collection(spec)
        self._registry.refuse_creations(spec["group"], spec["names"]["plural"])
        remaining = 0
        for instance in list(self._store.collection(collection).listed()):
            held = instance.document()
            if held["metadata"].get("finalizers"):
                remaining += 1
                if not held["metadata"].get("deletionTimestamp"):
                    held["metadata"]["deletionTimestamp"] = times.format_time(self._now())
                    held["metadata"]["deletionGracePeriodSeconds"] = 0
                    held["metadata"]["generation"] = held["metadata"].get("generation", 0) + 1
                    self._write(instance, held, collection)
            else:
                self._store.delete(collection, instance)
        if remaining:
            self._held.setdefault(_Held(one.name, document["metadata"]["uid"], collection), None)
        finalizers = document["metadata"].get("finalizers") or []
        if not remaining and CLEANUP in finalizers:
            kept = [name for name in finalizers if name != CLEANUP]
            if kept:
                document["metadata"]["finalizers"] = kept
                self._write(one, document)
            else:
                self._store.delete(COLLECTION, one)

    def _write(self, one: StoredObject, document: Document, collection: str = COLLECTION) -> None:
        try:
            self._store.write(collection, one.name, document, one)
        except Changed:
            # The next change brings it here again.
            log.debug("the definition %s changed meanwhile", one.name.name)
        except ObjectTooLarge:
            log.warning("%s %s is too large to be changed", collection, one.name.name)

    def _forget(self, name: ObjectName) -> None:
        _, spec = self._served.pop(name, ("", None))
        if spec is not None:
            self._registry.remove(spec["group"], spec["names"]["plural"])
            for watch in list(self._store.collection(_collection(spec)).watches):
                watch.end()


def _collection(spec: Document) -> str:
    return f"{spec['names']['plural']}.{spec['group']}"


@lru_cache(maxsize=32)
def _compiled_versions(spec: bytes, *, changed: bool) -> tuple[Resource, ...]:
    """`served_versions` of an encoded spec. Compiling is dear; servers of one process share it."""
    return tuple(served_versions(msgspec.json.decode(spec), changed=changed))


def served_versions(spec: Document, *, changed: bool = False) -> list[Resource]:
    """What a definition serves, by version. If it was `changed`, stored objects may not fit the schema."""
    names, group, versions = spec["names"], spec["group"], spec["versions"]
    kind = names["kind"]
    managers = custom_resource_managers(spec)
    schemas = {one["name"]: (one.get("schema") or {}).get("openAPIV3Schema") for one in versions}
    endpoints = {one["name"]: one.get("subresources") or {} for one in versions}
    strategies = {
        name: CustomStrategy(schema, has_status="status" in endpoints[name]) for name, schema in schemas.items()
    }
    storage = next(one["name"] for one in versions if one["storage"])
    asked = (spec.get("conversion") or {}).get("webhook")
    webhook = WebhookConversion(asked, kind) if asked is not None else None
    differ = any(schema != schemas[storage] for schema in schemas.values())
    # Reading gives such an object a status although creating it takes away what it says, as in Gateway API.
    initial = {name: dig(schema, "properties.status.default") for name, schema in schemas.items()}
    fills = any("status" in endpoints[name] and initial[name] is not None for name in schemas)
    converts = changed or differ or fills or webhook is not None
    made: list[Resource] = []
    for version in versions:
        if not version.get("served"):
            continue
        name = version["name"]
        api_version, stored_as, scale = f"{group}/{name}", f"{group}/{storage}", endpoints[name].get("scale")
        to, back = _conversions(kind, stored_as, strategies[storage], api_version, strategies[name], webhook)
        rows = (
            Subresource("scale", "Scale", STATUS_VERBS, "autoscaling", "v1"),
            Subresource("status", kind, STATUS_VERBS),
        )
        made.append(
            Resource(
                group=group,
                version=name,
                kind=kind,
                plural=names["plural"],
                singular=names.get("singular") or kind.lower(),
                namespaced=spec["scope"] == "Namespaced",
                strategy=strategies[name],
                managers={sub: manager for (served, sub), manager in managers.items() if served == api_version},
                columns=tuple(map(_column, version.get("additionalPrinterColumns") or ())),
                verbs=CUSTOM_VERBS,
                subresources={row.name: row for row in rows if endpoints[name].get(row.name) is not None},
                scale=None if scale is None else ScalePaths(*(str(scale.get(one) or "")[1:] for one in _SCALE_PATHS)),
                list_kind=names.get("listKind") or "",
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                storage_version=storage,
                custom=True,
                schema=schemas[name],
                selectable=tuple(field["jsonPath"] for field in version.get("selectableFields") or ()),
                warning=_deprecation(group, kind, version, versions),
                to_storage=to if converts else None,
                from_storage=back if converts else None,
                conversion=webhook,
            )
        )
    return made


def _column(wanted: Document) -> Column:
    path = wanted["jsonPath"]
    return Column(
        wanted["name"],
        wanted["type"],
        wanted.get("format") or "",
        wanted.get("priority") or 0,
        path,
        wanted.get("description") or f"Custom resource definition column (in JSONPath format): {path}",
    )


def _conversions(
    kind: str,
    stored_as: str,
    storage: CustomStrategy,
    api_version: str,
    strategy: CustomStrategy,
    webhook: WebhookConversion | None,
) -> tuple[Conversion, Conversion]:
    """From a version to the stored one, and back: what a schema does not know goes, and reading fills in defaults."""

    def to_storage(document: Document) -> Document:
        """The stored form of an object, which shares nothing that is changed."""
        if document["apiVersion"] == stored_as:
            return document
        if webhook is not None:
            made = webhook.converted(document, stored_as)
        else:
            made = {**copy.deepcopy(document), "apiVersion": stored_as}
        storage.drop_unknown(made)
        return made

    def from_storage(document: Document) -> Document:
        """This version's form of a stored object, which may be changed."""
        if webhook is not None:
            if document["apiVersion"] != api_version:
                document = webhook.converted(document, api_version)
            strategy.drop_unknown(document)
            strategy.default(document)
            return document
        storage.drop_unknown(document)
        storage.default(document)
        document["apiVersion"], document["kind"] = api_version, kind
        if api_version != stored_as:
            strategy.drop_unknown(document)
        return document

    return to_storage, from_storage


def _deprecation(group: str, kind: str, version: Document, versions: list[Document]) -> str:
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning") is not None:
        return str(version["deprecationWarning"])
    text = f"{group}/{version['name']} {kind} is deprecated"
    own = version_priority(version["name"])
    fresh = [other["name"] for other in versions if other.get("served") and not other.get("deprecated")]
    newer = [name for name in fresh if version_priority(name) < own]
    return f"{text}; use {group}/{min(newer, key=version_priority)} {kind}" if newer else text
