# SPDX-License-Identifier: Apache-2.0
"""Decodes JSON that is nested more deeply than the decoder supports.

kube-apiserver stores up to ten thousand levels, for example an array in place of a formatted string, which its schema
check accepts. msgspec stops at Python's recursion limit. One such object would end the watch of its kind. No known
field is that deep, so values below `DEPTH` levels are decoded as null.
"""

import logging
import re
from typing import TypeVar

import msgspec

log = logging.getLogger(__name__)

T = TypeVar("T")

DEPTH = 200
"""Levels that are kept. Kinds of Kubernetes have less than half as many."""
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{]|[\]}]')


def decode(decoder: msgspec.json.Decoder[T], body: bytes | bytearray | memoryview | msgspec.Raw) -> T:
    """Decode a body; values below `DEPTH` levels are null. Raises what the decoder raises."""
    try:
        return decoder.decode(body)
    except RecursionError:
        log.warning("an object is nested more than %d levels deep; deeper values are read as null", DEPTH)
        return decoder.decode(cut_off(bytes(body)))


def cut_off(body: bytes, depth: int = DEPTH) -> bytes:
    """The document with null in place of each value below `depth` levels."""
    kept: list[bytes] = []
    level = begin = 0
    for token in _TOKEN.finditer(body):
        match token.group()[:1]:
            case b"[" | b"{":
                level += 1
                if level == depth + 1:
                    kept.append(body[begin : token.start()] + b"null")
            case b"]" | b"}":
                level -= 1
                if level == depth:
                    begin = token.end()
            case _:
                pass  # a string; brackets inside it do not count
    return b"".join((*kept, body[begin:]))
