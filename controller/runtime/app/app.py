# SPDX-License-Identifier: Apache-2.0
"""`App`: an operator as one module.

    app = App("web")

    @app.reconciles(ConfigMap, labels="web=yes", owns=[Service])
    async def web(config: ConfigMap, ctx: Context) -> None:
        await ctx.apply(Service(metadata=ctx.child(config.name), spec=ServiceSpec(ports=[ServicePort(port=80)])))

    if __name__ == "__main__":
        app.main()

`python web.py run` runs it, `rbac` prints the rights that it needs. An app only collects declarations: `manager` makes
what runs, and whoever needs more than decorators gets that manager with `extends`.
"""

import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar, cast

from trainwright.api.base import Object
from trainwright.api.names import dns_label_1035, qualified
from trainwright.api.objects import AnyObject, Key, deletion_timestamp_of, labels_of
from trainwright.api.rights import Rule, merged
from trainwright.controller.runtime.app.context import Context
from trainwright.controller.runtime.app.declarations import (
    AdmissionHook,
    Finalization,
    Handler,
    Operator,
    Reconciled,
    check_handler,
    check_kinds,
)
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.transport import Transport
from trainwright.controller.runtime.controller.controller import Reconciler, Result, check_limits
from trainwright.controller.runtime.controller.finalizer import finalizer
from trainwright.controller.runtime.controller.sources import Mapper, Predicate, all_of, any_of, labels_match
from trainwright.controller.runtime.controller.uses import Uses
from trainwright.controller.runtime.errors import ConfigurationError, ErrorCause
from trainwright.controller.runtime.kinds import Described, Kind, resource_of
from trainwright.controller.runtime.selectors import parse_label_selector
from trainwright.controller.runtime.webhook.admission import (
    ALLOWED,
    AdmissionHandler,
    AdmissionRequest,
    AdmissionResponse,
    Mutating,
    Validating,
)
from trainwright.controller.runtime.webhook.conversion import Conversions
from trainwright.controller.runtime.workqueue.limiters import Limiter

if TYPE_CHECKING:
    # Loads the HTTP stack, which whoever only prints or imports an operator need not wait for.
    from trainwright.controller.runtime.manager.manager import Elector, Manager, ProcessSettings, ServerSettings
    from trainwright.controller.runtime.webhook.webhooks import Certificates

O = TypeVar("O", bound=AnyObject)  # noqa: E741 - the object
M = TypeVar("M", bound=Object)
A = TypeVar("A", bound=Object)
B = TypeVar("B", bound=Object)
Reconciles = Callable[[O, Context], Awaitable[Result]]
Warnings: TypeAlias = Iterable[str] | None
Problems: TypeAlias = AdmissionResponse | ErrorCause | Iterable[ErrorCause | str] | None
Defaults = Callable[[M, AdmissionRequest[M]], Warnings | Awaitable[Warnings]]
Validates = Callable[[M, AdmissionRequest[M]], Problems | Awaitable[Problems]]
_Extension: TypeAlias = Callable[["Manager"], None]


