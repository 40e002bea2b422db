# SPDX-License-Identifier: Apache-2.0
"""What a reconciler can do with its object: read others, apply children, write the status, record events.

All reads come from the cache, so they cost nothing; a kind that is not declared is refused with the declaration that is
missing. `manager`, and by it the client and the cache, is there for everything else.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, get_args, overload

import msgspec

from trainwright.api.base import Object
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.objects import AnyObject, Document, Key, key_of, labels_of, name_of, namespace_of, uid_of, wire
from trainwright.controller.runtime.app.declarations import Reconciled
from trainwright.controller.runtime.apply.applier import Applied
from trainwright.controller.runtime.controller.controller import Backoff, Done, Result, RetryAfter
from trainwright.controller.runtime.errors import ConfigurationError, NotFound
from trainwright.controller.runtime.events.correlator import NormalOrWarning
from trainwright.controller.runtime.kinds import Described, Kind, KindOf, T, resource_of
from trainwright.controller.runtime.selectors import parse_label_selector

if TYPE_CHECKING:
    from trainwright.controller.runtime.manager.manager import Manager


class Context:
    """One call of a reconciler. Use it within the call only."""

    def __init__(self, manager: "Manager", declared: Reconciled, obj: AnyObject) -> None:
        self.manager = manager
        self.object = obj
        """The object of the call, as the cache has it; not to be changed."""
        self.key: Key = key_of(obj)
        self._declared = declared
        self._after: float | None = None

    # ------------------------------------------------------------------ reading

    @overload
    def get(self, kind: type[T], name: str, namespace: str | None = None) -> T | None: ...
    @overload
    def get(self, kind: Described[T], name: str, namespace: str | None = None) -> T | None: ...

    def get(self, kind: KindOf[T], name: str, namespace: str | None = None) -> T | None:
        """An object from the cache, by default of the namespace of the call; None if there is none.

        Raises NotCached for a kind that is not declared.
        """
        found: T | None = self.manager.cache.get(cast("type[T]", kind), name, self._space(kind, namespace))
        return found

    @overload
    def list(
        self,
        kind: type[T],
        *,
        namespace: str | None = None,
        labels: str = "",
        owned: bool = False,
        index: tuple[str, str] | None = None,
    ) -> Sequence[T]: ...
    @overload
    def list(
        self,
        kind: Described[T],
        *,
        namespace: str | None = None,
        labels: str = "",
        owned: bool = False,
        index: tuple[str, str] | None = None,
    ) -> Sequence[T]: ...

    def list(
        self,
        kind: KindOf[T],
        *,
        namespace: str | None = None,
        labels: str = "",
        owned: bool = False,
        index: tuple[str, str] | None = None,
    ) -> Sequence[T]:
        """Objects from the cache, in any order.

        Args:
            kind: a declared kind.
            namespace: by default that of the call; empty: of all namespaces.
            labels: a label selector, such as `app=web`.
            owned: those whose controller is the object of the call; by default in all namespaces.
            index: name of an index (`App.index`) and the value to find.

        Raises:
            NotCached: the kind is not declared.
            ConfigurationError: there is no such index, or the selector is invalid.
        """
        cache, space = self.manager.cache, self._space(kind, "" if owned and namespace is None else namespace)
        if not owned and index is None:
            return cache.list(cast("type[T]", kind), space, label_selector=labels)
        found: Sequence[Any] = cache.controlled_by(kind, uid_of(self.object)) if owned else cache.indexed(kind, *index)  # type: ignore[misc]
        within = {uid_of(cast("Any", one)) for one in cache.indexed(kind, *index)} if owned and index else None
        selector = parse_label_selector(labels) if labels else None
        return [
            one
            for one in found
            if (not space or namespace_of(one) == space)
            and (within is None or uid_of(one) in within)
            and (selector is None or selector.matches(labels_of(one)))
        ]

    def _space(self, kind: KindOf[Any], namespace: str | None) -> str:
        if not resource_of(kind).namespaced:
            return ""
        return self.key.namespace if namespace is None else namespace

    # ------------------------------------------------------------------ writing

    def child(self, name: str = "", *, labels: Mapping[str, str] | None = None) -> ObjectMeta:
        """Metadata for an object beside this one: its namespace, and by default its name."""
        namespace = self.key.namespace or None
        return ObjectMeta(name=name or self.key.name, namespace=namespace, labels=dict(labels) if labels else None)

    async def apply(self, *objects: AnyObject, prune: Iterable[Kind] = (), adopt: bool = False) -> Sequence[Applied]:
        """Apply objects, each with exactly the fields that it shall have from this operator.

        Nothing is sent for one that is as wanted. Those of a kind in `owns` get this object as their controller.

        Args:
            objects: models or documents.
            prune: kinds of which all other objects that this one controls are deleted; declared in `deletes`.
            adopt: also take over objects that have no controller.

        Raises:
            ConfigurationError: a kind is in neither `owns` nor `writes`, or a pruned one not in `deletes`.
            NotControlled: the object belongs to another controller, and was not changed.
            Conflict, Invalid, Forbidden, ServerError, TransportError: as the API server answers.
        """
        pruned = tuple(prune)
        for kind in pruned:
            self._declared.check_deletes(resource_of(kind))
        wanted = [self._complete(obj) for obj in objects]
        children: list[AnyObject] = []
        others: list[AnyObject] = []
        for obj in wanted:
            is_child = self._declared.check_applies(resource_of(self.manager.applier.kind_of(obj)))
            (children if is_child else others).append(obj)
        applied = await self.manager.applier.apply(others, adopt=True) if others else []
        applied += await self.manager.applier.apply(children, owner=self.object, prune=pruned, adopt=adopt)
        return applied

    async def delete(self, obj: AnyObject) -> bool:
        """Delete an object, as it was read; False if it is gone already. Its kind is declared in `deletes`.

        Raises:
            ConfigurationError: the kind is not declared.
            Conflict: another object has its name now. Forbidden, TransportError: as the API server answers.
        """
        kind: Any = self.manager.applier.kind_of(obj)
        self._declared.check_deletes(resource_of(kind))
        try:
            await self.manager.client.delete(kind, name_of(obj), namespace_of(obj), uid=uid_of(obj))
        except NotFound:
            return False
        return True

    async def status(self, status: Mapping[str, Any] | msgspec.Struct | None = None, /, **fields: Any) -> None:
        """Apply the status of this object: all fields that this operator wants in it.

        Nothing is sent if it is as wanted; a field of an earlier call that is missing now is removed.

        Args:
            status: a document or a model; in its place:
            fields: by the Python names of the status model, or for a kind without one by the names on the wire.

        Raises:
            ConfigurationError: `status=True` is not declared.
            Conflict: the object was replaced. NotFound: it is gone. Invalid, Forbidden, TransportError: as answered.
        """
        if not self._declared.uses.status:
            raise self._declared.undeclared("writes a status", "status=True")
        kind = self._declared.uses.kind
        if status is None:
            status = _status_model(kind)(**fields)
        elif fields:
            raise ConfigurationError("status takes a document or fields, not both")
        resource = resource_of(kind)
        metadata = {"name": self.key.name, "uid": uid_of(self.object)}
        document: Document = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {**metadata, "namespace": self.key.namespace} if self.key.namespace else metadata,
            "status": msgspec.to_builtins(status),
        }
        await self.manager.applier.apply_status(document)

    def event(
        self,
        reason: str,
        note: str,
        *,
        type: NormalOrWarning = "Normal",  # noqa: A002 - the name in the API
        related: AnyObject | None = None,
    ) -> None:
        """Record an event about this object: a word in CamelCase and a sentence. Never blocks.

        Raises:
            ConfigurationError: `events=True` is not declared.
        """
        if not self._declared.uses.events:
            raise self._declared.undeclared("records an event", "events=True")
        self.manager.recorder.event(self.object, type, reason, note, related=related)

    def requeue_after(self, seconds: float) -> None:
        """Reconcile again after so many seconds, or earlier if something changes. Of several the shortest counts.

        With 0, or a time that has passed, it is again after the delay of a retry, which grows from call to call.
        """
        self._after = seconds if self._after is None else min(self._after, seconds)

    def settle(self, result: Result) -> Result:
        """What the call comes to: what it returned, or else the time that it asked for."""
        if self._after is None or not (result is None or isinstance(result, Done)):
            return result
        return RetryAfter(self._after) if self._after > 0 else Backoff("requeue_after")

    def _complete(self, obj: AnyObject) -> AnyObject:
        """With apiVersion and kind, which a model that was just made lacks."""
        if not isinstance(obj, dict | Object):
            raise ConfigurationError(f"apply takes objects, not {type(obj).__name__}: write apply(*objects) for a list")
        if isinstance(obj, dict):
            metadata = obj.get("metadata")
            return {**obj, "metadata": wire(cast("Any", metadata))} if isinstance(metadata, ObjectMeta) else obj
        return obj.typed()


def _status_model(kind: Kind) -> Any:
    """Makes a status of fields."""
    if not (isinstance(kind, type) and issubclass(kind, Object)):
        return dict
    for one in msgspec.structs.fields(kind):
        if one.name == "status":
            return next(part for part in get_args(one.type) if part is not type(None))
    raise ConfigurationError(f"{kind.RESOURCE.kind} has no status")
