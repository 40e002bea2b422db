# SPDX-License-Identifier: Apache-2.0
"""Messages for users: how long they may be, how a longer one is cut, how foreign text becomes harmless, plurals."""

import json
import re
from typing import Any

import msgspec

CONDITION_LIMIT = 300
"""Characters of the message of a condition, which is read in tables."""


def shortened(text: str, limit: int = CONDITION_LIMIT) -> str:
    """The text in at most `limit` characters, without its middle.

    The beginning names the object, and the messages of API servers say at their end what is wrong. What follows a
    semicolon, such as the advice of a sentence, stays whole where a quarter of the limit is left for the rest.
    """
    if len(text) <= limit:
        return text
    for clause in re.finditer("; ", text):
        advice = text[clause.start() :]
        if len(advice) <= limit - max(limit // 4, 3):
            return _without_middle(text[: clause.start()], limit - len(advice)) + advice
    return _without_middle(text, limit)


def _without_middle(text: str, limit: int) -> str:
    end = limit // 2
    return f"{text[: limit - end - 1]}…{text[-end:]}"


def counted(number: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours and movements of the cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"  # titles and links
    r"|\x1b[ -/]*[0-~]"
)
_BREAKS = re.compile("\x0b|\x0c|\x85|\u2028|\u2029")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f"  # what is left of C0 and C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that change the direction of writing
    "\u200b\u2060-\u2064\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def plain(text: str) -> str:
    """A text that a pod, a node or a user wrote, without what would act on a terminal or hide other text.

    Lines and tabs stay. Of a line that was written over with carriage returns, as progress bars do, its last state is
    kept.
    """
    if text.isascii() and text.isprintable():
        return text
    # Whole sequences first: a lone escape character would leave the rest of its sequence behind.
    text = _BREAKS.sub("\n", _SEQUENCES.sub("", text))
    return "\n".join(_INVISIBLE.sub("", last_state(line)) for line in text.split("\n"))


def one_line(text: str) -> str:
    """The plain text without breaks, as sentences and tables want it."""
    return plain(text).replace("\n", " ")


def last_state(line: str) -> str:
    """A line as it is seen in the end: after a carriage return it is written over. Blanks only clear what was there."""
    return next((part for part in reversed(line.split("\r")) if _INVISIBLE.sub("", part).strip()), "")


def value_text(value: Any, limit: int) -> str:
    """A value as JSON in at most `limit` characters."""
    return shortened(json.dumps(msgspec.to_builtins(value), ensure_ascii=False), limit)