class App:
    """An operator. Its decorators return the function as it is, so it can be called in a test."""

    def __init__(self, name: str, *, crds: Path | None = None) -> None:
        """`name`: of the operator, its field manager, its Lease and its objects in a cluster: lower case and dashes.

        `crds`: folder of the CustomResourceDefinitions of its own kinds, such as `trainwright generate` writes it.

        Raises ConfigurationError for a name that its Service could not have.
        """
        if problems := dns_label_1035(name):
            raise ConfigurationError(f"App({name!r}): the name of an operator is that of its Service: {problems[0]}")
        self.name = name
        self.crds = crds
        self._reconciled: dict[str, Reconciled] = {}
        self._finalizers: dict[Kind, Finalization] = {}
        self._indexes: list[tuple[Kind, str, Callable[[Any], Iterable[str]]]] = []
        self._extensions: list[_Extension] = []
        self._more: list[Rule] = []
        self._hooks: list[AdmissionHook] = []
        self._conversions = Conversions()

    # ------------------------------------------------------------------ declaring

    def reconciles(
        self,
        kind: type[O] | Described[O],
        *,
        name: str = "",
        labels: str = "",
        owns: Sequence[Kind] = (),
        watches: Mapping[Kind, Mapper] | None = None,
        reads: Sequence[Kind] = (),
        writes: Sequence[Kind] = (),
        deletes: Sequence[Kind] = (),
        status: bool = False,
        events: bool = False,
        when: Sequence[Predicate] = (),
        workers: int = 4,
        limiter: Limiter | None = None,
        timeout: float | None = None,
    ) -> Callable[[Reconciles[O]], Reconciles[O]]:
        """Call the function for an object after every change of it and of its children.

        It is not told what changed, never runs twice at once for one object, and not for one that is being deleted. An
        error is retried after a delay that grows, but no `Terminal`. It may return `RetryAfter` or `Backoff`.

        Args:
            kind: a model, a `Resource`, or `MetadataOnly`.
            name: of the controller, in logs and metrics; by default the name of the function.
            labels: a label selector. Other objects are not even cached, unless another declaration needs them, or the
                kind has a finalizer, which goes from an object that is deleted whatever its labels are by then.
            owns: kinds of its children: applied with the object as their controller, watched, and deleted with it.
            watches: other kinds whose changes concern objects of `kind`: the function returns their keys.
            reads: kinds that are read from the cache alone.
            writes: kinds that are applied without an owner.
            deletes: kinds of which objects are deleted, or pruned.
            status: writes the status of the object.
            events: records events.
            when: predicates that all events have to pass, such as `generation_changed`.
            workers: so many objects at the same time.
            limiter: delays of retries.
            timeout: seconds that one call may take; None: no limit.

        Raises:
            ConfigurationError: another controller of this app has the name; the function is no coroutine function; what
                is passed is no kind, no selector, or no list; no worker, or no time for a call.
        """
        resource_of(kind)
        if not isinstance(labels, str):
            raise ConfigurationError(f"labels={labels!r} is no label selector: write a text such as app=web,tier!=test")
        parse_label_selector(labels)
        if not isinstance(watches or {}, Mapping):
            raise ConfigurationError(f"watches={watches!r} says no keys to reconcile: write watches={{Kind: function}}")
        check_kinds("watches", tuple(watches or ()))
        for watched, mapper in (watches or {}).items():
            if inspect.iscoroutinefunction(mapper):
                raise ConfigurationError(f"watches: the function of {resource_of(watched).kind} cannot be a coroutine")

        def declare(function: Reconciles[O]) -> Reconciles[O]:
            check_handler(function, "reconciles")
            called = name or getattr(function, "__name__", type(function).__name__).replace("_", "-")
            if called in self._reconciled:
                raise ConfigurationError(f"app {self.name}: two controllers are named {called}: pass another name")
            check_limits(called, workers, timeout)
            uses = Uses(
                kind=cast("Kind", kind),
                owns=check_kinds("owns", owns),
                watches=(*(watches or ()), *check_kinds("reads", reads)),
                writes=check_kinds("writes", writes),
                deletes=check_kinds("deletes", deletes),
                status=status,
                events=events,
                # A status whose write met another one is read again.
                more=(Rule.on(resource_of(kind), "get"),) if status else (),
            )
            self._reconciled[called] = Reconciled(
                name=called,
                uses=uses,
                reconcile=function,
                labels=labels,
                watches=dict(watches or {}),
                when=tuple(when),
                workers=workers,
                limiter=limiter,
                timeout=timeout,
            )
            return function

        return declare

    def finalizes(self, kind: type[O] | Described[O], finalizer: str) -> Callable[[Reconciles[O]], Reconciles[O]]:
        """Call the function before an object that is reconciled is deleted, until it neither raises nor asks for more.

        The finalizer, such as `example.com/bucket`, is on the object before its first reconcile, so nothing that the
        reconciler makes is left behind. The function must be idempotent.
        """
        if "/" not in finalizer or qualified(finalizer):
            raise ConfigurationError(f"finalizer {finalizer!r}: write a domain and a name, such as example.com/bucket")
        resource_of(kind)

        def declare(function: Reconciles[O]) -> Reconciles[O]:
            check_handler(function, "finalizes")
            finalized = cast("Kind", kind)
            if finalized in self._finalizers:
                raise ConfigurationError(f"app {self.name}: {resource_of(kind).kind} has a finalizer already")
            self._finalizers[finalized] = Finalization(finalizer=finalizer, cleanup=function)
            return function

        return declare

    def index(
        self, kind: type[O] | Described[O], name: str
    ) -> Callable[[Callable[[O], Iterable[str]]], Callable[[O], Iterable[str]]]:
        """Index the objects of a declared kind by the values that the function returns; `ctx.list` finds them."""

        def declare(function: Callable[[O], Iterable[str]]) -> Callable[[O], Iterable[str]]:
            self._indexes.append((cast("Kind", kind), name, lambda obj: _one_or_many(function(obj))))
            return function

        return declare

    def defaults(
        self, kind: type[M], *, labels: Mapping[str, str] | None = None
    ) -> Callable[[Defaults[M]], Defaults[M]]:
        """Call the function with each new or changed object and its request, before the object is stored.

        Its changes of the object are what is stored, and what it returns are warnings for the user. It may be a
        coroutine. `labels`: of the objects that it is called for.
        """

        def declare(function: Defaults[M]) -> Defaults[M]:
            self._hooks.append(AdmissionHook(kind=kind, handle=function, mutates=True, labels=dict(labels or {})))
            return function

        return declare

    def validates(
        self, kind: type[M], *, labels: Mapping[str, str] | None = None
    ) -> Callable[[Validates[M]], Validates[M]]:
        """Call the function with each new or changed object and its request, of which `old` is what is stored.

        It returns what is wrong, one or a list: sentences, or `ErrorCause` where a field is to blame; nothing, or an
        empty text: the object is stored. An `AdmissionResponse` says more, such as warnings. It may be a coroutine.
        """

        def declare(function: Validates[M]) -> Validates[M]:
            self._hooks.append(AdmissionHook(kind=kind, handle=function, mutates=False, labels=dict(labels or {})))
            return function

        return declare

    def converts(self, source: type[A], target: type[B]) -> Callable[[Callable[[A], B]], Callable[[A], B]]:
        """Convert objects between two versions of a kind with the function; the API server asks for it.

        Several are chained where none leads from one version to another. Labels and annotations may change, all other
        metadata stays. Raises ConfigurationError for versions of different kinds, and for a second function.
        """

        def declare(function: Callable[[A], B]) -> Callable[[A], B]:
            self._conversions.add(source, target, function)
            return function

        return declare

    def extends(self, *rights: Rule) -> Callable[[_Extension], _Extension]:
        """Call the function with each manager that is made, for what has no decorator, and the rights that it needs."""

        def declare(function: _Extension) -> _Extension:
            self._extensions.append(function)
            self._more += rights
            return function

        return declare

    # ------------------------------------------------------------------ what follows

    def controllers(self) -> list[Reconciled]:
        """The declared controllers. Raises ConfigurationError for a finalizer without one, or with two."""
        for kind, finalization in self._finalizers.items():
            found = [one for one in self._reconciled.values() if one.uses.kind == kind]
            if not found:
                raise ConfigurationError(
                    f"app {self.name}: {resource_of(kind).kind} has the finalizer {finalization.finalizer} and no"
                    " reconciler, which would set it: add a function with reconciles"
                )
            if len(found) > 1:
                raise ConfigurationError(
                    f"app {self.name}: {resource_of(kind).kind} has the finalizer {finalization.finalizer} and the"
                    f" reconcilers {', '.join(one.name for one in found)}, which would clean up at once: make it one"
                )
            found[0].finalization = finalization
        return list(self._reconciled.values())

    def operator(self) -> Operator:
        """What an installation needs to know."""
        return Operator(
            name=self.name,
            rules=self.rules(),
            hooks=tuple(self._hooks),
            converted=tuple(self._conversions.resources),
            crds=self.crds,
        )

    def rules(self) -> tuple[Rule, ...]:
        """The rights in the namespaces of its objects, and on objects without one."""
        return merged((*(rule for one in self.controllers() for rule in one.rules()), *self._more))

    def manager(
        self,
        config: ClusterConfig,
        *,
        namespace: str = "",
        servers: "ServerSettings | None" = None,
        process: "ProcessSettings | None" = None,
        transport: Transport | None = None,
        elector: "Elector | None" = None,
        webhooks: "Certificates | None" = None,
        webhook_address: str = ":9443",
    ) -> "Manager":
        """The manager of one process, with everything that is declared; the first arguments are those of `Manager`.

        Args:
            config: how to reach the API server.
            namespace: reconcile the objects of this namespace alone.
            servers: what is served over HTTP; None: as `ServerSettings()`.
            process: how the process lists, stops and manages its memory; None: as `ProcessSettings()`.
            transport: sends the requests; None: HTTP.
            elector: leader election; None: this process always leads.
            webhooks: the certificates of the declared webhooks; None: they are not served.
            webhook_address: host:port of their server.

        Raises:
            ConfigurationError: the declarations do not fit together.
        """
        from trainwright.controller.runtime.manager.manager import Manager, ProcessSettings, ServerSettings  # noqa: PLC0415

        made = Manager(
            config,
            field_manager=self.name,
            namespace=namespace,
            user_agent=self.name,
            servers=servers or ServerSettings(),
            process=process or ProcessSettings(),
            transport=transport,
            elector=elector,
        )
        handlers = self.join(made)
        operator = self.operator()
        if webhooks is not None and operator.serves:
            self._serve(made, operator, handlers, webhooks, webhook_address)
        return made

    def join(self, manager: "Manager") -> dict[str, AdmissionHandler]:
        """Add everything that is declared to a manager that others share, with its field manager.

        Returns the handlers of the declared webhooks, by path; whoever made the manager serves them.

        Raises ConfigurationError: the declarations do not fit together, or to those of the manager.
        """
        controllers = self.controllers()
        for declared in controllers:
            _add(manager, declared, controllers)
        for kind, name, function in self._indexes:
            manager.cache.add_index(kind, name, function)
        for extend in self._extensions:
            extend(manager)
        return {
            hook.path: Mutating(hook.kind, partial(_default, hook.handle))
            if hook.mutates
            else Validating(hook.kind, partial(_validate, hook.handle))
            for hook in self._hooks
        }

    def _serve(
        self,
        manager: "Manager",
        operator: Operator,
        handlers: Mapping[str, AdmissionHandler],
        certificates: "Certificates",
        address: str,
    ) -> None:
        # Certificates need a library that operators without webhooks need not have.
        from trainwright.controller.runtime.webhook.webhooks import SharedCertificates  # noqa: PLC0415

        # The CA bundle of a definition is kept where the certificates are; otherwise whoever installs it sets it.
        shared = isinstance(certificates, SharedCertificates)
        configurations = operator.configurations(manager.config.namespace)
        conversions = operator.conversions(manager.config.namespace) if shared else []
        hooks = manager.webhooks([*configurations, *conversions], certificates, address=address)
        for path, handler in handlers.items():
            hooks.server.handle(path, handler)
        if self._conversions.resources:
            hooks.server.convert(self._conversions)

    def main(self, arguments: Sequence[str] | None = None) -> NoReturn:
        """Run the command of this operator and exit: `run`, `rbac`, `crds`, `render-manifests`."""
        # Only the process that runs it needs the command line.
        from trainwright.controller.runtime.app.command import command  # noqa: PLC0415

        sys.exit(command(self.operator(), self.manager, arguments))


