# SPDX-License-Identifier: Apache-2.0
"""How long a request may take that says so: `?timeout=5s`.

Source: `k8s.io/apiserver/pkg/endpoints/filters/request_deadline.go`.
"""

from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.request.info import ServerRequest
from trainwright.controller.local.apiserver.request.routes import Route
from trainwright.controller.local.apiserver.schema.durations import nanoseconds

_LONGEST_SECONDS = 60.0
"""A request that asks for more gets what the server gives everybody."""
_LONG_RUNNING = ("attach", "exec", "log", "portforward", "proxy")
"""Subresources that last as long as their client wants."""


def deadline(request: ServerRequest, route: Route | None) -> float | None:
    """Seconds that a request gives itself; None where it does not say so. Raises StatusError."""
    text = request.asked("timeout")
    if not text or (route is not None and _is_long_running(request, route)):
        return None
    try:
        seconds = nanoseconds(text) / 10**9
    except ValueError as error:
        raise errors.bad_request(f"invalid timeout specified in the request URL - {error}") from error
    return seconds if 0 < seconds < _LONGEST_SECONDS else None


def _is_long_running(request: ServerRequest, route: Route) -> bool:
    if route.subresource in _LONG_RUNNING or route.watch:
        return True
    return request.method == "GET" and not route.name and request.flag("watch")
