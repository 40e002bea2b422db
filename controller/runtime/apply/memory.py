# SPDX-License-Identifier: Apache-2.0
"""What we applied last and how the server answered it.

The server may store a value in other words than it was sent (1000m as 1), or drop a field it does not know. Comparing
document and object would then find a difference for ever. If the same document was applied before, and what it covers
still looks as it was answered, there is nothing to do.
"""

import hashlib
from collections import OrderedDict
from typing import Any

import msgspec

from trainwright.controller.runtime.objects import Document

LIMIT = 50_000
_ENCODER = msgspec.json.Encoder(order="deterministic")


def digest(document: Any) -> bytes:
    """16 bytes that stand for a document, whatever the order of its fields."""
    return hashlib.blake2b(_ENCODER.encode(document), digest_size=16).digest()


def covered(live: Document) -> Document:
    """What is compared of an object: everything but the metadata that changes by itself."""
    metadata = live.get("metadata") or {}
    kept = {
        name: metadata[name] for name in ("labels", "annotations", "finalizers", "ownerReferences") if name in metadata
    }
    return {**live, "metadata": kept}


class ApplyMemory:
    """By object and sub-resource: digest of the document and digest of the answer."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._seen: OrderedDict[tuple[str, str], tuple[bytes, bytes]] = OrderedDict()

    def remember(self, uid: str, subresource: str, document: Document, answer: Document) -> None:
        """The server answered `document` with `answer`."""
        self._seen[uid, subresource] = (digest(document), digest(_part(answer, subresource)))
        self._seen.move_to_end((uid, subresource))
        while len(self._seen) > self._limit:
            self._seen.popitem(last=False)

    def answered(self, uid: str, subresource: str, document: Document, live: Document) -> bool:
        """Whether this document was the last one applied and the object still looks as it was answered."""
        seen = self._seen.get((uid, subresource))
        return seen is not None and seen == (digest(document), digest(_part(live, subresource)))

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._seen.pop((uid, ""), None)
        self._seen.pop((uid, "status"), None)

    def __len__(self) -> int:
        return len(self._seen)


def _part(live: Document, subresource: str) -> Document:
    content = covered(live)
    if subresource == "status":
        return {"status": content.get("status")}
    return {name: value for name, value in content.items() if name != "status"}
