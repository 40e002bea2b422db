# SPDX-License-Identifier: Apache-2.0
"""Cuts a long list into its items one by one, so that the caller can let the event loop run in between.

An API server that cannot stream lists returns all objects in one body: 60 MB for 10,000 pods. To find its items, the
decoder reads through it at once, which blocks the loop for a quarter of a second. Here each item is found when it is
asked for. All items of a list begin alike, so where the text between two of them occurs, one probably ends. It does if
what lies before is valid JSON: an object ends at one place only. Where it is not, the text was part of a string or of
an inner list, and the item ends at a later one.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from trainwright.controller.runtime import nesting
from trainwright.controller.runtime.errors import DecodeError

LONG_BYTES = 2**20
"""Shorter bodies are read at once, in a few milliseconds."""
_ITEMS = b'"items":['
_HEAD_BYTES = 4096
"""The list of items begins within this many bytes: what may come before is kind, version and a little metadata."""
_INNER = b'"metadata":{'
"""The beginning of an item up to here is the same in all items: custom resources have their version and kind first."""
_BEGIN_BYTES = 256
_RAW = msgspec.json.Decoder(msgspec.Raw)
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])


class Cut(NamedTuple):
    """A list that was taken apart."""

    envelope: bytes
    """The list without its items."""
    items: "Slices"


class Slices:
    """The items of a list, found one by one while it is iterated."""

    def __init__(self, body: bytes, begin: int, end: int) -> None:
        """The items are between the two positions, without the brackets of their list."""
        self._body = body
        self._begin = begin
        self._end = end

    def __bool__(self) -> bool:
        return self._begin < self._end

    def __iter__(self) -> Iterator[msgspec.Raw]:
        """Raises DecodeError if an item is not JSON."""
        body, begin, end = self._body, self._begin, self._end
        view = memoryview(body)
        inner = body.find(_INNER, begin, begin + _BEGIN_BYTES)
        if inner < 0:
            yield from self._rest(begin)
            return
        between = b"}," + body[begin : inner + len(_INNER)]
        candidate = begin
        while begin < end:
            found = body.find(between, candidate, end)
            stop = end if found < 0 else found + 1
            try:
                nesting.decode(_RAW, view[begin:stop])
            except msgspec.DecodeError:
                if found < 0:  # items do not begin as the first one does, or the text is not JSON
                    yield from self._rest(begin)
                    return
                candidate = stop
                continue
            yield msgspec.Raw(view[begin:stop])
            begin = candidate = stop + 1

    def _rest(self, begin: int) -> list[msgspec.Raw]:
        """The items from there on, found at once."""
        try:
            return nesting.decode(_RAWS, b"".join((b"[", memoryview(self._body)[begin : self._end], b"]")))
        except msgspec.DecodeError as error:
            raise DecodeError(f"not a list: {error}") from error


def cut(body: bytes) -> Cut | None:
    """Take a long list apart. None for a body that is short or has another form: read it at once."""
    if len(body) < LONG_BYTES:
        return None
    begin = body.find(_ITEMS, 0, _HEAD_BYTES)
    end = body.rfind(b"}]")
    if begin < 0 or end < begin:
        return None
    begin += len(_ITEMS)
    return Cut(body[:begin] + body[end + 1 :], Slices(body, begin, end + 1))
