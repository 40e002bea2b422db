# SPDX-License-Identifier: Apache-2.0
"""Changes objects on their way into a cache, so that unused fields take no memory.

A transform may change the object, which is new, or return None to keep it out. It must be idempotent, because answers
of writes also pass through it.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from trainwright.api.objects import AnyObject, Document, PackedFields, wire

_UID, _END = rb"{\"uid\":\"", rb"\"}"
"""What is around the uid in the key of an item of `ownerReferences`, as a JSON string has it."""
_ENCODER = msgspec.json.Encoder()
_TEXTS: dict[bytes, bytes] = {}
TEXTS = 10_000
"""Maximum of shared texts; further texts are not shared."""


def pack(fields: dict[str, Any] | PackedFields) -> Any:  # stands in for a dictionary
    """The compact form of a fieldsV1 tree; a compact one is returned as it is.

    As nested dictionaries the tree would be the largest part of a cached object. The texts of objects from one template
    differ only in the uids of their owners, so these are cut out, and the rest is shared by all objects.
    """
    if isinstance(fields, PackedFields):
        return fields
    text = _ENCODER.encode(fields)
    shape, *owners = text.split(_UID)
    uids = []
    for owner in owners:
        uid, end, rest = owner.partition(_END)
        uids.append(uid.decode())
        shape += _UID + b"\0" + end + rest
    if len(_TEXTS) < TEXTS:
        shape = _TEXTS.setdefault(shape, shape)
    return PackedFields(shape, tuple(uids))


def unpacked(obj: AnyObject) -> Document:
    """The wire form of an object, with all field sets as trees. A cache that holds the object may have packed them."""
    document = wire(obj)
    if isinstance(obj, dict):
        entries = (obj.get("metadata") or {}).get("managedFields") or ()
        packed = [entry.get("fieldsV1") for entry in entries]
    else:
        metadata = getattr(obj, "metadata", None)
        packed = [entry.fields_v1 for entry in (metadata.managed_fields if metadata is not None else None) or ()]
    if not any(isinstance(fields, PackedFields) for fields in packed):
        return document
    written = [
        {**entry, "fieldsV1": fields.unpack()} if isinstance(fields, PackedFields) else entry
        for entry, fields in zip(document["metadata"]["managedFields"], packed, strict=True)
    ]
    return {**document, "metadata": {**document["metadata"], "managedFields": written}}


Transform: TypeAlias = Callable[[Any], AnyObject | None]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def trim_managed_fields(keep: Iterable[str] = ()) -> Transform:
    """Drop the managedFields entries of all other managers, and kubectl's last-applied annotation.

    Of the kept managers only what they applied stays: fields that an update or a patch wrote are never compared.
    Read the kept entries only with `api.objects.managed_fields_of`: their trees are in a compact form.
    """
    managers = frozenset(keep)

    def transform(obj: AnyObject) -> AnyObject:
        if isinstance(obj, dict):
            metadata = obj.get("metadata") or {}
            if entries := metadata.get("managedFields"):
                kept = [e for e in entries if e.get("manager") in managers and e.get("operation") == "Apply"]
                if kept:
                    for entry in kept:
                        entry["fieldsV1"] = pack(entry.get("fieldsV1") or {})
                    metadata["managedFields"] = kept
                else:
                    del metadata["managedFields"]
            (metadata.get("annotations") or {}).pop(LAST_APPLIED, None)
            return obj
        metadata = getattr(obj, "metadata", None)
        if metadata is not None:
            if metadata.managed_fields:
                entries = [e for e in metadata.managed_fields if e.manager in managers and e.operation == "Apply"]
                for entry in entries:
                    entry.fields_v1 = pack(entry.fields_v1 or {})
                metadata.managed_fields = entries or None
            if metadata.annotations:
                metadata.annotations.pop(LAST_APPLIED, None)
        return obj

    return transform


def chain(*steps: Transform) -> Transform:
    """One transform that applies all in order and stops at the first None."""

    def transform(obj: AnyObject) -> AnyObject | None:
        current: AnyObject | None = obj
        for step in steps:
            if current is None:
                return None
            current = step(current)
        return current

    return transform
