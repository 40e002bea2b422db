# SPDX-License-Identifier: Apache-2.0
"""Requests and answers, free of any HTTP library: query, path, user, what is asked for, and what is answered.

Begin with `RequestInfo`, which every verb is given. Paths: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris
"""

import re
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds.registry import Resource
from trainwright.controller.local.apiserver.kinds.validation import manager_errors
from trainwright.controller.local.apiserver.store import ObjectName
from trainwright.controller.local.apiserver.views import negotiation
from trainwright.controller.local.types.errors import DocumentError, forbidden, not_supported, required

JSON = "application/json"
encode = msgspec.json.Encoder().encode

_MANAGER_BYTES = 128
Query = Sequence[tuple[str, str]]


class User(NamedTuple):
    name: str
    groups: tuple[str, ...]
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
"""Requests without credentials. They may read health and version only."""


@dataclass(slots=True, kw_only=True)
class ServerRequest:
    """One request. Header names are lower case; the path is decoded."""

    method: str
    path: str
    query: Query = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    impersonation: Sequence[tuple[str, str]] = ()
    """Headers `Impersonate-*`, of which some may be there several times."""
    body: bytes = b""
    client_certificate_user: User | None = None
    """Of the client's certificate; None without one."""

    def param(self, name: str) -> str:
        return next((value for key, value in self.query if key == name), "")

    def has_param(self, name: str) -> bool:
        return any(key == name for key, _ in self.query)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.query if key == name]

    def flag(self, name: str) -> bool:
        return self.has_param(name) and self.param(name) not in ("false", "0")

    def number(self, name: str) -> int | None:
        """A query parameter that is a whole number; None where it is absent or empty. Raises StatusError."""
        text = self.param(name)
        return whole_number(text) if text else None


def whole_number(text: str) -> int:
    try:
        return go_integer(text, signed=True)
    except ValueError as error:
        raise errors.bad_request(str(error)) from error


def go_integer(text: str, *, signed: bool) -> int:
    # Python converts more than Go does, and refuses to convert thousands of digits.
    if re.fullmatch("[-+]?[0-9]{1,100}" if signed else "[0-9]{1,100}", text):
        low, high = (-(2**63), 2**63) if signed else (0, 2**64)
        if low <= int(text) < high:
            return int(text)
    raise ValueError(f"{text!r} is not a whole number of 64 bits")


class ServerWebSocket(Protocol):
    @property
    def protocol(self) -> str: ...

    async def receive(self) -> bytes | None:
        """The next message; None once the client has closed the connection."""
        ...

    async def send(self, message: bytes) -> None:
        """Send a binary message; waits while the client does not read. Raises ConnectionError."""
        ...


@dataclass(frozen=True, slots=True)
class Upgrade:
    protocols: tuple[str, ...]
    """Subprotocols that are spoken, the best first."""
    serve: Callable[[ServerWebSocket], Awaitable[None]]
    """Speaks one of them; the connection is closed when it returns."""


@dataclass(slots=True, kw_only=True)
class ServerResponse:
    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    stream: AsyncIterator[bytes] | None = None
    upgrade: Upgrade | None = None

    @classmethod
    def of(cls, document: Any, status: int = 200) -> "ServerResponse":
        return cls(status=status, body=encode(document))


def failure(error: errors.StatusError) -> ServerResponse:
    answer = ServerResponse.of(error.document(), error.code)
    if error.retry_after:
        answer.headers["Retry-After"] = str(error.retry_after)
    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteQuery:
    manager: str
    """Empty if not said."""
    dry_run: bool
    validation: str
    """Ignore, Warn or Strict; empty if not said, which means Warn."""
    force: bool = False

    def document(self, kind: str) -> Document:
        made: Document = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if self.dry_run:
            made["dryRun"] = ["All"]
        if self.manager:
            made["fieldManager"] = self.manager
        if self.validation:
            made["fieldValidation"] = self.validation
        return made


NO_OPTIONS = WriteQuery(manager="", dry_run=False, validation="")
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")


def write_options(request: ServerRequest, kind: str, *, apply: bool = False) -> WriteQuery:
    """Read the options of a write: `kind` is CreateOptions, UpdateOptions or PatchOptions. Raises StatusError."""
    manager, dry_run = request.param("fieldManager"), request.all("dryRun")
    validation = request.param("fieldValidation")
    found = []
    if kind == "PatchOptions":
        if apply and not manager:
            found.append(required("fieldManager", "is required for apply patch"))
        elif not apply and request.has_param("force"):
            found.append(forbidden("force", "may not be specified for non-apply patch"))
    found += manager_errors(manager, "fieldManager", {})
    found += dry_run_errors(dry_run)
    if validation not in _VALIDATIONS:
        found.append(not_supported("fieldValidation", validation, _VALIDATIONS))
    if found:
        raise errors.invalid("meta.k8s.io", kind, "", found)
    return WriteQuery(manager=manager, dry_run=bool(dry_run), validation=validation, force=request.flag("force"))


