# SPDX-License-Identifier: Apache-2.0
"""Copies of JSON values, for code that changes documents in place."""

from typing import Any

import msgspec

_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode


def copied(value: Any) -> Any:
    """A copy that shares no object and no list with the value. A walk in Python takes three times as long."""
    return _decode(_encode(value))
