# SPDX-License-Identifier: Apache-2.0
"""Metadata of any object, whether it is a model or a plain dictionary.

An object of a kind with a model is a msgspec struct; one without a model is a dictionary, as decoded from JSON. Code
that reads metadata through these functions works with both. Nothing here changes an object.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from trainwright.api.base import Object, Resource
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.surroundings import letters

Document: TypeAlias = dict[str, Any]
"""An object, or the part of it that an apply owns, in wire form."""

AnyObject: TypeAlias = Object | Document
"""An object as caches hold it and clients return it."""


_NAME_LETTERS, _NAME_SUFFIX = "bcdfghjklmnpqrstvwxz2456789", 5
"""Of the random end of generated names, without vowels, so that no words come out."""
GENERATED_PREFIX_LENGTH = 63 - _NAME_SUFFIX
"""Characters of a `generateName` that are kept."""


class Key(NamedTuple):
    """Namespace and name of an object whose kind is known; the item of a work queue."""

    namespace: str
    """Empty for kinds without namespace."""
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Owner(NamedTuple):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool

    @property
    def group(self) -> str:
        """The API group, without the version, which owner references do not keep up to date."""
        return self.api_version.rpartition("/")[0]


class PackedFields(NamedTuple):
    """A fieldsV1 tree in a compact form, which caches hold in place of the tree. Copies share it."""

    shape: bytes
    """JSON with a zero byte in the place of each uid."""
    uids: tuple[str, ...]

    def unpack(self) -> Document:
        """The tree, as a new dictionary."""
        first, *rest = self.shape.split(b"\0")
        text = first + b"".join(uid.encode() + part for uid, part in zip(self.uids, rest, strict=True))
        tree: Document = msgspec.json.decode(text)
        return tree


class PartialObject(Object):
    """An object of any kind of which only the metadata was asked for."""

    api_version: str | None = msgspec.field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: ObjectMeta | None = None


def dig(obj: Document | None, path: str) -> Any:
    """The value at a path of wire names, such as `spec.template.spec`; None where any part of it is absent or null.

    The one way to look into an object without a model.
    """
    found: Any = obj
    for name in path.split("."):
        if not isinstance(found, dict):
            return None
        found = found.get(name)
    return found


def spec_of(document: Document) -> Document:
    """`spec`, empty if it is not set."""
    return document.get("spec") or {}


def status_of(document: Document) -> Document:
    """`status`, empty if it is not set."""
    return document.get("status") or {}


def conditions_of(document: Document) -> list[Document]:
    """`status.conditions`, empty if there are none."""
    return status_of(document).get("conditions") or []


def _meta(obj: AnyObject, attribute: str, wire_name: str) -> Any:
    if isinstance(obj, dict):
        return (obj.get("metadata") or {}).get(wire_name)
    metadata = getattr(obj, "metadata", None)
    return getattr(metadata, attribute, None) if metadata is not None else None


def name_of(obj: AnyObject) -> str:
    """`metadata.name`, empty if not set."""
    return _meta(obj, "name", "name") or ""


def namespace_of(obj: AnyObject) -> str:
    """`metadata.namespace`, empty if not set."""
    return _meta(obj, "namespace", "namespace") or ""


def key_of(obj: AnyObject) -> Key:
    if isinstance(obj, dict):
        return Key(namespace_of(obj), name_of(obj))
    metadata: ObjectMeta | None = getattr(obj, "metadata", None)  # once for both: this is called for every event
    return Key("", "") if metadata is None else Key(metadata.namespace or "", metadata.name or "")


def uid_of(obj: AnyObject) -> str:
    """`metadata.uid`, empty for an object that was never stored."""
    if isinstance(obj, dict):
        return _meta(obj, "uid", "uid") or ""
    metadata: ObjectMeta | None = getattr(obj, "metadata", None)
    return (metadata.uid if metadata is not None else None) or ""


def resource_version_of(obj: AnyObject) -> str:
    """`metadata.resourceVersion`, empty for an object that was never stored."""
    if isinstance(obj, dict):
        return _meta(obj, "resource_version", "resourceVersion") or ""
    metadata: ObjectMeta | None = getattr(obj, "metadata", None)
    return (metadata.resource_version if metadata is not None else None) or ""


def generation_of(obj: AnyObject) -> int:
    """`metadata.generation`, 0 if the kind has none."""
    return _meta(obj, "generation", "generation") or 0


def number_in(text: str | None) -> int:
    """The number that a label or an annotation holds; 0 for none, and for any other text."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else 0


