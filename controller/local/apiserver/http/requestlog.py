# SPDX-License-Identifier: Apache-2.0
"""A log of requests: one JSON document per line, with the fields of kube-apiserver's audit log that the test kit reads.

A line is in the file before its request is answered, so who got an answer finds the call. That of a watch has the stage
ResponseStarted, as in kube-apiserver; all others have ResponseComplete, also where the answer is a stream.
"""

import asyncio
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self
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
    """Writes the file. One thread writes, so the event loop never waits for the disk."""

    def __init__(self, path: Path, *, now: Now = wall_clock) -> None:
        """Blocks for a moment. Raises OSError if the file cannot be opened."""
        descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        self._file = os.fdopen(descriptor, "ab", buffering=0)
        self._writer = ThreadPoolExecutor(1, "request log")
        self._now = now
        self._closed = self._failed = False

    @classmethod
    async def open(cls, path: Path, *, now: Now = wall_clock) -> Self:
        """Open a file, which is made or continued. Raises OSError."""
        return await asyncio.to_thread(lambda: cls(path, now=now))

    async def write(self, exchange: Exchange, status: int) -> None:
        """Log an exchange that is about to be answered."""
        if self._closed:
            return
        line = {**_document(exchange, status), "stageTimestamp": times.format_micro_time(self._now())}
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._file.write, encode(line) + b"\n")
        except OSError as error:
            # A full disk stops the log, not the server.
            if not self._failed:
                log.warning("requests are not logged: %s", error)
            self._failed = True
        else:
            self._failed = False

    async def close(self) -> None:
        """Write what waits and close the file."""
        self._closed = True
        await asyncio.to_thread(self._writer.shutdown)
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
