# SPDX-License-Identifier: Apache-2.0
"""One watch, one store, any number of handlers.

The store is changed before handlers are called. Handlers run one after the other in the task of the reflector, so every
handler sees the changes in the server's order. A slow handler slows the watch instead of filling a buffer. An exception
of a handler is logged and does not affect the others.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from trainwright.api.base import Resource
from trainwright.api.objects import AnyObject, Document, Key, applied_at, key_of, resource_version_of, uid_of
from trainwright.controller.runtime import nesting
from trainwright.controller.runtime.cache.echo import EchoGuard, Flight
from trainwright.controller.runtime.cache.reflector import CacheScope, Filling, Reflector
from trainwright.controller.runtime.cache.store import Event, EventType, Handler, IndexFunction, InformerStore
from trainwright.controller.runtime.cache.transforms import Transform, unpacked
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.watch import Frame
from trainwright.controller.runtime.errors import DecodeError, KubernetesError, NotCached
from trainwright.controller.runtime.kinds import Codec, Kind, MetadataOnly, codec_of
from trainwright.controller.runtime.lag import Pacer

log = logging.getLogger(__name__)


class _Identity(msgspec.Struct):
    """The part of metadata that tells one state of one object from all others."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class _Identified(msgspec.Struct):
    metadata: _Identity = msgspec.field(default_factory=_Identity)


_IDENTITY = msgspec.json.Decoder(_Identified)
_DOCUMENT = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class InformerStatistics:
    """Content of an informer and state of its watch. Times are those of the event loop, in seconds."""

    kind: str
    scope: str
    synced: bool
    objects: int
    ahead: int
    """Keys that show the answer of an own write that the watch has not reached yet."""
    undecodable: int
    events: int
    """Changes read from the watch since the start."""
    lists: int
    failures: int
    """Failed lists and watches since the start."""
    last_error: str
    """Error of the last failed list or watch; empty once the server answered again."""
    last_contact: float
    resource_version: str


@dataclass(slots=True, eq=False)
class Subscription:
    """A handler of an informer."""

    handler: Handler
    controller: str
    """Events of writes of this controller are not delivered; empty: all events are delivered."""
    undecodable: bool
    remove: Callable[[], None]


