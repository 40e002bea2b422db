# SPDX-License-Identifier: Apache-2.0
"""All informers of a process, and reads from them (R-67 to R-81).

Kinds are declared before they are read: a read never starts a watch behind the caller's back. One informer serves all
who declare the same kind, representation and scope. Reads are synchronous and cost a dictionary look-up.

Guarantees: a read sees at least what the reader's own earlier writes were answered, if they went through a client that
this cache observes. Objects are shared with everybody else and must not be changed: `obj.deepcopy()` first.

Caveats: apart from own writes a read is as old as the watch. Two scopes of one kind are two watches and two copies.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar, overload

from trainwright.api.base import Object, Resource
from trainwright.controller.runtime.cache.informer import Informer, InformerStatistics
from trainwright.controller.runtime.cache.mutation import MutationDetector
from trainwright.controller.runtime.cache.scope import Scope
from trainwright.controller.runtime.cache.transforms import Transform, chain, trim_managed_fields
from trainwright.controller.runtime.cache.writes import CachedWrite
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.observer import PendingWrite
from trainwright.controller.runtime.context import writer
from trainwright.controller.runtime.errors import ConfigurationError, DecodeError, NotCached, NotSynced
from trainwright.controller.runtime.kinds import Kind, MetadataOnly, resource_of
from trainwright.controller.runtime.objects import AnyObject, Document, Key, PartialObject, controller_of, labels_of
from trainwright.controller.runtime.selectors import parse_label_selector
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.versions import at_least

O = TypeVar("O", bound=Object)  # noqa: E741 - the object, as everywhere in this module

BY_CONTROLLER = "controller-uid"
"""Index that every informer has: the uid of the object's controller."""


