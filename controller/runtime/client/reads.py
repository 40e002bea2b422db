# SPDX-License-Identifier: Apache-2.0
"""The reading verbs: get, list, watch, logs. They always ask the server; `cache` has cached reads.

A long list is cut into its items one by one, so that the caller can let the event loop run in between. An API server
that cannot stream lists returns all objects in one body: 60 MB for 10,000 pods. To find its items, the decoder reads
through it at once, which blocks the loop for a quarter of a second. `Slices` finds each item when it is asked for. All
items of a list begin alike, so where the text between two of them occurs, one probably ends. It does if what lies
before is valid JSON: an object ends at one place only. Where it is not, the text was part of a string or of an inner
list, and the item ends at a later one.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypedDict, Unpack, overload

import msgspec

from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.objects import Key
from trainwright.controller.runtime import nesting
from trainwright.controller.runtime.client.session import ApiSession
from trainwright.controller.runtime.client.transport import Request, collection_path, object_path
from trainwright.controller.runtime.client.watch import Batch, StreamSilent, frames
from trainwright.controller.runtime.errors import BadRequest, DecodeError, NotFound, RequestTimeout
from trainwright.controller.runtime.kinds import Described, Kind, KindOf, T, codec_of, decoded
from trainwright.controller.runtime.tasks import limited

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


PAGE = 500
"""Objects per page of a list."""


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    continue_: str = msgspec.field(name="continue", default="")


class _ListBody(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


_LIST = msgspec.json.Decoder(_ListBody)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list. Its objects are still encoded, so one that cannot be decoded does not affect the others."""

    items: "Sequence[msgspec.Raw] | Slices"
    resource_version: str
    continue_token: str


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[T]):
    """All objects of a list, and the resource version at which they were read."""

    items: list[T]
    resource_version: str


class PodLogOptions(TypedDict, total=False):
    """Which part of a log is read."""

    container: str
    """Required if the pod has several."""
    follow: bool
    """Keep the stream open for new lines."""
    previous: bool
    """The log of the run before the last restart."""
    timestamps: bool
    """Start each line with the time."""
    tail: int | None
    """Number of lines from the end."""
    since: int | None
    """Only the last so many seconds."""
    since_time: str | None
    """RFC 3339. Only lines from then on, by the clock of the node that stamped them."""