def dry_run_errors(dry_run: Sequence[str]) -> list[DocumentError]:
    if all(value == "All" for value in dry_run):
        return []
    return [not_supported("dryRun", list(dry_run), ["All"])]


_OF_NAMESPACES = ("status", "finalize")
VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
"""By method."""


@dataclass(frozen=True, slots=True)
class Route:
    """A path of a resource, an object or a subresource."""

    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def resource_route(path: str) -> Route | None:
    """The route of a path below a group version; None for all other paths."""
    if not path.startswith(("/api/", "/apis/")):
        return None
    parts = [part for part in path.split("/") if part]
    if parts[0] == "api":
        group, rest = "", parts[1:]
    else:
        group, rest = (parts[1] if len(parts) > 1 else ""), parts[2:]
    if len(rest) < 2:
        return None
    version, *rest = rest
    namespace = ""
    if rest[0] == "namespaces":
        # An object of the kind Namespace, or what is in it.
        if len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
            namespace, rest = rest[1], rest[2:]
        elif len(rest) > 1:
            name, *more = rest[1:]
            return Route(group, version, "namespaces", "", name, more[0] if more else "")
    resource, *more = rest
    name, sub = (more[0] if more else ""), (more[1] if len(more) > 1 else "")
    return Route(group, version, resource, namespace, name, sub)


def verb_of(request: ServerRequest, route: Route | None) -> str:
    """The verb: `list`, `watch`, ... for resources, the method in lower case for all other paths."""
    if route is None:
        return request.method.lower()
    verb = VERBS.get(request.method, "")
    if verb == "get" and request.flag("watch") and not route.name:
        return "watch"
    if not route.name:
        return {"get": "list", "delete": "deletecollection"}.get(verb, verb)
    return verb


AUTHENTICATED = "system:authenticated"
"""The group of all users with credentials."""
ACCOUNT_PREFIX = "system:serviceaccount:"
"""Of the user names of service accounts."""


def account_groups(namespace: str) -> tuple[str, ...]:
    return "system:serviceaccounts", f"system:serviceaccounts:{namespace}"


def user_info(user: User) -> Document:
    """A user as `UserInfo` of authentication.k8s.io/v1."""
    made: Document = {"username": user.name}
    if user.uid:
        made["uid"] = user.uid
    made["groups"] = list(user.groups)
    if user.extra:
        made["extra"] = {key: list(values) for key, values in user.extra.items()}
    return made


Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(slots=True, kw_only=True)
class RequestInfo:
    request: ServerRequest
    user: User
    resource: Resource
    namespace: str
    """Empty for kinds without namespace, and for collections over all namespaces."""
    name: str
    """Empty for collections."""
    subresource: str
    now: datetime
    of_collection: bool = False
    """Whether the client asked for a collection, of which this is about one object."""
    form: str = ""
    """What is answered: a form of the object that the client asked for; empty for the object as it is."""
    warnings: list[str] = field(default_factory=list)
    """What the client is told beside the answer."""

    @property
    def group(self) -> str:
        return self.resource.group

    @property
    def plural(self) -> str:
        return self.resource.plural

    @property
    def kind(self) -> str:
        return self.resource.kind

    @property
    def key(self) -> ObjectName:
        return ObjectName(self.namespace, self.name)

    @property
    def asked_name(self) -> str:
        """The name that the client gave: that of the object, but where the request is for a collection."""
        return "" if self.of_collection else self.name

    def require(self, *methods: str) -> None:
        if self.request.method not in methods:
            raise errors.method_not_allowed()

    def of_object(self, name: ObjectName) -> "RequestInfo":
        """This request for one object of the collection, at its main endpoint."""
        return replace(self, namespace=name.namespace, name=name.name, subresource="", of_collection=True)

    def not_found(self) -> errors.StatusError:
        return errors.not_found(self.group, self.plural, self.name)

    def conflict(self, why: str = errors.LOCK_MESSAGE) -> errors.StatusError:
        return errors.conflict(self.group, self.plural, self.name, why)

    def manager(self, options: WriteQuery) -> str:
        """Who writes: the field manager of the query, else the first part of the User-Agent."""
        if options.manager:
            return options.manager
        agent = "".join(filter(str.isprintable, self.request.headers.get("user-agent", "").partition("/")[0]))
        return agent.encode()[:_MANAGER_BYTES].decode(errors="ignore")

    def warn(self, text: str) -> None:
        """Tell the client something, once. What cannot be in a header is left out, as the real server does."""
        if text not in self.warnings and not any(unicodedata.category(character) == "Cc" for character in text):
            self.warnings.append(text)

    def negotiate(self) -> None:
        """Read the form of the answer from the header `Accept`. Raises StatusError where nothing of it is offered."""
        accept = self.request.headers.get("accept", "")
        if accept.strip() and not self.resource.custom and not negotiation.any_offered(accept):
            raise errors.not_acceptable(f"Available representations: {negotiation.JSON}", {})
        self.form = negotiation.negotiate(accept, negotiation.RESOURCE_FORMS)
