# SPDX-License-Identifier: Apache-2.0
"""One object, or a list of them, spliced from stored bytes where nothing has to change."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.conversion import Conversions
from trainwright.controller.local.apiserver.kinds.registry import Resource
from trainwright.controller.local.apiserver.request.info import RequestInfo, ServerResponse, encode
from trainwright.controller.local.apiserver.request.lists import (
    Continuation,
    ListOptions,
    ObjectSelection,
    parsed_version,
    selection_of,
)
from trainwright.controller.local.apiserver.store import ObjectStore, StoredObject
from trainwright.controller.local.apiserver.verbs.scale import is_scale, read_at_endpoint
from trainwright.controller.local.apiserver.views.tables import (
    partial_metadata,
    partial_metadata_list,
    table_format,
    table_of,
)


def _prefix(version: str, kind: str) -> bytes:
    return b'{"apiVersion":' + encode(version) + b',"kind":' + encode(kind)


def object_bytes(served: Resource, one: StoredObject) -> bytes:
    if served.from_storage is not None:
        return encode(served.named(one.document()))
    wanted = _prefix(served.api_version, served.kind)
    if one.body.startswith(wanted):
        return one.body
    stored_prefix = _prefix(served.storage_api_version, served.kind)
    if one.body.startswith(stored_prefix):
        return wanted + one.body[len(stored_prefix) :]
    return encode(served.named(one.document()))


def list_metadata(version: int, next_page: str = "", remaining: int | None = None) -> Document:
    made: Document = {"resourceVersion": str(version)}
    if next_page:
        made["continue"] = next_page
    if remaining is not None:
        made["remainingItemCount"] = remaining
    return made


def list_bytes(served: Resource, items: Iterable[StoredObject], metadata: Document) -> bytes:
    """A list of stored objects. Items of built-in kinds carry no kind."""
    head = encode({"kind": served.listed_as, "apiVersion": served.api_version, "metadata": metadata})
    if served.custom:
        written = [object_bytes(served, one) for one in items]
    else:
        prefix = _prefix(served.storage_api_version, served.kind) + b","
        as_stored = served.from_storage is None
        written = [
            b"{" + one.body[len(prefix) :]
            if as_stored and one.body.startswith(prefix)
            else encode(_without_kind(served.named(one.document())))
            for one in items
        ]
    return head[:-1] + b',"items":[' + b",".join(written) + b"]}"


def event_bytes(type_: str, body: bytes) -> bytes:
    return b'{"type":"' + type_.encode() + b'","object":' + body + b"}\n"


FUTURE_SECONDS = 3.0
"""How long a read waits for a version that is not there yet."""


class ResourceReads:
    def __init__(self, store: ObjectStore, conversions: Conversions) -> None:
        self._store = store
        self.conversions = conversions

    async def get(self, call: RequestInfo) -> ServerResponse:
        await self.reach(parsed_version(call.request.param("resourceVersion"), errors.plain_internal))
        one = await self.stored(call)
        if not call.form and not is_scale(call):
            return ServerResponse(body=object_bytes(call.resource, one))
        return shown(call, read_at_endpoint(call, call.resource.named(one.document())))

    async def stored(self, call: RequestInfo) -> StoredObject:
        """One object, which its resource can show. Raises StatusError."""
        one = self._store.get(call.resource.stored_in, call.key)
        await self._store.committed(one.version if one else None)
        if one is None:
            raise call.not_found()
        await self.conversions.prepare(call.resource, [one])
        return one

    async def list(self, call: RequestInfo, options: ListOptions) -> ServerResponse:
        selection = selection_of(call)
        items, version, next_page, remaining = await self.select(call, options, selection)
        return self.listed(call, items, list_metadata(version, next_page, remaining))

    def listed(self, call: RequestInfo, items: Sequence[StoredObject], metadata: Document) -> ServerResponse:
        """Objects as a list, in the form that the client wants. Raises StatusError."""
        served = call.resource
        if call.form:
            # One at a time: what is made of each is small, and thousands of documents at once keep the collector busy.
            documents = (served.named(one.document()) for one in items)
            return ServerResponse.of(formed(call, documents, metadata=metadata, now=call.now))
        if served.custom:
            # Lists of custom resources are maps to the real server, which sets the token even if there is none.
            metadata.setdefault("continue", "")
        return ServerResponse(body=list_bytes(served, items, metadata))

    async def select(
        self, call: RequestInfo, options: ListOptions, selection: ObjectSelection
    ) -> tuple[Sequence[StoredObject], int, str, int | None]:
        """The objects of a list, its version, the token of the next page, and how many are left.

        A later page has the version of the first one and the objects that there are now. A watch from that version
        tells of what changed between them.
        """
        asked = parsed_version(options.version, errors.bad_request)
        await self.reach(asked)
        version, after = (options.page.version, options.page.after) if options.page else (self._store.version, "")
        collection = self._store.collection(call.resource.stored_in)
        if options.match == "Exact":
            if self._store.changed_since(collection.name, asked):
                raise errors.expired("The resourceVersion for the provided list is too old.")
            version = asked
        matches, single = selection.stored, "" if after else selection.single
        chosen: list[StoredObject] = []
        more = 0
        for one in await self.conversions.listed(call.resource, collection.listed(selection.namespace, after)):
            if single and one.name.name != single:
                continue
            if options.limit and len(chosen) == options.limit:
                # Whether it matches is the question of the next page, which may be empty.
                more += 1
                if not selection.everything:
                    break
            elif matches(one):
                chosen.append(one)
        await self._store.committed()
        if not more:
            return chosen, version, "", None
        token = Continuation(version, chosen[-1].name.sort_key).token()
        return chosen, version, token, more if selection.everything else None

    async def reach(self, version: int) -> None:
        """Wait a little for a version from the future. Raises StatusError if it does not come."""
        if version <= self._store.version:
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + FUTURE_SECONDS
        while version > self._store.version:
            if loop.time() >= end:
                raise errors.too_large_version(version, self._store.version)
            await asyncio.sleep(0.05)


def formed(
    call: RequestInfo,
    documents: Iterable[Document],
    *,
    now: datetime,
    metadata: Document | None = None,
    headers: bool = True,
) -> Document:
    """Objects as a table, with or without the definitions of its columns, or as metadata alone.

    `metadata` is that of a list, None for one object. Raises StatusError where the other of both was asked for.
    """
    if call.form == "Table":
        documents = list(documents) if metadata is None else documents
        about = next(iter(documents)).get("metadata") or {} if metadata is None else metadata
        include = call.request.param("includeObject")
        return table_of(table_format(call.resource), documents, about, now=now, include=include, headers=headers)
    if call.form.endswith("List") != (metadata is not None):
        what = f"is {'no' if metadata is None else 'a'} list"
        raise errors.not_acceptable(f"you requested {call.form}, but the requested object {what}")
    return partial_metadata(next(iter(documents))) if metadata is None else partial_metadata_list(documents, metadata)


def shown(call: RequestInfo, document: Document, status: int = 200) -> ServerResponse:
    """One object in the form that the client wants. Raises StatusError."""
    return ServerResponse.of(formed(call, [document], now=call.now) if call.form else document, status)


def _without_kind(document: Document) -> Document:
    return {name: value for name, value in document.items() if name not in ("apiVersion", "kind")}
