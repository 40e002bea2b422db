# SPDX-License-Identifier: Apache-2.0
"""What a request does, in the words of authorization and of the request log.

https://kubernetes.io/docs/reference/access-authn-authz/authorization/#request-verb
"""

from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.requests import ServerRequest, User
from trainwright.controller.local.apiserver.routes import Route

_BY_METHOD = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def verb_of(request: ServerRequest, route: Route | None) -> str:
    """The verb: `list`, `watch`, ... for resources, the method in lower case for all other paths."""
    if route is None:
        return request.method.lower()
    verb = _BY_METHOD.get(request.method, "")
    if verb == "get" and (route.watch or (request.flag("watch") and not route.subresource)):
        return "watch"
    if not route.name:
        return {"get": "list", "delete": "deletecollection"}.get(verb, verb)
    return verb


def forbidden(user: User, request: ServerRequest, route: Route | None) -> errors.StatusError:
    """403 for a user without rights, in the words of kube-apiserver."""
    verb = verb_of(request, route)
    if route is None:
        message = f'forbidden: User "{user.name}" cannot {verb} path "{request.path}"'
        return errors.StatusError(403, "Forbidden", message, {})
    resource = f"{route.resource}/{route.subresource}" if route.subresource else route.resource
    # A Namespace counts as in itself.
    namespace = route.name if (route.group, route.resource) == ("", "namespaces") else route.namespace
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    why = f'User "{user.name}" cannot {verb} resource "{resource}" in API group "{route.group}" {where}'
    return errors.forbidden(route.group, route.resource, route.name, why)
