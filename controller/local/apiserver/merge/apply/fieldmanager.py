# SPDX-License-Identifier: Apache-2.0
"""Server-side apply and the tracking of updates, as an endpoint of the API server does them.

Adds to structured merge: the identity of managers, the times of their changes, fields that are never owned, objects
without managed fields, and the limit on the number of managers. Pure: the time is an argument, nothing is stored.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from trainwright.api import times
from trainwright.controller.local.apiserver.merge.apply import fieldset, lastapplied, owners
from trainwright.controller.local.apiserver.merge.apply.capping import cap
from trainwright.controller.local.apiserver.merge.apply.conflict import Conflicts, conflict_error
from trainwright.controller.local.apiserver.merge.apply.errors import (
    BadRequestError,
    ConversionError,
    EntryError,
    InternalError,
    MissingVersionError,
    during,
)
from trainwright.controller.local.apiserver.merge.apply.fieldset import Tree
from trainwright.controller.local.apiserver.merge.apply.merge import TypedMerge, atomic
from trainwright.controller.local.apiserver.merge.apply.openapi import Types
from trainwright.controller.local.apiserver.merge.apply.owners import APPLY, UPDATE, Managed, ManagerIdentity, Ownership
from trainwright.controller.local.apiserver.merge.apply.structured import StructuredMerge
from trainwright.controller.local.apiserver.merge.apply.validation import UnfitError
from trainwright.controller.local.apiserver.merge.apply.versions import (
    Convert,
    Document,
    Typed,
    Versions,
    kind_text,
    same_schema,
    text_of,
)

_IDENTITY = fieldset.of(
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    ),
)
"""Fields that identify an object. They are never owned."""
_BEFORE_FIRST_APPLY = "before-first-apply"


class FieldManager:
    """Applies to and updates objects of one kind through one endpoint.

    Guarantees: documents are not changed; results share branches with those given, and with nothing else. Equal input
    gives equal output.

    Assumptions: live objects are of the kind and version of the request, or can be converted to it. Defaults, pruning
    and validation are the caller's, after an apply and before an update.

    Args:
        types: the schemas of the kind's versions.
        version: apiVersion of the requests.
        kind: of the objects.
        subresource: of the endpoint; empty for the main one.
        reset: fields by apiVersion that the endpoint does not write (`fieldset.of`), such as the status of a kind with
            a status subresource. They are never owned through it.
        convert: to other versions; by default the version of the request is the only one.
        empty: what the server creates objects from; apiVersion and kind alone, as for custom resources, if not given.
    """

    def __init__(
        self,
        types: Types,
        version: str,
        kind: str,
        *,
        subresource: str = "",
        reset: Mapping[str, Tree] | None = None,
        convert: Convert | None = None,
        empty: Document | None = None,
    ) -> None:
        self._version = version
        self.kind = kind
        self._subresource = subresource
        self._versions = Versions(types, convert or same_schema(version))
        self._merge = StructuredMerge(self._versions, version, reset or {})
        # Encoded, so that no request can change it for the next one.
        self._empty = msgspec.json.encode(empty or {"apiVersion": version, "kind": kind})

    def apply(self, live: Document | None, document: Document, manager: str, *, force: bool, now: datetime) -> Document:
        """What a server-side apply makes of an object.

        Args:
            live: the stored object; None if there is none.
            document: what is applied.
            manager: who applies it.
            force: take over what others own.
            now: the time of the request.

        Raises:
            BadRequestError: the document is of another kind or version, or has managedFields.
            ConflictError: others own what it would change.
            InternalError: the document or the stored object does not fit the schema.
        """
        live = self._nothing() if live is None else live
        try:
            managed = owners.read(owners.entries_of(live))
        except EntryError as error:
            raise EntryError(f"failed to decode managed fields: {error}") from error
        applied_as = (text_of(document, "apiVersion"), text_of(document, "kind"))
        if applied_as != (self._version, self.kind):
            raise BadRequestError(f"invalid object type: {kind_text(*applied_as)}")
        moment = times.format_time(now)
        tracked = bool(managed.owners)
        live = _without_entries(live)
        if not tracked:
            managed = self._credited(live, managed, moment)
        try:
            made, managed = self._apply(live, document, managed, manager, moment, force=force)
        except Conflicts as found:
            made, managed = self._apply_over(found, live, document, managed, manager, moment, stored=tracked)
        if manager == lastapplied.MANAGER:
            made = lastapplied.follow(made, document)
        return _with_entries(made, managed)

    def update(self, live: Document | None, new: Document, manager: str, *, now: datetime) -> Document:
        """What an update makes of the managed fields of an object; everything else is as in `new`.

        For everything that writes and is no apply: creations, replacements, patches, and what a mutating webhook
        changed.

        Args:
            live: the stored object; None for a creation.
            new: what is to be stored.
            manager: who updates it.
            now: the time of the request.

        Raises:
            InternalError: an object does not fit the schema. The API server then stores the new one with no managed
                fields (`without_managed_fields`).
        """
        live = self._nothing() if live is None else live
        managed = self._managed_before(live, new)
        new = _without_entries(new)
        if not managed.owners and _uid(live):
            # Untracked objects stay so until the first apply.
            return new
        managed = self._update(_without_entries(live), new, managed, manager, times.format_time(now))
        return _with_entries(new, managed)

    def merged(self, live: Document, document: Document) -> Document:
        """An object with a document merged onto it, whoever owns its fields, as admission policies do.

        Raises:
            InternalError: the document does not fit the schema, or would replace something atomic.
        """
        config = self._typed(document, "failed to create typed patch object", duplicates=False)
        typed = self._typed_live(live, "failed to create typed live object", fitting=config)
        if place := atomic(config.view, config.document):
            raise InternalError(f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {place}")
        made = TypedMerge().merge(typed.view, typed.document, config.document)
        assert isinstance(made, dict)
        return made

    def _nothing(self) -> Document:
        """What an object is created from."""
        made: Document = msgspec.json.decode(self._empty)
        return made

    def _managed_before(self, live: Document, new: Document) -> Managed:
        """The owners that an update starts from: those in the new object, if it says any that can be read."""
        if not self._subresource:
            entries = owners.entries_of(new)
            if owners.is_reset(entries):
                return Managed()
            managed = _read_or_none(entries)
            if managed is not None and managed.owners:
                return managed
        return _read_or_none(owners.entries_of(live)) or Managed()

    def _apply(
        self, live: Document, document: Document, managed: Managed, name: str, moment: str, *, force: bool
    ) -> tuple[Document, Managed]:
        if owners.entries_of(document) is not None:
            raise BadRequestError("metadata.managedFields must be nil")
        config = self._typed(document, "failed to create typed patch object", duplicates=False)
        typed = self._typed_live(live, "failed to create typed live object", fitting=config)
        manager = ManagerIdentity(name or "unknown", APPLY, "", self._subresource)
        made, after = self._merge.apply(typed, config, managed.owners, manager, force=force)
        _strip(after, manager)
        stamps = dict(managed.times)
        if made is None:
            # Nothing changed, so a manager that is new here gets no time at all.
            return live, Managed(after, stamps, managed.as_read)
        return made, Managed(after, {**stamps, manager: moment}, managed.as_read)

    def _apply_over(
        self,
        found: Conflicts,
        live: Document,
        document: Document,
        managed: Managed,
        name: str,
        moment: str,
        *,
        stored: bool,
    ) -> tuple[Document, Managed]:
        """Apply in spite of conflicts that client-side apply excuses."""
        excused = None
        if name == lastapplied.MANAGER:
            excused = lastapplied.allowed(self._in_version(live), self._versions, self._version)
        if excused is None:
            raise conflict_error(found.conflicts, stored=stored)
        if fieldset.difference(found.fields, excused):
            kept = tuple(conflict for conflict in found.conflicts if not fieldset.has(excused, conflict.path))
            raise conflict_error(kept, stored=stored)
        return self._apply(live, document, managed, name, moment, force=True)

    def _credited(self, live: Document, managed: Managed, moment: str) -> Managed:
        """Credit what an untracked object holds, so that the first apply conflicts with it."""
        with during("failed to create manager for existing fields"):
            return self._update(self._nothing(), live, managed, _BEFORE_FIRST_APPLY, moment)

    def _update(self, live: Document, new: Document, managed: Managed, name: str, moment: str) -> Managed:
        after_typed = self._typed_live(new, "failed to convert new object", "to smd typed")
        before_typed = self._typed_live(live, "failed to convert live object", "to smd typed", fitting=after_typed)
        with during(f"failed to update ManagedFields ({_told(new)})"):
            after, changed = self._merge.update(before_typed, after_typed, managed.owners)
        result = Managed(after, dict(managed.times), managed.as_read)
        if changed := fieldset.difference(changed, _IDENTITY):
            manager = ManagerIdentity(name or "unknown", UPDATE, self._version, self._subresource)
            if (before := after.get(manager)) is not None:
                changed = fieldset.union(changed, before.fields)
            after[manager] = Ownership(changed, self._version, applied=False)
            result.times[manager] = moment
        cap(result)
        return result

    def _typed_live(self, document: Document, what: str, into: str = "", *, fitting: Typed | None = None) -> Typed:
        return self._typed(self._in_version(document), what, into, duplicates=True, fitting=fitting)

    def _typed(
        self, document: Document, what: str, into: str = "", *, duplicates: bool, fitting: Typed | None = None
    ) -> Typed:
        try:
            return self._versions.typed(document, duplicates=duplicates, fitting=fitting)
        except (UnfitError, MissingVersionError) as error:
            end = f" {into}" if into else ""
            raise InternalError(f"{what} ({_told(document)}){end}: {error}") from error

    def _in_version(self, document: Document) -> Document:
        if document.get("apiVersion") == self._version:
            return document
        try:
            return self._versions.convert(document, self._version)
        except (ConversionError, MissingVersionError) as error:
            raise InternalError(f"failed to convert object ({_told(document)}) to proper version: {error}") from error


def without_managed_fields(document: Document) -> Document:
    """An object with no managed fields, as it is stored when they cannot be told."""
    return _without_entries(document)


def check_entries(document: Document) -> None:
    """Check the managed fields of an object, as after mutating admission.

    Raises:
        EntryError: an entry is not valid.
    """
    owners.read(owners.entries_of(document))


def _strip(after: owners.Owners, manager: ManagerIdentity) -> None:
    owned = after.get(manager)
    if owned is None:
        return
    fields = fieldset.difference(owned.fields, _IDENTITY)
    if fields:
        after[manager] = owned.with_fields(fields)
    else:
        del after[manager]


def _read_or_none(entries: list[dict[str, object]] | None) -> Managed | None:
    try:
        return owners.read(entries)
    except EntryError:
        return None


def _without_entries(document: Document) -> Document:
    metadata = document.get("metadata")
    if type(metadata) is not dict or "managedFields" not in metadata:
        return document
    return {**document, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def _with_entries(document: Document, managed: Managed) -> Document:
    document = _without_entries(document)
    if not managed.owners:
        return document
    metadata = {**(document.get("metadata") or {}), "managedFields": owners.write(managed)}
    return {**document, "metadata": metadata}


def _uid(document: Document) -> str:
    metadata = document.get("metadata")
    return text_of(metadata, "uid") if type(metadata) is dict else ""


def _told(document: Document) -> str:
    metadata = document.get("metadata")
    metadata = metadata if type(metadata) is dict else {}
    kind = kind_text(text_of(document, "apiVersion"), text_of(document, "kind"))
    return f"{text_of(metadata, 'namespace')}/{text_of(metadata, 'name')}; {kind}"
