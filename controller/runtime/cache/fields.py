# SPDX-License-Identifier: Apache-2.0
"""Keeps the own managedFields entries small.

The tree of owned fields is needed for comparing. As nested dictionaries it would be the largest part of a cached
object, so it is kept as JSON text. The texts of objects from one template differ only in the uids of their owners.
These are cut out, and the rest of the text is shared by all objects.
"""

import re
from typing import Any

import msgspec

from trainwright.api.objects import PackedFields

_UID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ENCODER = msgspec.json.Encoder()
_TEXTS: dict[bytes, bytes] = {}
TEXTS = 10_000
"""Maximum of shared texts; further texts are not shared."""


def pack(fields: dict[str, Any] | PackedFields) -> Any:  # stands in for a dictionary
    """The compact form of a fieldsV1 tree; a compact one is returned as it is."""
    if isinstance(fields, PackedFields):
        return fields
    text = _ENCODER.encode(fields)
    uids = tuple(match.decode() for match in _UID.findall(text))
    shape = _UID.sub(b"\0", text)
    if len(_TEXTS) < TEXTS:
        shape = _TEXTS.setdefault(shape, shape)
    return PackedFields(shape, uids)
