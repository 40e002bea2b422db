# SPDX-License-Identifier: Apache-2.0
"""Remembers the last applied document of each object and the answer of the server.

The server may store a value in another form (1000m as 1), or drop an unknown field. Comparing document and object would
then always find a difference. If the same document was applied before, and the object still looks like the answer,
nothing has to be done.
"""

import hashlib
from collections import OrderedDict
from typing import Any

import msgspec

from trainwright.api.objects import Document

LIMIT = 50_000
_ENCODER = msgspec.json.Encoder(order="deterministic")


def document_digest(document: Any) -> bytes:
    """A 16-byte digest of a document, independent of the order of its fields."""
    return hashlib.blake2b(_ENCODER.encode(document), digest_size=16).digest()


def covered(live: Document) -> Document:
    """The compared part of an object: all but the metadata that changes by itself."""
    metadata = live.get("metadata") or {}
    kept = {
        name: metadata[name] for name in ("labels", "annotations", "finalizers", "ownerReferences") if name in metadata
    }
    return {**live, "metadata": kept}


class ApplyMemory:
    """Digests of document and answer, by object and subresource."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], tuple[bytes, bytes]] = OrderedDict()

    def remember(self, uid: str, subresource: str, document: Document, answer: Document) -> None:
        """The server answered `document` with `answer`."""
        self._seen[uid, subresource] = (document_digest(document), document_digest(_part(answer, subresource)))
        self._seen.move_to_end((uid, subresource))
        while len(self._seen) > LIMIT:
            self._seen.popitem(last=False)

    def answered(self, uid: str, subresource: str, document: Document, live: Document) -> bool:
        """Whether this document was applied last and the object still looks like the answer."""
        seen = self._seen.get((uid, subresource))
        return seen is not None and seen == (document_digest(document), document_digest(_part(live, subresource)))

    def forget(self, uid: str) -> None:
        """The object is deleted."""
        self._seen.pop((uid, ""), None)
        self._seen.pop((uid, "status"), None)

    def __len__(self) -> int:
        return len(self._seen)


def _part(live: Document, subresource: str) -> Document:
    content = covered(live)
    if subresource == "status":
        return {"status": content.get("status")}
    return {name: value for name, value in content.items() if name != "status"}
