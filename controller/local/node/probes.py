# SPDX-License-Identifier: Apache-2.0
"""Probes and lifecycle hooks of a container."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from trainwright.api.objects import Document
from trainwright.controller.local.node.document import HOST_IP
from trainwright.controller.local.node.status import ContainerState
from trainwright.controller.runtime.tasks import TaskScope

# ---------------------------------------------------------------------- handlers
#
# What a probe or a lifecycle hook does: run a command in the container, ask a port of it, or wait.
# https://kubernetes.io/docs/concepts/workloads/pods/probes/
# https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/

_LINE_BYTES = 16 * 1024
_OUTPUT_BYTES = 10 * 1024
"""As much of a command's output as a kubelet keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerTarget:
    execute: Callable[[Sequence[str]], Awaitable[tuple[int, bytes]]]
    """Runs a command in it; gives exit code and output."""
    container: Document
    moved: Mapping[int, int] = field(default_factory=dict)
    """The ports that differ from what the container declares: the real one by declared one."""

    def port(self, wanted: Any) -> int:
        """The real port of a number or a name. Raises ValueError."""
        number = wanted
        if isinstance(wanted, str) and not wanted.isdigit():
            named = [one for one in self.container.get("ports") or () if one.get("name") == wanted]
            if not named:
                raise ValueError(f"couldn't find port: {wanted}")
            number = named[0]["containerPort"]
        return self.moved.get(int(number), int(number))


async def attempt(handler: Document, target: HandlerTarget) -> str:
    """Do it once. Returns why it failed; empty if it succeeded."""
    try:
        if (command := handler.get("exec")) is not None:
            code, output = await target.execute(command.get("command") or ())
            return "" if code == 0 else output.decode(errors="replace").strip() or f"exit code {code}"
        if (http := handler.get("httpGet")) is not None:
            return await _get(http, target.port(http["port"]))
        if (connection := handler.get("tcpSocket")) is not None:
            host = connection.get("host") or HOST_IP
            return await _connect(host, target.port(connection["port"]))
        if (pause := handler.get("sleep")) is not None:
            await asyncio.sleep(float(pause["seconds"]))
    except ValueError as error:
        return str(error)
    return ""


async def _connect(host: str, port: int) -> str:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        return _dial(host, port, error)
    writer.close()
    return ""


async def _get(http: Document, port: int) -> str:
    scheme = str(http.get("scheme") or "HTTP").lower()
    host = http.get("host") or HOST_IP
    path = "/" + str(http.get("path") or "").removeprefix("/")
    url = f"{scheme}://{host}:{port}{path}"
    try:
        context = _anyone() if scheme == "https" else None
        reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=_LINE_BYTES)
    except OSError as error:
        return f'Get "{url}": {_dial(host, port, error)}'
    try:
        writer.write(_request(http, path, f"{host}:{port}"))
        words = (await reader.readline()).split()
    except OSError as error:
        return f'Get "{url}": {error}'
    finally:
        writer.close()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        return f'Get "{url}": malformed HTTP response'
    code = int(words[1])
    return "" if 200 <= code < 400 else f"HTTP probe failed with statuscode: {code}"


def _request(http: Document, path: str, place: str) -> bytes:
    headers = {"Host": place, "User-Agent": "kube-probe/1.36", "Accept": "*/*", "Connection": "close"}
    for header in http.get("httpHeaders") or ():
        headers[str(header["name"]).title()] = str(header.get("value") or "")
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


def _anyone() -> ssl.SSLContext:
    """As a kubelet, which does not check certificates of containers."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _dial(host: str, port: int, error: OSError) -> str:
    """In Go's words."""
    refused = isinstance(error, ConnectionRefusedError)
    return f"dial tcp {host}:{port}: {'connect: connection refused' if refused else error}"


def go_duration(seconds: float) -> str:
    """Whole seconds as Go prints a duration: `10s`, `1m20s`, `5m0s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def shortened(output: bytes) -> bytes:
    return output[:_OUTPUT_BYTES]


# ---------------------------------------------------------------------- probes

STARTUP, READINESS, LIVENESS = "startupProbe", "readinessProbe", "livenessProbe"


class Probes:
    """Probes one run of a container, and keeps `started` and `ready` of its state up to date."""

    def __init__(
        self,
        container: Document,
        target: HandlerTarget,
        state: ContainerState,
        *,
        changed: Callable[[], None],
        event: Callable[[str, str], None],
    ) -> None:
        self._container = container
        self._target = target
        self._state = state
        self._changed = changed
        self._event = event
        self._begun = asyncio.get_running_loop().time()

    async def run(self, started: asyncio.Event) -> str:
        """Probe until the container has to end; returns which probe says so: `startup` or `liveness`.

        `started` is set when the container counts as started.
        """
        if (probe := self._container.get(STARTUP)) and not await self._starts(probe):
            return "startup"
        self._state.started, self._state.ready = True, not self._container.get(READINESS)
        self._changed()
        started.set()
        async with TaskScope("probes") as tasks:
            watched = [
                tasks.start(f"probes/{kind}", work(probe))
                for kind, work in ((READINESS, self._follow_readiness), (LIVENESS, self._until_dead))
                if (probe := self._container.get(kind))
            ]
            if not self._container.get(LIVENESS):
                await asyncio.Event().wait()
            await watched[-1]
        return "liveness"

    async def _starts(self, probe: Document) -> bool:
        async with aclosing(self._verdicts(STARTUP, probe)) as verdicts:
            async for healthy in verdicts:
                return healthy
        return False

    async def _until_dead(self, probe: Document) -> None:
        async with aclosing(self._verdicts(LIVENESS, probe)) as verdicts:
            async for healthy in verdicts:
                if not healthy:
                    return

    async def _follow_readiness(self, probe: Document) -> None:
        async with aclosing(self._verdicts(READINESS, probe)) as verdicts:
            async for healthy in verdicts:
                if self._state.ready != healthy:
                    self._state.ready = healthy
                    self._changed()

    async def _verdicts(self, kind: str, probe: Document) -> AsyncGenerator[bool, None]:
        """Probe again and again, from the initial delay after the start of the container on."""
        begin = self._begun + float(probe.get("initialDelaySeconds") or 0)
        await asyncio.sleep(max(0.0, begin - asyncio.get_running_loop().time()))
        if "grpc" in probe:
            self._event("ProbeNotRun", f"{_named(kind)} probe counts as passed: the local node runs no gRPC probes")
            yield True
            await asyncio.Event().wait()
        # A verdict needs so many results in a row.
        needed = {True: int(probe.get("successThreshold") or 1), False: int(probe.get("failureThreshold") or 3)}
        last, count = True, 0
        while True:
            if failure := await self._failure(probe):
                self._event("Unhealthy", f"{_named(kind)} probe failed: {failure}")
            healthy = not failure
            last, count = healthy, count + 1 if healthy is last else 1
            if count >= needed[healthy]:
                yield healthy
            await asyncio.sleep(float(probe.get("periodSeconds") or 10))

    async def _failure(self, probe: Document) -> str:
        seconds = float(probe.get("timeoutSeconds") or 1)
        try:
            async with asyncio.timeout(seconds):
                return await attempt(probe, self._target)
        except TimeoutError:
            return f"no answer within {go_duration(seconds)}"


def _named(kind: str) -> str:
    return kind.removesuffix("Probe").capitalize()
