# SPDX-License-Identifier: Apache-2.0
"""All informers of a process, and reads from them.

A kind must be declared before it is read: a read never starts a watch. All who declare the same kind, representation
and scope share one informer. Reads are synchronous and cost a dictionary look-up.

Guarantees: a read shows at least the answers of the reader's own earlier writes, if they went through a client that
this cache observes. Objects are shared and must not be changed: call `obj.deepcopy()` first.

Caveats: apart from own writes a read is as old as the watch. Two scopes of one kind are two watches and two copies.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, cast, overload

import msgspec

from trainwright.api.base import Resource
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.objects import AnyObject, Key, controller_of, labels_of
from trainwright.controller.runtime.cache.echo import Flight
from trainwright.controller.runtime.cache.informer import Informer, InformerStatistics
from trainwright.controller.runtime.cache.mutation import MutationDetector
from trainwright.controller.runtime.cache.reflector import CacheScope
from trainwright.controller.runtime.cache.store import at_least
from trainwright.controller.runtime.cache.transforms import Transform, chain, trim_managed_fields
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.session import PendingWrite
from trainwright.controller.runtime.context import writer
from trainwright.controller.runtime.errors import ConfigurationError, DecodeError, NotCached, NotSynced
from trainwright.controller.runtime.kinds import Codec, Described, Kind, KindOf, T, resource_of
from trainwright.controller.runtime.selectors import parse_label_selector
from trainwright.controller.runtime.tasks import TaskScope

BY_CONTROLLER = "controller-uid"
"""Index of every informer: the uid of the controller of the object."""
FOUND = 10_000
"""Kinds and namespaces whose informer is remembered."""


def _controller_uid(obj: AnyObject) -> Iterable[str]:
    if isinstance(obj, dict):
        owner = controller_of(obj)
        return (owner.uid,) if owner else ()
    metadata: ObjectMeta | None = getattr(obj, "metadata", None)
    for reference in (metadata.owner_references if metadata is not None else None) or ():
        if reference.controller:
            return (reference.uid,)
    return ()


class Cache:
    """Declares, runs and reads informers."""

    def __init__(
        self,
        client: Client,
        *,
        field_manager: str = "",
        namespace: str = "",
        streaming: bool = True,
        detect_mutation: bool = False,
    ) -> None:
        """`field_manager`: its managedFields entries are kept. `namespace`: scope of kinds declared without one."""
        self._client = client
        self._namespace = namespace
        self._streaming = streaming
        self._informers: dict[tuple[Kind, CacheScope], Informer] = {}
        self._by_resource: dict[Resource, list[Informer]] = {}
        self._by_kind: dict[KindOf[Any], list[Informer]] = {}
        self._trim = trim_managed_fields((field_manager,) if field_manager else ())
        self._detector = MutationDetector() if detect_mutation else None
        self._tasks: TaskScope | None = None
        self._running: dict[Informer, asyncio.Task[None]] = {}
        self._known: dict[tuple[str, str], Kind] = {}
        self._reconciled: dict[Informer, str] = {}
        """The controller whose `for_` an informer is."""
        self._found: dict[tuple[KindOf[Any], str], Informer] = {}
        """Answers of `_find`, until the declared informers change."""

    # ------------------------------------------------------------------ declaring

    def informer(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        transforms: Iterable[Transform] = (),
    ) -> Informer:
        """The informer of a kind and scope. Created by the first call, and started at once if the cache runs.

        `namespace` None means that of the cache. `transforms` run after managedFields are trimmed. Only the first call
        can pass them. Raises ConfigurationError if a later one does.
        """
        resource = resource_of(kind)
        where = self._namespace if namespace is None else namespace
        scope = CacheScope(where if resource.namespaced else "", label_selector, field_selector)
        steps = tuple(transforms)
        existing = self._informers.get((kind, scope))
        if existing is not None:
            if steps:
                raise ConfigurationError(f"{resource.plural} ({scope}): pass transforms with the first declaration")
            return existing
        informer = Informer(
            self._client,
            kind,
            scope,
            transform=chain(self._trim, *steps),
            streaming=self._streaming,
            on_store=self._detector.watch if self._detector else None,
        )
        informer.add_index(BY_CONTROLLER, _controller_uid)
        self._check_reads([*self._by_kind.get(kind, ()), informer])
        self._informers[kind, scope] = informer
        self._found.clear()
        self._by_resource.setdefault(resource, []).append(informer)
        self._by_kind.setdefault(kind, []).append(informer)
        self._known.setdefault((resource.api_version, resource.kind), kind)
        if self._tasks is not None:
            self._start(informer)
        return informer

    def reconciled(self, informer: Informer, controller: str) -> None:
        """A controller reconciles the objects of this informer, so its reads must come from the same one.

        Raises ConfigurationError if they come from another informer of the kind, as `informer` does from then on: what
        an event shows, a read would not find yet, and the reconcile would take the object for deleted.
        """
        self._reconciled[informer] = controller
        self._check_reads(self._by_kind[informer.kind])

    def _check_reads(self, informers: Sequence[Informer]) -> None:
        spaces = {one.scope.namespace for one in informers}
        for informer in informers:
            if (controller := self._reconciled.get(informer)) is None:
                continue
            scope, plural = informer.scope, informer.resource.plural
            for space in {scope.namespace} if scope.namespace else spaces:
                other = _reader(informers, space)
                if other is not None and other is not informer:
                    raise ConfigurationError(
                        f"controller {controller} gets its events from the cache of {plural} ({scope}), and would read"
                        f" from that of {plural} ({other.scope}): declare them in one scope, and use predicates, such"
                        " as labels_match, in for_"
                    )

    def informers(self) -> Iterator[Informer]:
        return iter(list(self._informers.values()))

    def remove(self, informer: Informer) -> None:
        """Stop the watch of an informer and drop its objects, as if it had never been declared.

        Raises ConfigurationError if the informer is not in this cache or still has handlers.
        """
        named = f"{informer.resource.plural} ({informer.scope})"
        if self._informers.get((informer.kind, informer.scope)) is not informer:
            raise ConfigurationError(f"{named}: this informer is not in the cache; it may have been removed already")
        if informer.in_use:
            raise ConfigurationError(f"{named}: a controller or another handler uses this informer; remove that first")
        del self._informers[informer.kind, informer.scope]
        others = self._by_resource[informer.resource]
        others.remove(informer)
        self._by_kind[informer.kind].remove(informer)
        self._reconciled.pop(informer, None)
        name = (informer.resource.api_version, informer.resource.kind)
        self._known.pop(name)
        self._found.clear()
        if others:
            self._known[name] = others[0].kind
        else:
            del self._by_resource[informer.resource]
        informer.retire()
        if (task := self._running.pop(informer, None)) is not None:
            task.cancel()

    def add_index(self, kind: Kind, name: str, function: Callable[[Any], Iterable[str]]) -> None:
        """Index the objects of a declared kind by the values that `function` returns. Raises NotCached."""
        self._find(kind).add_index(name, function)

    # ------------------------------------------------------------------ running

    async def run(self) -> None:
        """Run all informers until cancelled. Raises MutationError in debug mode if a shared object was changed."""
        try:
            async with TaskScope("cache") as tasks:
                self._tasks = tasks
                for informer in list(self._informers.values()):
                    self._start(informer)
                if self._detector is not None:
                    tasks.start("cache:mutation-detector", self._detector.run())
                await asyncio.Event().wait()
        finally:
            self._tasks = None
            self._running.clear()
            if self._detector is not None:
                self._detector.check()

    def _start(self, informer: Informer) -> None:
        assert self._tasks is not None
        self._running[informer] = self._tasks.start(f"watch:{informer.resource.plural}", informer.run())

    async def wait_synced(self, kinds: Iterable[Kind] | None = None) -> None:
        """Wait for the first lists of the given kinds, or of all declared ones, without a time limit."""
        if kinds is not None:
            for informer in [self._find(kind) for kind in kinds]:
                await informer.wait_synced()
            return
        for informer in self.informers():
            with suppress(NotCached):  # removed in the meantime
                await informer.wait_synced()

    def statistics(self) -> Sequence[InformerStatistics]:
        return [informer.statistics() for informer in self._informers.values()]

    # ------------------------------------------------------------------ reading

    @overload  # two of them, so that type checkers take a union of kinds apart
    def get(self, kind: type[T], name: str | Key, namespace: str = "") -> T | None: ...
    @overload
    def get(self, kind: Described[T], name: str | Key, namespace: str = "") -> T | None: ...

    def get(self, kind: KindOf[T], name: str | Key, namespace: str = "") -> T | None:
        """The object, or None if it does not exist: by its key, or by name and namespace (else that of the cache).

        Raises NotCached if the kind or the namespace was not declared, NotSynced before the first list, DecodeError for
        an object that does not fit its model, ConfigurationError for a namespaced kind without any namespace.
        """
        if isinstance(name, Key):
            namespace, name = name
        informer = self._synced(kind, namespace)
        store = informer.store
        key = Key(self._place(informer, name, namespace), name)
        if store.undecodable and key in store.undecodable:
            informer.codec.decode(msgspec.json.encode(store.undecodable[key]))  # raises with the field's path
            raise DecodeError(f"{informer.resource.kind} {key}: a transform failed; see the log")
        return cast("T | None", store.get(key))

    @overload
    def list(self, kind: type[T], namespace: str = "", *, label_selector: str = "") -> Sequence[T]: ...
    @overload
    def list(self, kind: Described[T], namespace: str = "", *, label_selector: str = "") -> Sequence[T]: ...

    def list(self, kind: KindOf[T], namespace: str = "", *, label_selector: str = "") -> Sequence[T]:
        """All matching objects, or those of a namespace, in any order. Raises NotCached, NotSynced."""
        selected: Iterator[Any] = self._synced(kind, namespace).store.list(namespace)
        if not label_selector:
            return list(selected)
        selector = parse_label_selector(label_selector)
        return [obj for obj in selected if selector.matches(labels_of(obj))]

    def indexed(self, kind: KindOf[T], index: str, value: str) -> Sequence[T]:
        """The objects with a value in an index. Raises NotCached, NotSynced, ConfigurationError (no such index)."""
        found: Iterator[Any] = self._synced(kind, "").store.indexed(index, value)
        return list(found)

    def controlled_by(self, kind: KindOf[T], uid: str) -> Sequence[T]:
        """The objects whose controller has this uid."""
        return self.indexed(kind, BY_CONTROLLER, uid)

    def declared(self, resource: Resource) -> Iterator[Informer]:
        """All informers of a resource, of any representation and scope."""
        return iter(self._by_resource.get(resource, ()))

    def known_kinds(self) -> dict[tuple[str, str], Kind]:
        """Declared kinds by apiVersion and kind, to find the kind of a dictionary."""
        return self._known

    async def wait_for_version(self, kind: Kind, version: str, *, limit: float = 10.0) -> None:
        """Wait until the watch has reached a version. Own writes are visible without this.

        `limit` is in seconds. Raises TimeoutError with kind and version.
        """
        informer = self._find(kind)
        try:
            async with asyncio.timeout(limit):
                while not at_least(informer.store.resource_version, version):
                    await informer.next_change()
        except TimeoutError:
            raise TimeoutError(
                f"{informer.resource.plural}: the watch has not reached version {version} after {limit} s; it is at"
                f" {informer.store.resource_version or 'no version'}"
            ) from None

    def _find(self, kind: KindOf[Any], namespace: str = "") -> Informer:
        # As in `informer`: without a namespace, that of the cache is used.
        namespace = namespace or self._namespace
        candidates = self._by_kind.get(kind, ())
        if (found := _reader(candidates, namespace)) is not None:
            return found
        resource = resource_of(kind)
        if candidates:
            held = "; ".join(str(informer.scope) for informer in candidates)
            raise NotCached(
                f"{resource.plural} are cached for {held}; declare {namespace or 'all namespaces'} to read that too"
            )
        raise NotCached(
            f"{resource.plural} are not cached: declare them with reads=[{resource.kind}] of reconciles, with for_,"
            f" owns or watches of a controller, or with cache.informer({resource.kind})"
        )

    def _place(self, informer: Informer, name: str, namespace: str) -> str:
        """The namespace of an object. An empty one would find nothing, which callers read as deleted."""
        if not informer.resource.namespaced:
            return ""
        found = namespace or self._namespace
        if not found:
            raise ConfigurationError(f"{informer.resource.kind} {name}: pass the namespace; this kind is in namespaces")
        return found

    def _synced(self, kind: KindOf[Any], namespace: str) -> Informer:
        informer = self._found.get((kind, namespace))
        if informer is None:
            informer = self._find(kind, namespace)
            if len(self._found) < FOUND:
                self._found[kind, namespace] = informer
        if not informer.synced:
            why = f": {informer.last_error}" if informer.last_error else ""
            raise NotSynced(f"{informer.resource.plural} ({informer.scope}): the first list has not arrived{why}")
        return informer

    # ------------------------------------------------------------------ observing the client's writes

    def begin(self, resource: Resource, key: Key, *, applies: bool = False) -> PendingWrite:
        """A write is about to be sent; see WriteObserver."""
        author = writer()
        flights = [
            (informer, informer.take_off(key, author, applies=applies))
            for informer in self._by_resource.get(resource, ())
        ]
        return CachedWrite(flights)


def _reader(informers: Sequence[Informer], namespace: str) -> Informer | None:
    """The informer of a kind that reads of a namespace come from: one that holds all of it, or the only one."""
    for informer in informers:
        scope = informer.scope
        if scope.label_selector or scope.field_selector:
            continue
        if not scope.namespace or scope.namespace == namespace:
            return informer
    if len(informers) == 1 and informers[0].scope.namespace in {"", namespace}:
        return informers[0]
    return None


class CachedWrite(PendingWrite):
    """Reports the end of a write to every informer of the kind."""

    def __init__(self, flights: list[tuple[Informer, Flight]]) -> None:
        self._flights = flights

    def written(self, codec: Codec[Any], obj: AnyObject) -> None:
        for informer, flight in self._flights:
            informer.landed(flight, codec, obj)

    def deleted(self, uid: str) -> None:
        for informer, flight in self._flights:
            informer.landed_deleted(flight, uid)

    def failed(self) -> None:
        for informer, flight in self._flights:
            informer.crashed(flight)