def _controller_uid(obj: AnyObject) -> Iterable[str]:
    owner = controller_of(obj)
    return (owner.uid,) if owner else ()


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
        """`field_manager`: whose managedFields entries are kept. `namespace`: scope of kinds declared without one."""
        self._client = client
        self._namespace = namespace
        self._streaming = streaming
        self._informers: dict[tuple[Kind, Scope], Informer] = {}
        self._by_resource: dict[Resource, list[Informer]] = {}
        self._trim = trim_managed_fields((field_manager,) if field_manager else ())
        self._detector = MutationDetector() if detect_mutation else None
        self._tasks: TaskScope | None = None
        self._running: dict[Informer, asyncio.Task[None]] = {}
        self._known: dict[tuple[str, str], Kind] = {}

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
        """The informer of a kind and scope, made at the first call; started at once if the cache runs.

        `namespace` None means the cache's own. `transforms` run after managedFields were trimmed; they can only be
        given by the first caller. Raises ConfigurationError if a later one gives some.
        """
        resource = resource_of(kind)
        where = self._namespace if namespace is None else namespace
        scope = Scope(where if resource.namespaced else "", label_selector, field_selector)
        steps = tuple(transforms)
        existing = self._informers.get((kind, scope))
        if existing is not None:
            if steps:
                raise ConfigurationError(f"{resource.plural} ({scope}): transforms belong to the first declaration")
            return existing
        informer = Informer(
            self._client,
            kind,
            scope,
            transform=chain((self._trim, *steps)),
            streaming=self._streaming,
            on_store=self._detector.watch if self._detector else None,
        )
        informer.add_index(BY_CONTROLLER, _controller_uid)
        self._informers[kind, scope] = informer
        self._by_resource.setdefault(resource, []).append(informer)
        self._known.setdefault((resource.api_version, resource.kind), kind)
        if self._tasks is not None:
            self._start(informer)
        return informer

    def informers(self) -> Iterator[Informer]:
        """All that were declared."""
        return iter(list(self._informers.values()))

    def remove(self, informer: Informer) -> None:
        """End a watch and forget what it brought; the kind is as if it had never been declared (R-80).

        Raises ConfigurationError if it is not one of this cache's, or has handlers, such as a controller's, left.
        """
        named = f"{informer.resource.plural} ({informer.scope})"
        if self._informers.get((informer.kind, informer.scope)) is not informer:
            raise ConfigurationError(f"{named}: not an informer of this cache, or removed already")
        if informer.in_use:
            raise ConfigurationError(f"{named}: a controller or another handler still listens; remove that first")
        del self._informers[informer.kind, informer.scope]
        others = self._by_resource[informer.resource]
        others.remove(informer)
        name = (informer.resource.api_version, informer.resource.kind)
        self._known.pop(name)
        if others:
            self._known[name] = others[0].kind
        else:
            del self._by_resource[informer.resource]
        informer.retire()
        if (task := self._running.pop(informer, None)) is not None:
            task.cancel()

    def add_index(self, kind: Kind, name: str, function: Callable[[Any], Iterable[str]]) -> None:
        """File the objects of a declared kind under the values that `function` gives. Raises NotCached."""
        self._find(kind).add_index(name, function)

    # ------------------------------------------------------------------ running

    async def run(self) -> None:
        """Run all informers until cancelled. Raises MutationError in debug mode when a shared object was changed."""
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

    def _start(self, informer: Informer) -> None:
        assert self._tasks is not None
        self._running[informer] = self._tasks.start(f"watch:{informer.resource.plural}", informer.run())

    async def wait_synced(self, kinds: Iterable[Kind] | None = None) -> None:
        """Wait for the first list of the kinds given, or of all declared; no limit of its own."""
        if kinds is not None:
            for informer in [self._find(kind) for kind in kinds]:
                await informer.wait_synced()
            return
        for informer in self.informers():
            with suppress(NotCached):  # removed meanwhile: nobody waits for it any more
                await informer.wait_synced()

    def statistics(self) -> Sequence[InformerStatistics]:
        """One record per informer."""
        return [informer.statistics() for informer in self._informers.values()]

    # ------------------------------------------------------------------ reading

    @overload
    def get(self, kind: type[O], name: str, namespace: str = "") -> O | None: ...
    @overload
    def get(self, kind: Resource, name: str, namespace: str = "") -> Document | None: ...
    @overload
    def get(self, kind: MetadataOnly, name: str, namespace: str = "") -> PartialObject | None: ...

    def get(self, kind: Kind, name: str, namespace: str = "") -> AnyObject | None:
        """The object, or None if there is none.

        Raises NotCached if the kind or the namespace was not declared, NotSynced before the first list, DecodeError for
        an object that does not fit its model.
        """
        informer = self._synced(kind, namespace)
        key = Key(namespace if informer.resource.namespaced else "", name)
        if key in informer.store.undecodable:
            informer.codec.decode(_encode(informer.store.undecodable[key]))  # raises with the field's path
            raise DecodeError(f"{informer.resource.kind} {key}: refused by a transform; see the log")
        return informer.store.get(key)

    @overload
    def list(self, kind: type[O], namespace: str = "", *, label_selector: str = "") -> Sequence[O]: ...
    @overload
    def list(self, kind: Resource, namespace: str = "", *, label_selector: str = "") -> Sequence[Document]: ...
    @overload
    def list(self, kind: MetadataOnly, namespace: str = "", *, label_selector: str = "") -> Sequence[PartialObject]: ...

    def list(self, kind: Kind, namespace: str = "", *, label_selector: str = "") -> Sequence[Any]:
        """All objects, or those of a namespace, that match; in no promised order. Raises NotCached, NotSynced."""
        selected = self._synced(kind, namespace).store.list(namespace)
        if not label_selector:
            return list(selected)
        selector = parse_label_selector(label_selector)
        return [obj for obj in selected if selector.matches(labels_of(obj))]

    @overload
    def indexed(self, kind: type[O], index: str, value: str) -> Sequence[O]: ...
    @overload
    def indexed(self, kind: Resource, index: str, value: str) -> Sequence[Document]: ...
    @overload
    def indexed(self, kind: MetadataOnly, index: str, value: str) -> Sequence[PartialObject]: ...

    def indexed(self, kind: Kind, index: str, value: str) -> Sequence[Any]:
        """The objects that an index files under a value. Raises NotCached, NotSynced, ConfigurationError (no index)."""
        return list(self._synced(kind, "").store.indexed(index, value))

    def controlled_by(self, kind: Kind, uid: str) -> Sequence[Any]:
        """The objects whose controller has this uid."""
        return list(self._synced(kind, "").store.indexed(BY_CONTROLLER, uid))

    def declared(self, resource: Resource) -> Iterator[Informer]:
        """The informers of a resource, whatever their representation and scope."""
        return iter(self._by_resource.get(resource, ()))

    def known_kinds(self) -> dict[tuple[str, str], Kind]:
        """Declared kinds by apiVersion and kind, for telling what a dictionary is."""
        return self._known

    async def wait_for_version(self, kind: Kind, version: str, *, limit: float = 10.0) -> None:
        """Wait until the watch itself has reached a version; opt-in, since reads show own writes without it.

        `limit` in seconds; TimeoutError names kind and version when it passes.
        """
        informer = self._find(kind)
        try:
            async with asyncio.timeout(limit):
                while not at_least(informer.store.resource_version, version):
                    await informer.next_change()
        except TimeoutError:
            raise TimeoutError(
                f"{informer.resource.plural}: the watch is at {informer.store.resource_version or 'nothing'}, not at"
                f" {version}, after {limit} s"
            ) from None

    def _find(self, kind: Kind, namespace: str = "") -> Informer:
        resource = resource_of(kind)
        # As in `informer`: where no namespace is named, the cache's own is meant.
        namespace = namespace or self._namespace
        candidates = [i for (k, _), i in self._informers.items() if k == kind]
        for informer in candidates:
            scope = informer.scope
            if scope.label_selector or scope.field_selector:
                continue
            if not scope.namespace or scope.namespace == namespace:
                return informer
        if len(candidates) == 1 and candidates[0].scope.namespace in {"", namespace}:
            return candidates[0]
        if candidates:
            held = "; ".join(str(informer.scope) for informer in candidates)
            raise NotCached(
                f"{resource.plural} are cached for {held}; to read {namespace or 'all namespaces'}, declare that too"
            )
        raise NotCached(
            f"{resource.plural} are not cached: declare them with for_, owns or watches of a controller, or with"
            f" cache.informer({resource.kind})"
        )

    def _synced(self, kind: Kind, namespace: str) -> Informer:
        informer = self._find(kind, namespace)
        if not informer.synced:
            why = f": {informer.last_error}" if informer.last_error else ""
            raise NotSynced(f"{informer.resource.plural} ({informer.scope}): the first list has not arrived{why}")
        return informer

    # ------------------------------------------------------------------ observing the client's writes

    def begin(self, resource: Resource, key: Key) -> PendingWrite:
        """A write is about to be sent; see WriteObserver."""
        author = writer()
        flights = [(informer, informer.take_off(key, author)) for informer in self._by_resource.get(resource, ())]
        return CachedWrite(flights)


def _encode(document: Document) -> bytes:
    import msgspec  # noqa: PLC0415 - only on the way to an error

    return msgspec.json.encode(document)
