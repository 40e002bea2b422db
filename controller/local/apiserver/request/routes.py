# SPDX-License-Identifier: Apache-2.0
"""What a path is about.

https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris
"""

from dataclasses import dataclass

from trainwright.controller.local.apiserver.request.info import ServerRequest

_OF_NAMESPACES = ("status", "finalize")
_BY_METHOD = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Route:
    """A path of a resource, an object or a subresource."""

    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    """What follows the subresource."""
    watch: bool = False
    """The old form of watches: `/api/v1/watch/...`."""


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
    watch = rest[0] == "watch" and len(rest) > 1
    if watch:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces":
        # An object of the kind Namespace, or what is in it.
        if len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
            namespace, rest = rest[1], rest[2:]
        elif len(rest) > 1:
            name, *more = rest[1:]
            return Route(group, version, "namespaces", "", name, more[0] if more else "", "/".join(more[1:]), watch)
    resource, *more = rest
    name, sub = (more[0] if more else ""), (more[1] if len(more) > 1 else "")
    return Route(group, version, resource, namespace, name, sub, "/".join(more[2:]), watch)


def verb_of(request: ServerRequest, route: Route | None) -> str:
    """The verb: `list`, `watch`, ... for resources, the method in lower case for all other paths."""
    if route is None:
        return request.method.lower()
    verb = _BY_METHOD.get(request.method, "")
    if verb == "get" and (route.watch or (request.flag("watch") and not route.name)):
        return "watch"
    if not route.name:
        return {"get": "list", "delete": "deletecollection"}.get(verb, verb)
    return verb