class ReadVerbs(ApiSession):
    """The reading half of a client."""

    @overload  # two of them, so that type checkers take a union of kinds apart
    async def get(self, kind: type[T], name: str | Key, namespace: str = "", *, resource_version: str = "") -> T: ...
    @overload
    async def get(
        self, kind: Described[T], name: str | Key, namespace: str = "", *, resource_version: str = ""
    ) -> T: ...

    async def get(self, kind: KindOf[T], name: str | Key, namespace: str = "", *, resource_version: str = "") -> T:
        """Read one object, by its key, or by name and namespace.

        An empty `resource_version` reads the latest state, "0" may read the server's cache.

        Raises NotFound (also for an invalid name, without a request), Forbidden, TransportError, DecodeError.
        """
        codec = codec_of(kind)
        if isinstance(name, Key):
            namespace, name = name
        try:
            path = object_path(codec.resource, name, namespace)
        except BadRequest as error:
            raise NotFound(error.message) from None
        query = {"resourceVersion": resource_version} if resource_version else {}
        request = Request("GET", path, query, {"Accept": codec.accept})
        return codec.decode((await self.send(request)).body)

    async def list_page(
        self,
        kind: KindOf[Any],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
        continue_token: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> Page:
        """Read one page without decoding it. `limit` 0: all objects. Raises Gone for an expired `continue_token`.

        The API server refuses a resource version beside a continue token, so it is left out then.
        """
        codec = codec_of(kind)
        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": str(limit) if limit else "",
            "continue": continue_token,
            "resourceVersion": "" if continue_token else resource_version,
            "resourceVersionMatch": "" if continue_token else resource_version_match,
        }
        request = Request(
            "GET",
            collection_path(codec.resource, namespace),
            {name: value for name, value in query.items() if value},
            {"Accept": codec.accept_list},
        )
        response = await self.send(request)
        long = cut(response.body)
        if long is not None:
            with suppress(msgspec.MsgspecError):
                meta = nesting.decode(_LIST, long.envelope).metadata
                return Page(long.items, meta.resource_version, meta.continue_)
        body = decoded(_LIST, response.body, f"{request}: not a list")
        return Page(body.items or (), body.metadata.resource_version, body.metadata.continue_)

    async def list(
        self,
        kind: KindOf[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
    ) -> ObjectList[T]:
        """Read all objects, page by page. An empty namespace means all namespaces.

        Raises Gone if the snapshot of the list expired before the last page, Forbidden, TransportError, DecodeError.
        """
        codec = codec_of(kind)
        items: list[T] = []
        token, version = "", ""
        while True:
            page = await self.list_page(
                kind,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                continue_token=token,
            )
            items.extend(codec.decode(raw) for raw in page.items)
            version = version or page.resource_version
            token = page.continue_token
            if not token:
                return ObjectList(items, version)

    @asynccontextmanager
    async def watch(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        seconds: int = 300,
        idle: float | Callable[[], float | None] | None = 180.0,
        initial_events: bool = False,
    ) -> AsyncIterator[AsyncIterator[Batch]]:
        """One watch: an iterator over batches of frames that ends when the server ends the stream.

        `seconds` is the requested length. `idle` (seconds, or a function) is the longest silence before the stream
        counts as dead. With `initial_events` the stream starts with the existing objects. Raises Gone, Forbidden,
        NotFound, TooManyRequests, TransportError.
        """
        codec = codec_of(kind)
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
            "resourceVersion": resource_version,
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
        }
        if initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        request = Request(
            "GET",
            collection_path(codec.resource, namespace),
            {name: value for name, value in query.items() if value},
            {"Accept": codec.accept},
        )
        limit = idle if callable(idle) else lambda: idle
        async with AsyncExitStack() as opened:
            silence = limit()
            try:
                # A kept connection may be dead and a server may hang; `frames` counts from the head on.
                async with asyncio.timeout(silence):
                    stream = await opened.enter_async_context(self.stream(request))
            except TimeoutError:
                raise StreamSilent(f"{request}: no answer within {silence} s") from None
            yield await opened.enter_async_context(aclosing(frames(stream, idle=limit)))

    async def logs(self, pod: str, namespace: str, **options: Unpack[PodLogOptions]) -> AsyncGenerator[bytes, None]:
        """As `open_log`, in one generator. Close it with `aclosing` if you leave it early."""
        async with self.open_log(pod, namespace, **options) as chunks:
            async for chunk in chunks:
                yield chunk

    @asynccontextmanager
    async def open_log(
        self, pod: str, namespace: str, **options: Unpack[PodLogOptions]
    ) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        """The log of a container in chunks of any size. Entering says whether it can be read, before the first line.

        A log that is followed has no time limit: a kubelet answers with the first line, and that may take for ever. Any
        other one has the limit of the client for the begin of the answer and for each part of it.

        Raises:
            NotFound: the pod does not exist.
            BadRequest: the container does not exist or has not started.
            ServerError: the node does not answer.
            TransportError: no answer. RequestTimeout is one, also in the middle of the log.
        """
        flags = {name: "true" for name in ("follow", "previous", "timestamps") if options.get(name)}
        lines = {"tailLines": options.get("tail"), "sinceSeconds": options.get("since")}
        query = {"container": options.get("container", "")} | flags
        query |= {name: str(number) for name, number in lines.items() if number is not None}
        query["sinceTime"] = options.get("since_time") or ""
        path = object_path(Pod.RESOURCE, pod, namespace, "log")
        request = Request("GET", path, {name: value for name, value in query.items() if value})
        limit = None if options.get("follow") else self._timeout
        async with AsyncExitStack() as opened:
            stream = await _answered(request, opened.enter_async_context(self.stream(request)), limit)
            chunks = await opened.enter_async_context(aclosing(stream.chunks()))
            yield await opened.enter_async_context(aclosing(_limited(request, chunks, limit)))


async def _limited(
    request: Request, chunks: AsyncGenerator[bytes, None], limit: float | None
) -> AsyncGenerator[bytes, None]:
    while (chunk := await _answered(request, anext(chunks, None), limit)) is not None:
        yield chunk


async def _answered(request: Request, answer: Awaitable[T], limit: float | None) -> T:
    """Wait for a part of an answer. Raises RequestTimeout."""
    async with limited(asyncio.timeout(limit), lambda: RequestTimeout(f"{request}: no answer within {limit:g} s")):
        return await answer
