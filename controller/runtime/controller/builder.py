# SPDX-License-Identifier: Apache-2.0
"""Declares a controller: what it is for, what it owns, what else it looks at (K-1 to K-9).

    manager.controller("web").for_(Web).owns(Deployment).watches(ConfigMap, mapper).reconcile(reconcile, workers=4)

Declaring a kind here is also what makes it readable from the cache.
"""

from collections.abc import Callable, Iterable
from typing import Any, Self

from trainwright.api.base import Resource
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.cache.transforms import Transform
from trainwright.controller.runtime.controller import mappers
from trainwright.controller.runtime.controller.controller import (
    SYNC_SECONDS,
    WORKERS,
    Controller,
    ControllerObserver,
    Reconciler,
)
from trainwright.controller.runtime.controller.mappers import Mapper
from trainwright.controller.runtime.controller.predicates import Predicate
from trainwright.controller.runtime.controller.sources import KindSource, Source
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.kinds import Kind, resource_of
from trainwright.controller.runtime.objects import Key
from trainwright.controller.runtime.workqueue.entries import QueueObserver
from trainwright.controller.runtime.workqueue.limiters import Limiter
from trainwright.controller.runtime.workqueue.queue import WorkQueue


class Builder:
    """Collects sources; `reconcile` ends it. Each method gives the builder back."""

    def __init__(
        self,
        cache: Cache,
        name: str = "",
        *,
        register: Callable[[Controller], None] = lambda _: None,
        queue_observer: Callable[[str], QueueObserver | None] = lambda _: None,
        observer: Callable[[str], ControllerObserver | None] = lambda _: None,
    ) -> None:
        self._cache = cache
        self._name = name
        self._register = register
        self._queue_observer = queue_observer
        self._observer = observer
        self._for: Resource | None = None
        self._kinds: list[tuple[Kind, Mapper, dict[str, Any], tuple[Predicate, ...], bool]] = []
        self._raw: list[Source] = []
        self._predicates: list[Predicate] = []

    def for_(
        self,
        kind: Kind,
        *,
        predicates: Iterable[Predicate] = (),
        namespace: str | None = None,
        label_selector: str = "",
        transforms: Iterable[Transform] = (),
    ) -> Self:
        """The kind whose objects are reconciled. At most once."""
        if self._for is not None:
            raise ConfigurationError(f"for_ was called for {self._for.kind} already; use watches for further kinds")
        self._for = resource_of(kind)
        options = {"namespace": namespace, "label_selector": label_selector, "transforms": tuple(transforms)}
        self._kinds.append((kind, mappers.itself, options, tuple(predicates), True))
        return self

    def owns(
        self,
        kind: Kind,
        *,
        predicates: Iterable[Predicate] = (),
        every_owner: bool = False,
        namespace: str | None = None,
        label_selector: str = "",
        transforms: Iterable[Transform] = (),
    ) -> Self:
        """A kind that this controller creates; changes lead to the owner. Raises ConfigurationError before `for_`."""
        if self._for is None:
            raise ConfigurationError(f"owns({resource_of(kind).kind}) needs for_ first: who would the owner be?")
        mapper = mappers.owner(self._for, every=every_owner)
        return self.watches(
            kind,
            mapper,
            predicates=predicates,
            namespace=namespace,
            label_selector=label_selector,
            transforms=transforms,
        )

    def watches(
        self,
        kind: Kind,
        mapper: Mapper,
        *,
        predicates: Iterable[Predicate] = (),
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        transforms: Iterable[Transform] = (),
    ) -> Self:
        """Any other kind; `mapper` gives the keys to reconcile for an object of it."""
        options = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
            "transforms": tuple(transforms),
        }
        self._kinds.append((kind, mapper, options, tuple(predicates), False))
        return self

    def source(self, source: Source) -> Self:
        """Anything else that makes keys due; predicates do not apply to it (K-6)."""
        self._raw.append(source)
        return self

    def when(self, *predicates: Predicate) -> Self:
        """Predicates for all kinds, asked before the kind's own."""
        self._predicates += predicates
        return self

    def reconcile(
        self,
        reconcile: Reconciler,
        *,
        workers: int = WORKERS,
        limiter: Limiter | None = None,
        timeout: float | None = None,
        sync_timeout: float = SYNC_SECONDS,
        needs_leader: bool = True,
    ) -> Controller:
        """Make the controller and give it to the manager. Raises ConfigurationError without a source or a name."""
        if not self._kinds and not self._raw:
            raise ConfigurationError("a controller needs a source: for_, watches or source")
        name = self._name or (self._for.kind.lower() if self._for else "")
        if not name:
            raise ConfigurationError("a controller without for_ needs a name")
        queue: WorkQueue[Key] = WorkQueue(name, limiter=limiter, observer=self._queue_observer(name))
        sources: list[Source] = []
        for kind, mapper, options, predicates, main in self._kinds:
            sources.append(
                KindSource(
                    self._cache.informer(kind, **options),
                    mapper,
                    name,
                    (*self._predicates, *predicates),
                    undecodable=main,
                    forget=queue.forget if main else lambda _: None,
                )
            )
        controller = Controller(
            name,
            reconcile,
            [*sources, *self._raw],
            queue,
            workers=workers,
            timeout=timeout,
            sync_timeout=sync_timeout,
            needs_leader=needs_leader,
            observer=self._observer(name),
        )
        self._register(controller)
        return controller
