# SPDX-License-Identifier: Apache-2.0
"""The metadata of objects, also of those embedded in others, decoded into its struct."""

from typing import Any

from trainwright.controller.local.types.go_json import decode, normalize
from trainwright.controller.local.types.model import OBJECT_META, builtin

Document = dict[str, Any]

_ZERO_YEAR = "0001-"
"""Of Go's zero time, which is none."""


def decode_metadata(value: Any) -> tuple[Document, list[str]]:
    """Metadata as ObjectMeta reads and writes it, made of the given, and the paths of unknown fields in it.

    Raises DocumentDecodeError where a field is of the wrong type.
    """
    if value is None:
        return {}, []
    # The server writes metadata to JSON before it reads the struct, which sorts what it finds first.
    value = _sorted(value)
    dropped = decode(builtin(OBJECT_META), value)
    for name in ("creationTimestamp", "deletionTimestamp"):
        if value.get(name, "").startswith(_ZERO_YEAR):
            del value[name]
    normalize(value, OBJECT_META)
    return value, dropped


def _sorted(value: Any) -> Any:
    if type(value) is not dict:
        return value
    made = {name: value[name] for name in sorted(value)}
    for name in ("ownerReferences", "managedFields"):
        if type(made.get(name)) is list:
            made[name] = [
                {key: item[key] for key in sorted(item)} if type(item) is dict else item for item in made[name]
            ]
    return made
