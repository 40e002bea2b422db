# SPDX-License-Identifier: Apache-2.0
"""Declares a controller: the kind it reconciles, the kinds it owns, and the other kinds it watches.

    manager.controller("web").for_(Web).owns(Deployment).watches(ConfigMap, mapper).reconcile(reconcile, workers=4)

A kind that is declared here can be read from the cache.
"""

from collections.abc import Callable, Iterable
from typing import Any, Self

from trainwright.api.base import Resource
from trainwright.api.objects import Key
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.cache.transforms import Transform
from trainwright.controller.runtime.controller.controller import Controller, ControllerObserver, Reconciler
from trainwright.controller.runtime.controller.sources import (
    KindSource,
    Mapper,
    Predicate,
    Source,
    Wait,
    keys_of_owner,
    own_key,
)
from trainwright.controller.runtime.controller.uses import Uses
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.kinds import Kind, resource_of
from trainwright.controller.runtime.workqueue.limiters import Limiter
from trainwright.controller.runtime.workqueue.queue import QueueObserver, WorkQueue


class Builder:
    """Collects sources; `reconcile` makes the controller. All other methods return the builder."""

    def __init__(
        self,
        cache: Cache,
        name: str = "",
        *,
        uses: Uses | None = None,
        register: Callable[[Controller], None] = lambda _: None,
        queue_observer: Callable[[str], QueueObserver | None] = lambda _: None,
        observer: Callable[[str], ControllerObserver | None] = lambda _: None,
    ) -> None:
        """`uses`: what its role allows; a watch of another kind raises ConfigurationError. None: not checked."""
        self._cache = cache
        self._name = name
        self._uses = uses
        self._register = register
        self._queue_observer = queue_observer
        self._observer = observer
        self._for: Resource | None = None
        self._kinds: list[tuple[Kind, Mapper, dict[str, Any], tuple[Predicate, ...], bool, Wait | None]] = []
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
        """The kind to reconcile. Call it at most once.

        Where this or another controller needs more objects of the kind than these, declare all of them, and choose
        with `labels_match`: a kind has one cache, and `reconcile` refuses two that overlap.
        """
        if self._for is not None:
            raise ConfigurationError(f"for_ was already called for {self._for.kind}; use watches for other kinds")
        self._for = self._allowed(kind)
        options = {"namespace": namespace, "label_selector": label_selector, "transforms": tuple(transforms)}
        self._kinds.append((kind, own_key, options, tuple(predicates), True, None))
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
        wait: Wait | None = None,
    ) -> Self:
        """A kind that this controller creates; changes reconcile the owner. Raises ConfigurationError before `for_`.

        `wait`: see `watches`.
        """
        if self._for is None:
            raise ConfigurationError(
                f"owns({resource_of(kind).kind}): call for_ first, which names the kind of the owner"
            )
        mapper = keys_of_owner(self._for, every=every_owner)
        return self.watches(
            kind,
            mapper,
            predicates=predicates,
            namespace=namespace,
            label_selector=label_selector,
            transforms=transforms,
            wait=wait,
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
        wait: Wait | None = None,
    ) -> Self:
        """Any other kind; `mapper` returns the keys to reconcile for one of its objects.

        `wait` returns the seconds that the reconcile of an event may wait for company, such as another event; 0: none.
        While it waits, and afterwards, keys with other events go first.
        """
        self._allowed(kind)
        options = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
            "transforms": tuple(transforms),
        }
        self._kinds.append((kind, mapper, options, tuple(predicates), False, wait))
        return self

    def _allowed(self, kind: Kind) -> Resource:
        resource = resource_of(kind)
        if self._uses is not None and not self._uses.is_watched(resource):
            raise ConfigurationError(
                f"controller {self._name} watches {resource.kind}, which its role does not allow: add it to the watches"
                " of its Uses"
            )
        return resource

    def source(self, source: Source) -> Self:
        """Any other source of keys. Predicates do not apply to it."""
        self._raw.append(source)
        return self

    def when(self, *predicates: Predicate) -> Self:
        """Predicates for all kinds, checked before those of each kind."""
        self._predicates += predicates
        return self

    def reconcile(
        self,
        reconcile: Reconciler,
        *,
        workers: int = 16,
        limiter: Limiter | None = None,
        timeout: float | None = None,
        sync_timeout: float = 120.0,
        needs_leader: bool = True,
    ) -> Controller:
        """Make the controller and add it to the manager.

        At most `workers` keys are reconciled at the same time. `timeout` limits one reconcile (None: no limit), and
        `sync_timeout` the first lists of all sources, both in seconds. `needs_leader`: only on the replica that leads.

        Raises ConfigurationError without a source or a name, and if reads of the kind of `for_` would come from another
        cache than its events.
        """
        if not self._kinds and not self._raw:
            raise ConfigurationError("a controller needs a source: call for_, watches or source")
        name = self._name or (self._for.kind.lower() if self._for else "")
        if not name:
            raise ConfigurationError("a controller without for_ needs a name: pass it to controller()")
        queue: WorkQueue[Key] = WorkQueue(name, limiter=limiter, observer=self._queue_observer(name))
        sources: list[Source] = []
        for kind, mapper, options, predicates, main, wait in self._kinds:
            informer = self._cache.informer(kind, **options)
            if main:
                self._cache.reconciled(informer, name)
            sources.append(
                KindSource(
                    informer,
                    mapper,
                    name,
                    (*self._predicates, *predicates),
                    undecodable=main,
                    forget=queue.forget if main else lambda _: None,
                    wait=wait,
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
