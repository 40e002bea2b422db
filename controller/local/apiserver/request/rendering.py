# SPDX-License-Identifier: Apache-2.0
"""Objects and lists as answers, spliced from stored bytes where nothing has to change."""

from collections.abc import Iterable

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.resources import ServedResource
from trainwright.controller.local.apiserver.request.info import encode
from trainwright.controller.local.apiserver.store import StoredObject


def _prefix(version: str, kind: str) -> bytes:
    return b'{"apiVersion":' + encode(version) + b',"kind":' + encode(kind)


def object_bytes(served: ServedResource, one: StoredObject) -> bytes:
    """A stored object in the version that is served."""
    if served.from_storage is not None:
        return encode(served.named(one.document()))
    wanted = _prefix(served.api_version, served.type.kind)
    if one.body.startswith(wanted):
        return one.body
    stored_prefix = _prefix(_storage_version(served), served.type.kind)
    if one.body.startswith(stored_prefix):
        return wanted + one.body[len(stored_prefix) :]
    return encode(served.named(one.document()))


def item_bytes(served: ServedResource, one: StoredObject) -> bytes:
    """A stored object as an item of a list: those of built-in kinds carry no kind."""
    if served.type.custom:
        return object_bytes(served, one)
    prefix = _prefix(_storage_version(served), served.type.kind)
    if served.from_storage is None and one.body.startswith(prefix + b","):
        return b"{" + one.body[len(prefix) + 1 :]
    document = served.named(one.document())
    del document["apiVersion"], document["kind"]
    return encode(document)


def _storage_version(served: ServedResource) -> str:
    kind = served.type
    return f"{kind.group}/{kind.storage_version}" if kind.group else kind.storage_version


def list_metadata(version: int, next_page: str = "", remaining: int | None = None) -> Document:
    """The metadata of a list."""
    made: Document = {"resourceVersion": str(version)}
    if next_page:
        made["continue"] = next_page
    if remaining is not None:
        made["remainingItemCount"] = remaining
    return made


def list_bytes(served: ServedResource, items: Iterable[StoredObject], metadata: Document) -> bytes:
    """A list of stored objects."""
    head = encode({"kind": served.type.listed_as, "apiVersion": served.api_version, "metadata": metadata})
    return head[:-1] + b',"items":[' + b",".join([item_bytes(served, one) for one in items]) + b"]}"


def event_bytes(type_: str, body: bytes) -> bytes:
    """A frame of a watch."""
    return b'{"type":"' + type_.encode() + b'","object":' + body + b"}\n"
