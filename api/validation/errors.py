# SPDX-License-Identifier: Apache-2.0
"""Field errors as an API server writes them."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

Path = tuple[str | int, ...]

REQUIRED = "FieldValueRequired"
DUPLICATE = "FieldValueDuplicate"
INVALID = "FieldValueInvalid"
NOT_SUPPORTED = "FieldValueNotSupported"
TOO_LONG = "FieldValueTooLong"
TOO_MANY = "FieldValueTooMany"
WRONG_TYPE = "FieldValueTypeInvalid"
BLOCKING = frozenset({REQUIRED, TOO_LONG, TOO_MANY, WRONG_TYPE})
"""After these errors CEL rules are not evaluated, because they rely on the structure of the document."""

_SHOWN = 60


class DocumentError(NamedTuple):
    """One error, with the fields of an entry of `causes` in a Status."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field or '<root>'}: {self.message}"


def spoken(path: Sequence[str | int]) -> str:
    """A path as Kubernetes writes it: `spec.runtimePatches[0].manager`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def shown(value: Any) -> str:
    """A value as JSON for a message, cut if it is long."""
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
