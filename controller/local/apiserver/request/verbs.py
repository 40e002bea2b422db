# SPDX-License-Identifier: Apache-2.0
"""What a request does, in the words of authorization and of the request log.

https://kubernetes.io/docs/reference/access-authn-authz/authorization/#request-verb
"""

from trainwright.controller.local.apiserver.request.info import ServerRequest
from trainwright.controller.local.apiserver.request.routes import Route

_BY_METHOD = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


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
