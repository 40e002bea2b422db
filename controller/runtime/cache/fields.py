# SPDX-License-Identifier: Apache-2.0
"""Keeping our own managedFields entries small.

The tree of fields that we own is needed for comparing, and as nested dictionaries it would be the largest part of a
cached object. It is kept as its JSON text instead. Objects made from one template have the same text but for the uids
of their owners, so the uids are taken out and the rest is shared between all of them.
"""

import re
from typing import Any

import msgspec

from trainwright.controller.runtime.objects import PackedFields

_UID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ENCODER = msgspec.json.Encoder()
_TEXTS: dict[bytes, bytes] = {}
TEXTS = 10_000
"""Different texts shared at most; beyond that they are simply not shared."""


def pack(fields: dict[str, Any] | PackedFields) -> Any:  # takes the place of a dictionary
    """The small form of a fieldsV1 tree; a tree that is small already is given back."""
    if isinstance(fields, PackedFields):
        return fields
    text = _ENCODER.encode(fields)
    uids = tuple(match.decode() for match in _UID.findall(text))
    shape = _UID.sub(b"\0", text)
    if len(_TEXTS) < TEXTS:
        shape = _TEXTS.setdefault(shape, shape)
    return PackedFields(shape, uids)
