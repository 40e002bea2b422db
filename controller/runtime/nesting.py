# SPDX-License-Identifier: Apache-2.0
"""JSON that is nested more deeply than the decoder goes.

kube-apiserver stores ten thousand levels, for instance an array in place of a formatted string, which its schema check
takes; msgspec stops at Python's recursion limit, which ends a watch for every object of the kind. What is that deep
belongs to no field that anybody reads, so it is read as null.
"""

import logging
import re
from typing import TypeVar

import msgspec

log = logging.getLogger(__name__)

T = TypeVar("T")

DEPTH = 200
"""Levels that are kept; no kind of Kubernetes has half as many."""
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{]|[\]}]')


def decode(decoder: msgspec.json.Decoder[T], body: bytes | bytearray | memoryview | msgspec.Raw) -> T:
    """What the decoder makes of a body; what lies too deep is null. Raises what the decoder raises otherwise."""
    try:
        return decoder.decode(body)
    except RecursionError:
        log.warning("an object is nested more than %d levels deep; what is below is read as null", DEPTH)
        return decoder.decode(cut_off(bytes(body)))


def cut_off(body: bytes, depth: int = DEPTH) -> bytes:
    """The same document with null for everything below `depth` levels."""
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
                pass  # a string, whatever is in it
    return b"".join((*kept, body[begin:]))
