# SPDX-License-Identifier: Apache-2.0
"""A log of requests in the form of kube-apiserver's audit log, at the level Metadata: one JSON document per line.

https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/
A line is in the file before its request is answered, so who got an answer finds the call. Requests that last (watches,
followed logs, exec) get a line of the stage ResponseStarted, and one more when they end.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Self
from urllib.parse import quote, urlencode

import msgspec

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.api.surroundings import new_uid
from trainwright.api.times import Now, wall_clock
from trainwright.controller.local.apiserver.authorization.authorizer import AccessDecision
from trainwright.controller.local.apiserver.request.info import (
    RequestInfo,
    Route,
    ServerRequest,
    ServerResponse,
    ServerWebSocket,
    Upgrade,
    User,
    encode,
    user_info,
    verb_of,
)

log = logging.getLogger(__name__)

_STARTED, _COMPLETE = "ResponseStarted", "ResponseComplete"
_LASTING = ("exec", "log")
_NAME_FIELD = "metadata.name="


@dataclass(slots=True)
class Exchange:
    """A request, and what the server finds out about it."""

    request: ServerRequest
    received: datetime
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

    async def finish(self, exchange: Exchange, answer: ServerResponse) -> ServerResponse:
        """Log an exchange. Returns the answer to send; if it lasts, its end is logged too."""
        document = _document(exchange, answer)
        verb = document["verb"]
        lasts = verb == "watch" or (exchange.route is not None and exchange.route.subresource in _LASTING)
        if lasts:
            await self._write(document, _STARTED)
        if answer.stream is not None:
            return replace(answer, stream=self._until_end(answer.stream, document))
        if answer.upgrade is not None:
            return replace(answer, upgrade=self._until_closed(answer.upgrade, document))
        await self._write(document, _COMPLETE)
        return answer

    async def close(self) -> None:
        """Write what waits and close the file. What ends later is not logged."""
        self._closed = True
        await asyncio.to_thread(self._writer.shutdown)
        self._file.close()

    async def _until_end(self, stream: AsyncIterator[bytes], document: Document) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in stream:
                yield chunk
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()
            await self._write(document, _COMPLETE)

    def _until_closed(self, upgrade: Upgrade, document: Document) -> Upgrade:
        async def serve(socket: ServerWebSocket) -> None:
            try:
                await upgrade.serve(socket)
            finally:
                await self._write(document, _COMPLETE)

        return Upgrade(upgrade.protocols, serve)

    async def _write(self, document: Document, stage: str) -> None:
        if self._closed:
            return
        line = {**document, "stage": stage, "stageTimestamp": times.format_micro_time(self._now())}
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._file.write, encode(line) + b"\n")
        except OSError as error:
            # A full disk stops the log, not the server.
            if not self._failed:
                log.warning("requests are not logged: %s", error)
            self._failed = True
        else:
            self._failed = False


def _document(exchange: Exchange, answer: ServerResponse) -> Document:
    request, route = exchange.request, exchange.route
    made: Document = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": new_uid(),
        "stage": "",
        "requestURI": quote(request.path) + (f"?{urlencode(request.query)}" if request.query else ""),
        "verb": verb_of(request, route),
        "user": {} if exchange.user is None else user_info(exchange.user),
        "sourceIPs": ["127.0.0.1"],
        "userAgent": request.headers.get("user-agent", ""),
    }
    if exchange.impersonated is not None:
        made["impersonatedUser"] = user_info(exchange.impersonated)
    if route is not None:
        made["objectRef"] = _reference(exchange, route)
    made["responseStatus"] = _status(answer)
    made["requestReceivedTimestamp"] = times.format_micro_time(exchange.received)
    if exchange.decision is not None:
        made["annotations"] = {
            **exchange.request.audit,
            "authorization.k8s.io/decision": "allow" if exchange.decision.allowed else "forbid",
            "authorization.k8s.io/reason": exchange.decision.reason,
        }
    return made


def _reference(exchange: Exchange, route: Route) -> Document:
    name = route.name or (exchange.call.name if exchange.call is not None else "")
    selectors = exchange.request.param("fieldSelector").split(",")
    named = (one.removeprefix(_NAME_FIELD) for one in selectors if one.startswith(_NAME_FIELD))
    made = {
        "resource": route.resource,
        "namespace": route.name if (route.group, route.resource) == ("", "namespaces") else route.namespace,
        "name": name or next(named, ""),
        "apiGroup": route.group,
        "apiVersion": route.version,
        "subresource": route.subresource,
    }
    return {field: value for field, value in made.items() if value}


def _status(answer: ServerResponse) -> Document:
    """The code, and for failures what they say."""
    made: Document = {"metadata": {}}
    if answer.status >= 400 and answer.content_type.startswith("application/json"):
        body = msgspec.json.decode(answer.body)
        made |= {field: body[field] for field in ("status", "message", "reason") if body.get(field)}
    made["code"] = answer.status
    return made
