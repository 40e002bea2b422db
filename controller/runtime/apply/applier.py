# SPDX-License-Identifier: Apache-2.0
"""Applies wanted objects: compares each with the cache, writes only on a difference, and uses the answer at once.

Guarantees: nothing is sent for an object that already matches. An object with another controller is never changed, even
if it appeared under the wanted name a moment ago: the first write creates or is refused, later writes carry the uid. A
field that is no longer wanted is removed, because writes are server-side apply.

Assumptions: documents contain exactly the fields to own. The kinds are declared to the cache; otherwise each comparison
costs a read. Caveat: a Conflict means that the object has a new controller or uid. Raise it; the next reconcile sees
the new state.
"""

import logging
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from trainwright.api.base import Resource
from trainwright.api.objects import (
    AnyObject,
    Document,
    Key,
    controller_of,
    key_of,
    managed_fields_of,
    name_of,
    namespace_of,
    owner_reference,
    resource_version_of,
    uid_of,
    wire,
)
from trainwright.api.ownership import without_emptied
from trainwright.controller.runtime.apply.compare import ApplyMemory, FieldComparison, compare, differences
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import (
    ConfigurationError,
    Conflict,
    Forbidden,
    Invalid,
    NotControlled,
    NotFound,
    NotSynced,
)
from trainwright.controller.runtime.kinds import Kind, MetadataOnly, kind_of, resource_of, type_name

log = logging.getLogger(__name__)

CONTENTS = 4096
NO_VERSION = "1"
"""A resourceVersion that no object has: the first revision of etcd holds none. An apply that carries it creates the
object, or is answered 409 if there is one."""
STATUS_ATTEMPTS = 5
"""How often a status is sent while others change the object."""