def labels_of(obj: AnyObject) -> Mapping[str, str]:
    """`metadata.labels`, never None."""
    return _meta(obj, "labels", "labels") or {}


def annotations_of(obj: AnyObject) -> Mapping[str, str]:
    """`metadata.annotations`, never None."""
    return _meta(obj, "annotations", "annotations") or {}


def finalizers_of(obj: AnyObject) -> tuple[str, ...]:
    return tuple(_meta(obj, "finalizers", "finalizers") or ())


def deletion_timestamp_of(obj: AnyObject) -> str | None:
    """`metadata.deletionTimestamp` in wire form; None until the object is deleted."""
    moment: str | None = _meta(obj, "deletion_timestamp", "deletionTimestamp")
    return moment


def created_of(obj: AnyObject) -> str:
    """`metadata.creationTimestamp` in wire form, empty for an object that was never stored."""
    return _meta(obj, "creation_timestamp", "creationTimestamp") or ""


def generated_name(prefix: str) -> str:
    """A name for `generateName`, as the API server makes it: the prefix, cut if it is long, and a random end."""
    return prefix[:GENERATED_PREFIX_LENGTH] + letters(_NAME_LETTERS, _NAME_SUFFIX)


def owners_of(obj: AnyObject) -> tuple[Owner, ...]:
    references = _meta(obj, "owner_references", "ownerReferences") or ()
    if isinstance(obj, dict):
        return tuple(
            Owner(
                r.get("apiVersion", ""),
                r.get("kind", ""),
                r.get("name", ""),
                r.get("uid", ""),
                bool(r.get("controller")),
            )
            for r in references
        )
    return tuple(Owner(r.api_version, r.kind, r.name, r.uid, bool(r.controller)) for r in references)


def controller_of(obj: AnyObject) -> Owner | None:
    if isinstance(obj, dict):
        return next((owner for owner in owners_of(obj) if owner.controller), None)
    metadata: ObjectMeta | None = getattr(obj, "metadata", None)
    for r in (metadata.owner_references if metadata is not None else None) or ():
        if r.controller:
            return Owner(r.api_version, r.kind, r.name, r.uid, controller=True)
    return None


def is_controlled_by(obj: AnyObject, owner: AnyObject) -> bool:
    """Whether this very owner controls the object: no other one, and no earlier one of that name."""
    controller = controller_of(obj)
    return controller is not None and controller.uid == uid_of(owner)


def owner_reference(owner: AnyObject, resource: Resource) -> Document:
    """The owner reference that makes an object of kind `resource` the controller of another one, in wire form.

    The uid is empty for an owner that was never stored; the API server refuses such a reference.
    """
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def managed_fields_of(obj: AnyObject, manager: str, subresource: str = "") -> Document | None:
    """The fields that `manager` owns through apply (`fieldsV1`); None if it has never applied the object."""
    for entry in _meta(obj, "managed_fields", "managedFields") or ():
        if isinstance(entry, dict):
            who, how, where = entry.get("manager"), entry.get("operation"), entry.get("subresource")
            fields: Document | PackedFields | None = entry.get("fieldsV1")
        else:
            who, how, where = entry.manager, entry.operation, entry.subresource
            fields = entry.fields_v1
        if who == manager and how == "Apply" and (where or "") == subresource:
            return fields.unpack() if isinstance(fields, PackedFields) else fields or {}
    return None


def applied_at(obj: AnyObject) -> list[tuple[str, str, str]]:
    """Manager, subresource and time of each server-side apply that changed the object.

    The API server leaves the time of an apply that changes nothing. Times are in whole seconds.
    """
    found: list[tuple[str, str, str]] = []
    for entry in _meta(obj, "managed_fields", "managedFields") or ():
        if isinstance(entry, dict):
            who, how = entry.get("manager"), entry.get("operation")
            where, when = entry.get("subresource"), entry.get("time")
        else:
            who, how, where, when = entry.manager, entry.operation, entry.subresource, entry.time
        if how == "Apply":
            found.append((who or "", where or "", str(when)))
    return found


def wire(obj: AnyObject) -> Document:
    """The wire form: a model without its unset fields as a new dictionary, a dictionary as it is."""
    if isinstance(obj, dict):
        return obj
    document: Document = msgspec.to_builtins(obj)
    return document
