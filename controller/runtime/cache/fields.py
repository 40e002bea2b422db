# SPDX-License-Identifier: Apache-2.0
"""Keeps the own managedFields entries small.

The tree of owned fields is needed for comparing. As nested dictionaries it would be the largest part of a cached
object, so it is kept as JSON text. The texts of objects from one template differ only in the uids of their owners.
These are cut out, and the rest of the text is shared by all objects.
"""

from typing import Any

import msgspec

from trainwright.api.objects import AnyObject, Document, PackedFields, wire

_UID, _END = rb"{\"uid\":\"", rb"\"}"
"""What is around the uid in the key of an item of `ownerReferences`, as a JSON string has it."""
_ENCODER = msgspec.json.Encoder()
_TEXTS: dict[bytes, bytes] = {}
TEXTS = 10_000
"""Maximum of shared texts; further texts are not shared."""


def pack(fields: dict[str, Any] | PackedFields) -> Any:  # stands in for a dictionary
    """The compact form of a fieldsV1 tree; a compact one is returned as it is."""
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