class Action(StrEnum):
    """What `apply` did with an object."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Applied:
    """An object after `apply`: from the answer of the server, or from the cache."""

    action: Action
    kind: Kind
    key: Key
    obj: AnyObject


class Applier:
    """Applies objects as one field manager."""

    def __init__(self, client: Client, cache: Cache, *, field_manager: str) -> None:
        self._client = client
        self._cache = cache
        self.field_manager = field_manager
        self.memory = ApplyMemory()
        self._contents: OrderedDict[tuple[Kind, Key], AnyObject] = OrderedDict()

    async def apply(
        self,
        objects: Iterable[AnyObject],
        *,
        owner: AnyObject | None = None,
        prune: Iterable[Kind] = (),
        adopt: bool = False,
    ) -> list[Applied]:
        """Apply each object in order. Then delete all other objects of the `prune` kinds that `owner` controls.

        `owner` becomes the controller of each object. `adopt`: also take over objects without a controller. Raises
        NotControlled (that object was not changed), Conflict, Invalid, Forbidden, ServerError, TransportError.
        """
        results = [await self._apply_one(obj, owner, adopt=adopt) for obj in objects]
        if owner is not None:
            wanted = {(resource_of(result.kind), result.key) for result in results}
            for kind in prune:
                results += await self._prune(kind, uid_of(owner), wanted)
        return results

    async def apply_status(self, obj: AnyObject) -> Applied:
        """Apply the status of an existing object. Only the name, the status and, if there is one, the uid are used.

        The object with the uid of `obj` gets it, without one that which the cache shows: an object that was recreated
        under the same name never gets the status of the one before. If another program changes the object meanwhile, it
        is read and written again.

        Raises NotFound if the object does not exist, Conflict if it was replaced or changes too often.
        """
        kind = self.kind_of(obj)
        key = key_of(obj)
        full = wire(obj)
        address = {"name": key.name, "namespace": key.namespace} if key.namespace else {"name": key.name}
        document: Document = {"metadata": address, "status": full.get("status") or {}}
        live = await self._live(kind, key)
        uid = uid_of(obj) or (uid_of(live) if live is not None else "")
        attempt = 0
        while True:
            attempt += 1
            if live is None:
                raise NotFound(f"{resource_of(kind).kind} {key} does not exist")
            if uid_of(live) != uid:
                raise _replaced()
            if self._as_wanted(document, live, "status"):
                return Applied(Action.UNCHANGED, kind, key, live)
            try:
                answer = await self._send(kind, document, live, subresource="status")
            except Conflict:
                if attempt == STATUS_ATTEMPTS:
                    raise
                live = await self._read(kind, key)
            else:
                return Applied(Action.CHANGED, kind, key, answer)

    # ------------------------------------------------------------------ one object

    async def _apply_one(self, obj: AnyObject, owner: AnyObject | None, *, adopt: bool) -> Applied:
        kind = self.kind_of(obj)
        resource = resource_of(kind)
        key = key_of(obj)
        document = wire(obj)
        if owner is not None:
            owner_kind = resource_of(kind_of(owner, self._cache.known_kinds()))
            document = owned_document(document, resource, owner, owner_kind)
        owner_uid = uid_of(owner) if owner is not None else ""
        live = await self._live(kind, key)
        if live is None:
            return Applied(Action.CREATED, kind, key, await self._create(kind, key, document, owner_uid, adopt=adopt))
        if owner is not None:
            refuse_foreign(live, resource.kind, owner_uid, adopt=adopt)
        elif controller_of(live) is not None and not _claims(document, live):
            refuse_foreign(live, resource.kind, "", adopt=False)
        if self._as_wanted(document, live, ""):
            return Applied(Action.UNCHANGED, kind, key, live)
        return Applied(Action.CHANGED, kind, key, await self._send(kind, document, live))

    def kind_of(self, obj: AnyObject) -> Kind:
        """The kind with full content, also if the cache holds only metadata.

        Raises ConfigurationError for a document of a kind that neither the cache nor the client knows.
        """
        known = self._cache.known_kinds()
        name = type_name(obj)
        if name is not None and name not in known:
            known = self._client.known_kinds()
        kind: Kind = _content_kind(kind_of(obj, known))
        return kind

    async def _create(self, kind: Kind, key: Key, document: Document, owner_uid: str, *, adopt: bool) -> AnyObject:
        """Create without force: if the cache misses an existing object, the write fails instead of changing it.

        Without force alone, an object that has none of the wanted fields would be changed. So what gets an owner also
        says that it must not exist.
        """
        try:
            return await self._write(kind, document, None, "", must_be_new=bool(owner_uid))
        except (Conflict, Invalid):
            try:
                current = await self._read(kind, key)
            except Forbidden:
                # A role may allow to list and not to get. Then the refusal of the write says more than this one.
                current = None
            if current is None:
                raise
            refuse_foreign(current, resource_of(kind).kind, owner_uid, adopt=adopt)
        return await self._send(kind, document, current)

    async def _send(
        self, kind: Kind, document: Document, live: AnyObject | None, *, subresource: str = ""
    ) -> AnyObject:
        if live is not None:
            owned = managed_fields_of(live, self.field_manager, subresource) or {}
            reduced = without_emptied(document, owned)
            if reduced is not document:
                # The API server would set an emptied field to null. The first write gives up its members.
                live = await self._write(kind, reduced, live, subresource)
        return await self._write(kind, document, live, subresource)

    async def _write(
        self,
        kind: Kind,
        document: Document,
        live: AnyObject | None,
        subresource: str,
        *,
        must_be_new: bool = False,
    ) -> AnyObject:
        given: Document = {"resourceVersion": NO_VERSION} if must_be_new else {}
        if live is not None:
            # With the uid the server refuses if this is another object by now. For the status of a custom resource it
            # takes all metadata but the version from the stored object, so there the version says which one is meant.
            given = {"resourceVersion": resource_version_of(live)} if subresource else {"uid": uid_of(live)}
        sent = {**document, "metadata": {**(document.get("metadata") or {}), **given}} if given else document
        try:
            answer: AnyObject = await self._client.apply(
                sent,
                kind=_content_kind(kind),
                field_manager=self.field_manager,
                force=live is not None,
                subresource=subresource,
            )
        except Invalid as error:
            if live is None or not any(cause.field == "metadata.uid" for cause in error.causes):
                raise
            raise _replaced(error.request) from error
        owned = managed_fields_of(answer, self.field_manager, subresource)
        self.memory.remember(uid_of(answer), subresource, document, wire(answer), owned)
        self._keep_content(kind, key_of(answer), answer)
        return answer

    def _as_wanted(self, document: Document, live: AnyObject, subresource: str) -> bool:
        owned = managed_fields_of(live, self.field_manager, subresource)
        full = wire(live)
        found = FieldComparison.DIFFERENT if owned is None else compare(document, full, owned)
        if found is FieldComparison.SAME:
            return True
        if self.memory.answered(uid_of(live), subresource, document, full, owned):
            return True
        if log.isEnabledFor(logging.DEBUG):
            self._explain(document, full, owned)
        return False

    def _explain(self, document: Document, live: Document, owned: Document | None) -> None:
        name = f"{live.get('kind')} {key_of(live)}"
        if owned is None:
            log.debug("%s: not applied by %s yet", name, self.field_manager)
            return
        for difference in differences(document, live, owned):
            log.debug("%s%s: %s (%s)", name, difference.path, difference.why, difference.comparison.value)

    # ------------------------------------------------------------------ what is there

    async def _live(self, kind: Kind, key: Key) -> AnyObject | None:
        """The object from the cache; if only metadata is cached, its content, read once per version; else a read."""
        declared = [i for i in self._cache.declared(resource_of(kind)) if i.scope.namespace in {"", key.namespace}]
        informers = sorted(declared, key=lambda i: bool(i.scope.label_selector or i.scope.field_selector))
        for informer in informers:
            if informer.kind == kind:
                if not informer.synced:
                    raise NotSynced(f"{informer.resource.plural} ({informer.scope}): the first list has not arrived")
                return informer.store.get(key)
        for informer in informers:
            if isinstance(informer.kind, MetadataOnly) and informer.synced:
                partial = informer.store.get(key)
                return None if partial is None else await self._content(kind, key, resource_version_of(partial))
        return await self._read(kind, key)

    async def _read(self, kind: Kind, key: Key) -> AnyObject | None:
        try:
            obj: AnyObject = await self._client.get(_content_kind(kind), key.name, key.namespace)
        except NotFound:
            return None
        return obj

    async def _content(self, kind: Kind, key: Key, version: str) -> AnyObject | None:
        kept = self._contents.get((kind, key))
        if kept is not None and resource_version_of(kept) == version:
            return kept
        obj = await self._read(kind, key)
        if obj is not None:
            self._keep_content(kind, key, obj)
        return obj

    def _keep_content(self, kind: Kind, key: Key, obj: AnyObject) -> None:
        if not any(isinstance(i.kind, MetadataOnly) for i in self._cache.declared(resource_of(kind))):
            return
        self._contents[kind, key] = obj
        self._contents.move_to_end((kind, key))
        while len(self._contents) > CONTENTS:
            self._contents.popitem(last=False)

    async def _prune(self, kind: Kind, uid: str, wanted: set[tuple[Resource, Key]]) -> list[Applied]:
        results = []
        resource = resource_of(kind)
        for obj in self._cache.controlled_by(kind, uid):
            key = key_of(obj)
            if (resource, key) in wanted:
                continue
            try:
                await self._client.delete(kind, key.name, key.namespace, uid=uid_of(obj), propagation="Background")
            except NotFound:
                log.debug("%s %s was already deleted", resource.kind, key)
            self.memory.forget(uid_of(obj))
            results.append(Applied(Action.DELETED, kind, key, obj))
        return results


def _content_kind(kind: Kind) -> Any:  # each overload of the client takes one representation
    """The kind to read and write with: full content, not metadata."""
    return kind.kind if isinstance(kind, MetadataOnly) else kind


def _replaced(request: str = "") -> Conflict:
    text = "the object was replaced by another one of the same name"
    return Conflict(text, request=request)


def _claims(document: Document, live: AnyObject) -> bool:
    """Whether the document itself names the controller of the live object as its controller."""
    controller = controller_of(live)
    references = (document.get("metadata") or {}).get("ownerReferences") or ()
    return controller is not None and any(r.get("uid") == controller.uid and r.get("controller") for r in references)


def owned_document(document: Document, kind: Resource, owner: AnyObject, owner_kind: Resource) -> Document:
    """The document of `kind` with `owner` as its controller. Other owner references in it stay.

    Raises ConfigurationError if the owner has no uid, is namespaced while the document is cluster-scoped, or is in
    another namespace.
    """
    metadata = document.get("metadata") or {}
    name = f"{kind.kind} {metadata.get('name')}"
    space = namespace_of(owner)
    if not uid_of(owner):
        raise ConfigurationError(
            f"{name}: its owner {owner_kind.kind} {name_of(owner)} has no uid; only a stored object can own others"
        )
    if space and not kind.namespaced:
        raise ConfigurationError(f"{name} is cluster-scoped, and its owner is namespaced; use a cluster-scoped owner")
    if space and metadata.get("namespace") != space:
        raise ConfigurationError(
            f"{name} is in namespace {metadata.get('namespace')!r}, and its owner in {space!r}; use one namespace"
        )
    others = [r for r in metadata.get("ownerReferences") or () if r.get("uid") != uid_of(owner)]
    references = [*others, owner_reference(owner, owner_kind)]
    return {**document, "metadata": {**metadata, "ownerReferences": references}}


def refuse_foreign(live: AnyObject, kind: str, owner_uid: str, *, adopt: bool) -> None:
    """Raise NotControlled unless the owner controls `live`, or `live` has no controller and `adopt` is set."""
    controller = controller_of(live)
    if controller is not None and controller.uid == owner_uid:
        return
    if controller is None and adopt:
        return
    name = name_of(live)
    if controller is None:
        raise NotControlled(f"{kind} {name} exists without a controller and was not changed: delete or rename it")
    raise NotControlled(
        f"{kind} {name} is controlled by {controller.kind} {controller.name} and was not changed: use another name"
    )
