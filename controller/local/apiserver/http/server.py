# SPDX-License-Identifier: Apache-2.0
"""The API server: a request in, an answer out. It knows no sockets; `serving` and `transport` bring the requests."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias
from urllib.parse import unquote

from trainwright.api import names
from trainwright.api.times import Now, wall_clock
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.conversion import Conversions
from trainwright.controller.local.apiserver.admission.request import Chain
from trainwright.controller.local.apiserver.authorization.authorizer import (
    Attributes,
    Authorizer,
    attributes_of,
    forbidden,
)
from trainwright.controller.local.apiserver.http.priority import PriorityAndFairness
from trainwright.controller.local.apiserver.http.requestlog import Exchange, RequestLog
from trainwright.controller.local.apiserver.kinds.registry import ResourceRegistry
from trainwright.controller.local.apiserver.request.info import (
    ACCOUNT_PREFIX,
    ANONYMOUS,
    AUTHENTICATED,
    RequestInfo,
    Route,
    ServerRequest,
    ServerResponse,
    User,
    account_groups,
    failure,
    resource_route,
)
from trainwright.controller.local.apiserver.store import ObjectStore, ObjectTooLarge, StateLostError
from trainwright.controller.local.apiserver.verbs.deletes import Deletes
from trainwright.controller.local.apiserver.verbs.endpoints import Endpoints
from trainwright.controller.local.apiserver.verbs.reads import ResourceReads
from trainwright.controller.local.apiserver.verbs.watches import Watches
from trainwright.controller.local.apiserver.verbs.writes import ResourceWrites

_EXTRA = "impersonate-extra-"
_NODE_PREFIX = "system:node:"
_UNAUTHENTICATED = ANONYMOUS.groups[0]
_AUTHENTICATION = "authentication.k8s.io"


def impersonation(user: User, headers: Sequence[tuple[str, str]]) -> tuple[User, list[Attributes]] | None:
    """The user that headers `Impersonate-*` ask for, and the rights that the one who asks needs; None without them.

    Raises StatusError.
    """
    one: dict[str, str] = {}
    groups: list[str] = []
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in headers:
        if header == "impersonate-group":
            groups.append(value)
        elif header.startswith(_EXTRA):
            key = unquote(header.removeprefix(_EXTRA))
            extra[key] = (*extra.get(key, ()), value)
        elif value:
            one.setdefault(header, value)
    name, uid = one.get("impersonate-user", ""), one.get("impersonate-uid", "")
    if not name:
        if uid or groups or extra:
            raise errors.bad_request("requested a uid, groups or extra values without impersonating a user name")
        return None
    namespace, _, account = name.removeprefix(ACCOUNT_PREFIX).partition(":")
    is_account = name.startswith(ACCOUNT_PREFIX) and not (names.dns_label(namespace) or names.dns_subdomain(account))
    impersonate = partial(Attributes, user=user, verb="impersonate")
    rights = [impersonate(resource="users", name=name)]
    if is_account:
        rights = [impersonate(resource="serviceaccounts", namespace=namespace, name=account)]
    if uid:
        rights.append(impersonate(group=_AUTHENTICATION, resource="uids", name=uid))
    rights += [impersonate(resource="groups", name=group) for group in groups]
    for key, values in extra.items():
        of_extra = partial(impersonate, group=_AUTHENTICATION, resource="userextras", subresource=key)
        rights += [of_extra(name=value) for value in values]
    known = groups or _known_groups(name, namespace if is_account else "", alone=not uid and not extra)
    status = _UNAUTHENTICATED if name == ANONYMOUS.name else AUTHENTICATED
    if status not in known and _UNAUTHENTICATED not in known:
        known = [*known, status]
    return User(name, tuple(known), uid, extra), rights


def _known_groups(name: str, namespace: str, *, alone: bool) -> list[str]:
    """The groups of service accounts, and of nodes of which no more than the name is given."""
    if namespace:
        return list(account_groups(namespace))
    is_node = name.startswith(_NODE_PREFIX) and not names.dns_subdomain(name.removeprefix(_NODE_PREFIX))
    return ["system:nodes"] if alone and is_node else []


log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[RequestInfo], Awaitable[ServerResponse]]
GroupHandler: TypeAlias = Callable[[ServerRequest, Route], Awaitable[ServerResponse]]
"""Answers requests for the resources of a group."""
Page: TypeAlias = Callable[[ServerRequest], ServerResponse | None]
"""Answers requests that are not about a resource; None for those that it does not know."""
_CONNECTIONS = ("pods/exec", "pods/portforward")
"""What needs the right to create since Kubernetes 1.35, whatever the method."""
Authenticator: TypeAlias = Callable[[ServerRequest], User | None]
"""Finds the user of a request, ANONYMOUS without credentials; None if the credentials are not valid."""


class APIServer:
    """Answers requests. `pages` answer what is not about a resource, in this order."""

    def __init__(
        self,
        store: ObjectStore,
        registry: ResourceRegistry,
        authenticator: Authenticator,
        admission: Chain | None = None,
        pages: tuple[Page, ...] = (),
        *,
        conversions: Conversions,
        authorizer: Authorizer,
        requests: RequestLog | None = None,
        now: Now = wall_clock,
    ) -> None:
        self.store = store
        self.registry = registry
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._pages = pages
        self._requests = requests
        self._now = now
        self.admission = chain = admission or Chain()
        self.reads = ResourceReads(store, conversions)
        self.writes = ResourceWrites(store, chain, conversions)
        self.deletes = Deletes(store, chain, conversions)
        self._endpoints = Endpoints(self.reads, Watches(store, self.reads, registry), self.writes, self.deletes)
        self.priority = PriorityAndFairness()
        self._special: dict[tuple[str, str, str], Handler] = {}
        self._aggregated_groups: dict[str, GroupHandler] = {}

    def register_handler(self, group: str, plural: str, subresource: str, handler: Handler) -> None:
        """Serve a resource or a subresource by a function of its own: reviews, logs, bindings."""
        self._special[group, plural, subresource] = handler

    def serve_group(self, group: str, handler: GroupHandler) -> None:
        """Serve a group of which nothing is stored here, as kube-apiserver passes groups on to other servers."""
        self._aggregated_groups[group] = handler

    async def handle(self, request: ServerRequest) -> ServerResponse:
        """Answer a request; never raises for what the request says."""
        await self.priority.next_turn()
        exchange = Exchange(request, route=resource_route(request.path))
        answer = await self._answered(exchange)
        if self._requests is not None:
            self._requests.write(exchange, answer.status)
        return answer

    async def _answered(self, exchange: Exchange) -> ServerResponse:
        request = exchange.request
        try:
            return await self._done(exchange)
        except errors.StatusError as error:
            return failure(error)
        except (StateLostError, ObjectTooLarge) as error:
            made = errors.plain_internal if isinstance(error, ObjectTooLarge) else errors.internal
            return failure(made(str(error)))
        except RecursionError:
            # Documents are limited where they are read. This is for what only looks flat, such as a text in them.
            log.exception("%s %s is nested too deeply", request.method, request.path)
            return failure(errors.bad_request("the request is nested too deeply"))
        except Exception:
            log.exception("%s %s failed; this is a defect", request.method, request.path)
            return failure(errors.internal("the request could not be answered; the server's log has the reason"))

    async def _done(self, exchange: Exchange) -> ServerResponse:
        """Find out who asks, and do what is asked. Raises StatusError."""
        request, route = exchange.request, exchange.route
        user = exchange.user = self._authenticator(request)
        if user is None:
            raise errors.unauthorized()
        if (wanted := impersonation(user, request.impersonation)) is not None:
            for right in wanted[1]:
                self._authorize(exchange, right)
            user = exchange.impersonated = wanted[0]
        wants = attributes_of(user, request, route)
        self._authorize(exchange, wants)
        if wants.verb == "get" and wants.group == "" and wants.combined in _CONNECTIONS:
            # A websocket is asked for with GET, but who may only read must not act inside of pods.
            self._authorize(exchange, replace(wants, verb="create"))
        if route is None:
            return self._page(request)
        return await self._resource(exchange, user, route)

    def _authorize(self, exchange: Exchange, wanted: Attributes) -> None:
        decision = exchange.decision = self._authorizer.decide(wanted)
        if not decision.allowed:
            raise forbidden(wanted, decision.reason)

    def _page(self, request: ServerRequest) -> ServerResponse:
        answer = next((answer for page in self._pages if (answer := page(request)) is not None), None)
        if answer is None:
            return _not_found_page()
        if request.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
        return answer

    async def _resource(self, exchange: Exchange, user: User, route: Route) -> ServerResponse:
        request = exchange.request
        if (aggregated := self._aggregated_groups.get(route.group)) is not None:
            return await aggregated(request, route)
        served = self.registry.find(route.group, route.version, route.resource)
        if served is None:
            if self.registry.has_built_in(route.group):
                raise errors.no_such_resource()
            return _not_found_page()
        special = self._special.get((route.group, route.resource, route.subresource))
        if route.subresource and route.subresource not in served.subresources and special is None:
            if served.custom:
                raise errors.not_found(route.group, route.resource, route.name)
            raise errors.no_such_resource()
        if (served.namespaced and route.name and not route.namespace) or (not served.namespaced and route.namespace):
            raise errors.no_such_resource()
        call = exchange.call = RequestInfo(
            request=request,
            user=user,
            resource=served,
            namespace=route.namespace,
            name=route.name,
            subresource=route.subresource,
            now=self._now(),
        )
        if served.warning:
            call.warn(served.warning)
        try:
            answer = await (special or self._endpoints.serve)(call)
        except errors.StatusError as error:
            answer = failure(error)
        answer.warnings += [text for text in call.warnings if text not in answer.warnings]
        return answer


def _not_found_page() -> ServerResponse:
    """What a path is answered that nothing is served under."""
    return ServerResponse(status=404, body=b"404 page not found\n", content_type="text/plain; charset=utf-8")
