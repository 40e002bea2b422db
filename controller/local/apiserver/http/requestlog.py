# SPDX-License-Identifier: Apache-2.0
"""A log of requests: one JSON document per line, with the fields of kube-apiserver's audit log that the test kit reads.

A line is in the file before its request is answered, so who got an answer finds the call. That of a watch has the stage
ResponseStarted, as in kube-apiserver; all others have ResponseComplete, also where the answer is a stream.
"""

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.api.times import Now, wall_clock
from trainwright.controller.local.apiserver.authorization.authorizer import AccessDecision
from trainwright.controller.local.apiserver.request.info import (
    RequestInfo,
    Route,
    ServerRequest,
    User,
    encode,
    user_info,
    verb_of,
)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Exchange:
    """A request, and what the server finds out about it."""

    request: ServerRequest
    user: User | None = None
    impersonated: User | None = None
    route: Route | None = None
    call: RequestInfo | None = None
    decision: AccessDecision | None = None
    """Of authorization."""


class RequestLog:
    def __init__(self, path: Path, *, now: Now = wall_clock) -> None:
        """Make a file, or continue it. Raises OSError if it cannot be opened."""
        descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        self._file = os.fdopen(descriptor, "ab", buffering=0)
        self._now = now

    def write(self, exchange: Exchange, status: int) -> None:
        """Log an exchange that is about to be answered."""
        line = {**_document(exchange, status), "stageTimestamp": times.format_micro_time(self._now())}
        try:
            self._file.write(encode(line) + b"\n")
        except (OSError, ValueError) as error:
            # A full disk, or the end of the server, stops the log, not what is under way.
            log.warning("a request is not logged: %s", error)

    def close(self) -> None:
        self._file.close()


def _document(exchange: Exchange, status: int) -> Document:
    request, route, decision = exchange.request, exchange.route, exchange.decision
    verb = verb_of(request, route)
    made: Document = {
        "stage": "ResponseStarted" if verb == "watch" else "ResponseComplete",
        "verb": verb,
        "requestURI": quote(request.path) + (f"?{urlencode(request.query)}" if request.query else ""),
        "userAgent": request.headers.get("user-agent", ""),
        "user": {} if exchange.user is None else user_info(exchange.user),
        "responseStatus": {"code": status},
    }
    if exchange.impersonated is not None:
        made["impersonatedUser"] = user_info(exchange.impersonated)
    if route is not None:
        made["objectRef"] = {
            "apiGroup": route.group,
            "resource": route.resource,
            "subresource": route.subresource,
            "namespace": route.name if (route.group, route.resource) == ("", "namespaces") else route.namespace,
            "name": route.name or (exchange.call.name if exchange.call is not None else ""),
        }
    if decision is not None:
        made["annotations"] = {"authorization.k8s.io/decision": "allow" if decision.allowed else "forbid"}
    return made
