# SPDX-License-Identifier: Apache-2.0
"""Server-side apply and the tracking of updates, as an endpoint of the API server does them.

Adds to structured merge: the identity of managers, the times of their changes, fields that are never owned, objects
without managed fields, and the way from kubectl's client-side apply. Pure: the time is an argument, nothing is stored.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from trainwright.api import times
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.merge import fieldset
from trainwright.controller.local.apiserver.merge.fieldset import EntryError, Tree, UnfitObjectError, difference
from trainwright.controller.local.apiserver.merge.managedfields import (
    APPLY,
    UPDATE,
    Conflicts,
    ManagerIdentity,
    Owners,
    Ownership,
    entries_of,
    is_reset,
    metadata_of,
    read_entries,
    write_entries,
)
from trainwright.controller.local.apiserver.merge.structured import Document, apply, update
from trainwright.controller.local.apiserver.merge.typed import UnfitError, check, compare, named_fields, unlike
from trainwright.controller.local.types.model import Type, custom_type
from trainwright.controller.local.values import is_too_deep, json_text

KUBECTL = "kubectl"
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
_LARGEST_ANNOTATIONS = 256 * 1024
"""Bytes of all keys and values together."""


def excused_fields(view: Type, live: Document, version: str) -> Tree | None:
    """Fields that are as the annotation says, over which there is no conflict; None where it is absent or of no use.

    The object is in the version of the request.
    """
    annotation = _annotation(live)
    if not annotation:
        return None
    try:
        document: Any = msgspec.json.decode(annotation)
        if type(document) is not dict or is_too_deep(document) or document.get("apiVersion") != version:
            return None
        check(view, live, duplicates=False)
        check(view, document, duplicates=False)
    except (msgspec.DecodeError, RecursionError, UnfitError):
        return None
    change = compare(view, document, live)
    fields = named_fields(view, document)
    for changed in (change.modified, change.added, change.removed):
        fields = difference(fields, changed)
    return fields


def with_last_applied(made: Document, applied: Document) -> Document:
    """The object with the annotation brought up to what was applied, if it has one.

    An annotation that would make all of them too large is dropped.
    """
    if not _annotation(made):
        return made
    annotations = {**made["metadata"]["annotations"], ANNOTATION: _configuration(applied)}
    size = sum(len(key.encode()) + len((value or "").encode()) for key, value in annotations.items())
    if size > _LARGEST_ANNOTATIONS:
        del annotations[ANNOTATION]
    return {**made, "metadata": {**made["metadata"], "annotations": annotations}}


def _configuration(applied: Document) -> str:
    metadata = dict(applied.get("metadata") or {})
    annotations = metadata.pop("annotations", None)
    if type(annotations) is dict:
        metadata["annotations"] = {key: value for key, value in annotations.items() if key != ANNOTATION}
    return json_text({**applied, "metadata": metadata}) + "\n"


def _annotation(document: Document) -> str:
    annotations = metadata_of(document).get("annotations")
    annotation = annotations.get(ANNOTATION) if type(annotations) is dict else None
    return annotation if type(annotation) is str else ""


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

    Assumptions: live objects are of the kind and version of the request. Defaults, pruning and validation are the
    caller's, after an apply and before an update.

    Args:
        kind_type: of the objects.
        version: apiVersion of the requests.
        kind: of the objects.
        subresource: of the endpoint; empty for the main one.
        reset: fields that the endpoint does not write, such as the status. They are never owned through it.
        empty: what the server creates objects from; apiVersion and kind alone, as for custom resources, if not given.
    """

    def __init__(
        self,
        kind_type: Type,
        version: str,
        kind: str,
        *,
        subresource: str = "",
        reset: Tree = fieldset.NOTHING,
        empty: Document | None = None,
    ) -> None:
        self._view = kind_type
        self._version = version
        self.kind = kind
        self._subresource = subresource
        self._reset = reset
        # Encoded, so that no request can change it for the next one.
        self._empty = msgspec.json.encode(empty or {"apiVersion": version, "kind": kind})

    def apply(self, live: Document | None, document: Document, manager: str, *, force: bool, now: datetime) -> Document:
        """What a server-side apply makes of the stored object; with `force`, it takes over what others own.

        Raises StatusError where the document is of another kind or version, or has managedFields (400); others own what
        it would change (409); it or the stored object does not fit the schema (500, UnfitObjectError).
        """
        live = self._in_version(live)
        owners = read_entries(entries_of(live))
        if (document.get("apiVersion"), document.get("kind")) != (self._version, self.kind):
            raise errors.bad_request(f"the object is not of the kind {self.kind} in {self._version}")
        if entries_of(document) is not None:
            raise errors.bad_request("metadata.managedFields must be nil")
        moment = times.format_time(now)
        live = without_managed_fields(live)
        if not owners:
            # Credit what an untracked object holds, so that the first apply conflicts with it.
            owners = self._update(self._nothing(), live, owners, _BEFORE_FIRST_APPLY, moment)
        try:
            made, owners = self._apply(live, document, owners, manager, moment, force=force)
        except Conflicts as found:
            excused = excused_fields(self._view, live, self._version) if manager == KUBECTL else None
            if error := found.error(excused or fieldset.NOTHING):
                raise error from found
            made, owners = self._apply(live, document, owners, manager, moment, force=True)
        if manager == KUBECTL:
            made = with_last_applied(made, document)
        return _with_entries(made, owners)

    def update(self, live: Document | None, new: Document, manager: str, *, now: datetime) -> Document:
        """What an update makes of the managed fields of an object; everything else is as in `new`.

        For everything that writes and is no apply: creations, replacements, patches, and what a mutating webhook
        changed. Raises UnfitObjectError; the API server then stores the new one with no managed fields
        (`without_managed_fields`).
        """
        live = self._in_version(live)
        owners = self._owners_before(live, new)
        new = without_managed_fields(new)
        if not owners and metadata_of(live).get("uid"):
            # Untracked objects stay so until the first apply.
            return new
        owners = self._update(without_managed_fields(live), new, owners, manager, times.format_time(now))
        return _with_entries(new, owners)

    def at(self, subresource: str) -> "FieldManager":
        """The same for an endpoint that writes any field of the object."""
        return FieldManager(self._view, self._version, self.kind, subresource=subresource)

    def _nothing(self) -> Document:
        """What an object is created from."""
        made: Document = msgspec.json.decode(self._empty)
        return made

    def _in_version(self, live: Document | None) -> Document:
        """The object to start from, which may be stored in another version of the same schema."""
        if live is None:
            return self._nothing()
        return live if live.get("apiVersion") == self._version else {**live, "apiVersion": self._version}

    def _owners_before(self, live: Document, new: Document) -> Owners:
        """The owners that an update starts from: those in the new object, if it says any that can be read."""
        if not self._subresource:
            entries = entries_of(new)
            if is_reset(entries):
                return {}
            if owners := _read_or_none(entries):
                return owners
        return _read_or_none(entries_of(live))

    def _apply(
        self, live: Document, document: Document, owners: Owners, name: str, moment: str, *, force: bool
    ) -> tuple[Document, Owners]:
        self._check(document, duplicates=False)
        self._check(live, fitting=document)
        manager = ManagerIdentity(name or "unknown", APPLY, "", self._subresource)
        made, after = apply(self._view, live, document, owners, manager, self._version, self._reset, force=force)
        if (owned := after.pop(manager, None)) and (fields := difference(owned.fields, _IDENTITY)):
            # If nothing changed, a manager that is new here gets no time at all.
            after[manager] = owned._replace(fields=fields, time=owned.time if made is None else moment)
        return live if made is None else made, after

    def _update(self, live: Document, new: Document, owners: Owners, name: str, moment: str) -> Owners:
        self._check(new)
        self._check(live, fitting=new)
        after, changed = update(self._view, live, new, owners, self._reset)
        if changed := difference(changed, _IDENTITY):
            manager = ManagerIdentity(name or "unknown", UPDATE, self._version, self._subresource)
            before = after.get(manager, Ownership(fieldset.NOTHING, self._version))
            after[manager] = before._replace(fields=fieldset.union(changed, before.fields), time=moment)
        return after

    def _check(self, document: Document, *, duplicates: bool = True, fitting: Document | None = None) -> None:
        """Raises UnfitObjectError for a document that does not fit.

        What equals `fitting`, which was checked no less strictly, is not looked through again.
        """
        try:
            check(self._view, unlike(document, fitting or {}), duplicates=duplicates)
        except UnfitError as error:
            name = metadata_of(document).get("name", "")
            raise UnfitObjectError(f"{self.kind} {name} does not fit the schema of {self._version}: {error}") from error