async def _default(function: Callable[..., Any], request: AdmissionRequest[Any]) -> Iterable[str] | None:
    found = function(request.new, request)
    warnings: Iterable[str] | None = await found if inspect.isawaitable(found) else found
    return _one_or_many(warnings)


async def _validate(function: Callable[..., Any], request: AdmissionRequest[Any]) -> AdmissionResponse:
    if request.new is None:
        return ALLOWED
    found = function(request.new, request)
    problems: Problems = await found if inspect.isawaitable(found) else found
    if isinstance(problems, AdmissionResponse):
        return problems
    listed = [problems] if isinstance(problems, ErrorCause) else _one_or_many(problems)
    causes = [one if isinstance(one, ErrorCause) else ErrorCause("Invalid", "", one) for one in listed]
    return AdmissionResponse(errors=tuple(causes))


def _one_or_many(found: Iterable[Any] | None) -> Iterable[Any]:
    """A text is one value and none if it is empty; type checkers take it for an iterable, which are its letters."""
    return [found] * bool(found) if isinstance(found, str) else found or ()


def _add(manager: "Manager", declared: Reconciled, controllers: Sequence[Reconciled]) -> None:
    uses = declared.uses
    builder = manager.controller(declared.name, uses)
    kind = uses.kind
    others = any(kind in (*one.uses.owns, *one.uses.watches) for one in controllers)
    differ = any(one.uses.kind == kind and one.labels != declared.labels for one in controllers)
    if declared.labels and (others or differ or declared.finalization is not None):
        # The kind has one cache, so it holds all of them, and those that concern this controller are chosen.
        selected = labels_match(declared.labels)
        builder.for_(kind, predicates=[any_of(selected, declared.holds_back)])
    else:
        builder.for_(kind, label_selector=declared.labels)
    for kind in uses.owns:
        builder.owns(kind)
    for kind, mapper in declared.watches.items():
        builder.watches(kind, mapper)
    for kind in uses.watches:
        manager.cache.informer(kind)
    manager.client.register(*uses.owns, *uses.writes, *uses.deletes)
    if declared.when:
        builder.when(all_of(*declared.when))
    builder.reconcile(
        _reconciler(manager, declared),
        workers=declared.workers,
        limiter=declared.limiter,
        timeout=declared.timeout,
    )
    if uses.events:
        _ = manager.recorder  # its first use adds it to the process


def _reconciler(manager: "Manager", declared: Reconciled) -> Reconciler:
    """The reconciler of keys that calls the one of objects."""
    kind: Any = declared.uses.kind
    # Where the cache holds more than the selected ones, a child can name an owner that is not one of them.
    selector = parse_label_selector(declared.labels) if declared.labels else None

    async def call(handler: Handler, obj: Any) -> Result:
        context = Context(manager, declared, obj)
        return context.settle(await handler(obj, context))

    async def reconcile(key: Key) -> Result:
        obj = manager.cache.get(kind, key)
        if obj is None:
            return None  # its children have an owner reference and are deleted with it
        finalization = declared.finalization
        leaves = finalization is not None and deletion_timestamp_of(obj) is not None
        if selector is not None and not leaves and not selector.matches(labels_of(obj)):
            return None
        if finalization is None:
            # Children of an object that is being deleted go one after the other, and must not come back meanwhile.
            return await call(declared.reconcile, obj) if deletion_timestamp_of(obj) is None else None
        return await finalizer(
            manager.client,
            finalization.finalizer,
            obj,
            apply=lambda with_it: call(declared.reconcile, with_it),
            cleanup=lambda leaving: call(finalization.cleanup, leaving),
            kind=kind,
        )

    return reconcile
