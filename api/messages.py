# SPDX-License-Identifier: Apache-2.0
"""Limits on the length of messages for users, and how a longer message is cut."""

import json
from typing import Any

import msgspec

CONDITION_LIMIT = 300
"""Characters of the message of a condition, which is read in tables."""


def shortened(text: str, limit: int = CONDITION_LIMIT) -> str:
    """The text in at most `limit` characters, without its middle.

    The beginning names the object, and the messages of API servers say at their end what is wrong.
    """
    if len(text) <= limit:
        return text
    end = limit // 2
    return f"{text[: limit - end - 1]}…{text[-end:]}"


def value_text(value: Any, limit: int) -> str:
    """A value as JSON in at most `limit` characters."""
    return shortened(json.dumps(msgspec.to_builtins(value), ensure_ascii=False), limit)