class Informer:
    """The cached objects of one kind in one scope. `Cache` creates and runs it."""

    resource: Resource
    """The API resource of the kind."""
    last_error: KubernetesError | None
    """Error of the last failed list or watch; None once the server answered again."""

    def __init__(
        self,
        client: Client,
        kind: Kind,
        scope: CacheScope,
        *,
        transform: Transform | None = None,
        streaming: bool = True,
        on_store: Callable[[AnyObject], None] | None = None,
    ) -> None:
        """`on_store` is called for every stored object; the mutation detector uses it."""
        self.kind = kind
        self.codec: Codec[Any] = codec_of(kind)
        self.resource = self.codec.resource
        self.scope = scope
        self.store = InformerStore()
        self._transform = transform
        self._on_store = on_store
        self._reflector = Reflector(client, kind, scope, self, streaming=streaming)
        self._subscriptions: list[Subscription] = []
        self._echoes = EchoGuard(self._deliver_to)
        self._synced = asyncio.Event()
        self._retired = False
        self._waiting: list[asyncio.Future[None]] = []
        self._events = self._lists = self._failures = 0
        self.last_error = None
        self._last_contact = float("-inf")
        self._complained: set[Key] = set()

    # ------------------------------------------------------------------ for users

    def keeps(self, obj: AnyObject) -> bool:
        """Whether the transform leaves something of the object, which has to be of the informer's kind."""
        return self._transform is None or self._transform(obj) is not None

    @property
    def synced(self) -> bool:
        """Whether the first list is in the store and the handlers have seen it."""
        return self._synced.is_set() and not self._retired

    @property
    def in_use(self) -> bool:
        """Whether there is a handler."""
        return bool(self._subscriptions)

    async def wait_synced(self) -> None:
        """Wait for the first list, without a time limit. Raises NotCached if the informer is removed."""
        await self._synced.wait()
        if self._retired:
            raise NotCached(f"{self.resource.plural} ({self.scope}) are no longer cached: the informer was removed")

    def retire(self) -> None:
        """The cache removes this informer. Waiting tasks are woken."""
        self._retired = True
        self._synced.set()

    async def next_change(self) -> None:
        """Wait for the next change or bookmark of the watch."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def add_index(self, name: str, function: IndexFunction) -> None:
        """See InformerStore.add_index. Can be called at any time."""
        self.store.add_index(name, function)

    def add_handler(self, handler: Handler, *, controller: str = "", undecodable: bool = False) -> Subscription:
        """Call `handler` for every change from now on, and first with an `initial` ADDED event for each stored object.

        `controller`: do not deliver events of this controller's own writes. `undecodable`: also deliver events of
        objects that do not fit the model, as dictionaries.
        """
        subscription = Subscription(handler, controller, undecodable, lambda: None)
        subscription.remove = lambda: self._subscriptions.remove(subscription)
        for obj in self.store.list():
            self._call(subscription, Event(EventType.ADDED, key_of(obj), None, obj, initial=True))
        if undecodable:
            for key, document in self.store.undecodable.items():
                self._call(subscription, Event(EventType.ADDED, key, None, document, initial=True, undecodable=True))
        self._subscriptions.append(subscription)
        return subscription

    def statistics(self) -> InformerStatistics:
        """A snapshot for metrics, the debug page and tests."""
        return InformerStatistics(
            kind=self.resource.kind,
            scope=str(self.scope),
            synced=self.synced,
            objects=len(self.store),
            ahead=self.store.ahead,
            undecodable=len(self.store.undecodable),
            events=self._events,
            lists=self._lists,
            failures=self._failures,
            last_error=str(self.last_error or ""),
            last_contact=self._last_contact,
            resource_version=self.store.resource_version,
        )

    async def run(self) -> None:
        """List and watch until cancelled."""
        await self._reflector.run()

    # ------------------------------------------------------------------ our own writes

    def take_off(self, key: Key, writer: str, *, applies: bool = False) -> Flight:
        """A write of an object of this kind is about to be sent. `applies`: by server-side apply."""
        return self._echoes.take_off(key, writer, self.store.get(key) if applies else None)

    def landed(self, flight: Flight, codec: Codec[Any], obj: AnyObject) -> None:
        """The write was answered with `obj`: show it at once if it is in scope."""
        version = resource_version_of(obj)
        watched = self.store.resource_version
        try:
            held = self._as_held(codec, obj) if self.scope.admits(obj) else None
            kept = self._transform(held) if self._transform and held is not None else held
        except Exception:  # the write succeeded, so its caller must not see this error
            log.exception(
                "%s %s: cannot show the answer of a write; the object changes when the watch shows it",
                self.resource.kind,
                flight.key,
            )
            kept = None
        if kept is not None and flight.before is not None and applied_at(flight.before) == applied_at(kept):
            # The apply changed nothing, and the version may be that of a change by others that the watch has not shown.
            version = ""
        if kept is not None and self.store.believe(kept) and self._on_store:
            self._on_store(kept)
        self._echoes.land(flight, version, watched)

    def _as_held(self, codec: Codec[Any], obj: AnyObject) -> AnyObject | None:
        """The answer in the representation of this informer; None if it contains less."""
        if codec is self.codec:
            return obj
        if isinstance(codec.kind, MetadataOnly):
            return None
        document = unpacked(obj)
        if isinstance(self.kind, MetadataOnly):
            document = {"metadata": document.get("metadata")}
        held: AnyObject = self.codec.decode(msgspec.json.encode(document))
        return held

    def landed_deleted(self, flight: Flight, uid: str) -> None:
        """The delete succeeded: hide the object at once."""
        self.store.believe_deleted(flight.key, uid)
        self._echoes.land(flight, "", self.store.resource_version)

    def crashed(self, flight: Flight) -> None:
        """The write failed or its outcome is unknown: rely on the watch alone."""
        self._echoes.land(flight, "", self.store.resource_version)

    # ------------------------------------------------------------------ the reflector's sink

    def fill(self) -> Filling:
        """A list begins."""
        return _Filling(self)

    def apply(self, frame: Frame) -> str:
        """Apply one change of the watch."""
        decoded = self._echo_of(frame) or self.decode(frame.object)
        if decoded is None:
            return ""
        self._events += 1
        self._last_contact = asyncio.get_running_loop().time()
        if isinstance(decoded, Undecodable):
            key, version = decoded.key, decoded.version
            if frame.type == "DELETED":
                event = self.store.remove(key, None, version)
                self._complained.discard(key)
            else:
                event = self.store.put_undecodable(key, decoded.document)
        else:
            obj, kept = decoded
            key, version = key_of(obj), resource_version_of(obj)
            if frame.type == "DELETED" or kept is None:
                event = self.store.remove(key, obj, version) if kept is not None or self.store.holds(key) else None
            else:
                event = self.store.put(kept, key)
                if self._on_store:
                    self._on_store(kept)
        self._advance(version)
        if event is not None:
            self._notify(event, version)
        return version

    def bookmark(self, version: str) -> None:
        """The watch is alive and complete up to `version`."""
        self._advance(version)
        self._last_contact = asyncio.get_running_loop().time()

    def connected(self) -> None:
        """The server answered."""
        self.last_error = None
        self._last_contact = asyncio.get_running_loop().time()

    def failed(self, error: KubernetesError) -> None:
        """A list or watch failed; the reflector retries."""
        self._failures += 1
        self.last_error = error
        log.warning("%s (%s): %s", self.resource.plural, self.scope, error)

    # ------------------------------------------------------------------ inside

    def decode(self, raw: msgspec.Raw) -> "tuple[AnyObject, AnyObject | None] | Undecodable | None":
        """The object and the part to keep; Undecodable if it does not fit; None if it has no readable name."""
        try:
            obj: AnyObject = self.codec.decode(raw)
        except DecodeError as error:
            return self._unfit(raw, error)
        if self._transform is None:
            return obj, obj
        try:
            return obj, self._transform(obj)
        except Exception as error:
            log.exception("%s %s: the transform raised an exception", self.resource.kind, key_of(obj))
            return self._unfit(raw, error)

    def _echo_of(self, frame: Frame) -> tuple[AnyObject, AnyObject] | None:
        """The answer of an own write, if the frame shows it at the same version: it need not be decoded again."""
        if not self.store.ahead or frame.type == "DELETED":
            return None
        try:
            metadata = _IDENTITY.decode(frame.object).metadata
        except (msgspec.MsgspecError, RecursionError):
            return None
        held = self.store.believed(Key(metadata.namespace, metadata.name), metadata.resource_version)
        return None if held is None or uid_of(held) != metadata.uid else (held, held)

    def _unfit(self, raw: msgspec.Raw, error: Exception) -> "Undecodable | None":
        try:
            document = nesting.decode(_DOCUMENT, raw)
            key = key_of(document)
            version = resource_version_of(document)
        except (msgspec.MsgspecError, AttributeError) as problem:
            if not isinstance(problem, (msgspec.ValidationError, AttributeError)):
                # Not JSON at all: the stream is broken, and what it held is not known. A new watch shows it.
                raise DecodeError(f"watch: not a frame: {problem}") from problem
            log.error("%s: dropped a list item that is not an object: %s", self.resource.plural, error)  # noqa: TRY400 - no traceback
            return None
        if key not in self._complained:
            self._complained.add(key)
            log.error("%s %s does not fit its model and is kept as a dictionary: %s", self.resource.kind, key, error)
        return Undecodable(key, version, document)

    def _advance(self, version: str) -> None:
        if version:
            self.store.resource_version = version
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)

    async def replace(self, objects: Iterable[AnyObject], undecodable: dict[Key, Document], version: str) -> None:
        """A complete list replaces the content."""
        first = not self.synced
        pacer = Pacer()
        self._lists += 1
        if self._on_store:
            objects = list(objects)
            for obj in objects:
                self._on_store(obj)
        events = self.store.replace(objects, undecodable, version)
        self._complained.intersection_update(undecodable)
        self._advance(version)
        for event in events:
            event.initial = first
            self._notify(event, resource_version_of(event.new) if event.new is not None else "")
            await pacer.pause()
        self._last_contact = asyncio.get_running_loop().time()
        self._synced.set()

    def _notify(self, event: Event[AnyObject], version: str) -> None:
        withheld = self._echoes.withheld_from(event, version)
        for subscription in tuple(self._subscriptions):
            if subscription.controller not in withheld or not subscription.controller:
                self._call(subscription, event)

    def _deliver_to(self, controller: str, event: Event[AnyObject]) -> None:
        for subscription in tuple(self._subscriptions):
            if subscription.controller == controller and controller:
                self._call(subscription, event)

    def _call(self, subscription: Subscription, event: Event[AnyObject]) -> None:
        if event.undecodable and not subscription.undecodable:
            return
        try:
            subscription.handler(event)
        except Exception:
            log.exception("a handler of %s raised an exception for %s %s", self.resource.kind, event.type, event.key)


@dataclass(frozen=True, slots=True)
class Undecodable:
    """An object that does not fit its model."""

    key: Key
    version: str
    document: Document


class _Filling:
    """A list that is arriving: the last state of each object, decoded one by one."""

    def __init__(self, informer: Informer) -> None:
        self._informer = informer
        self._objects: dict[Key, AnyObject] = {}
        self._unfit: dict[Key, Document] = {}

    def add(self, frame: Frame) -> None:
        decoded = self._informer.decode(frame.object)
        if decoded is None:
            return
        if isinstance(decoded, Undecodable):
            self._objects.pop(decoded.key, None)
            self._unfit.pop(decoded.key, None)
            if frame.type != "DELETED":
                self._unfit[decoded.key] = decoded.document
            return
        obj, kept = decoded
        key = key_of(obj)
        self._unfit.pop(key, None)
        if frame.type == "DELETED" or kept is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = kept

    async def finish(self, version: str) -> None:
        await self._informer.replace(self._objects.values(), self._unfit, version)