def check_entries(document: Document) -> None:
    """Check the managed fields of an object, as after mutating admission. Raises EntryError."""
    read_entries(entries_of(document))


def _read_or_none(entries: list[dict[str, Any]] | None) -> Owners:
    try:
        return read_entries(entries)
    except EntryError:
        return {}


def without_managed_fields(document: Document) -> Document:
    """An object with no managed fields, as it is stored when they cannot be told."""
    metadata = metadata_of(document)
    if "managedFields" not in metadata:
        return document
    return {**document, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def _with_entries(document: Document, owners: Owners) -> Document:
    document = without_managed_fields(document)
    if not owners:
        return document
    metadata = {**(document.get("metadata") or {}), "managedFields": write_entries(owners)}
    return {**document, "metadata": metadata}


_STATUS = fieldset.of(("f:status",))
_ALL_BUT_STATUS = fieldset.of(("f:metadata",), ("f:spec",))


def custom_resource_managers(spec: Mapping[str, Any]) -> dict[tuple[str, str], FieldManager]:
    """The field managers of an accepted custom resource, by apiVersion and subresource: `` and `status`."""
    preserve = spec.get("preserveUnknownFields") is True
    kind = spec["names"]["kind"]
    managers: dict[tuple[str, str], FieldManager] = {}
    for version in spec["versions"]:
        name = f"{spec['group']}/{version['name']}"
        made = custom_type((version.get("schema") or {}).get("openAPIV3Schema"), preserve=preserve)
        with_status = "status" in (version.get("subresources") or {})
        managers[name, ""] = FieldManager(made, name, kind, reset=_STATUS if with_status else fieldset.NOTHING)
        if with_status:
            managers[name, "status"] = FieldManager(made, name, kind, subresource="status", reset=_ALL_BUT_STATUS)
    return managers
