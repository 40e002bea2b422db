# SPDX-License-Identifier: Apache-2.0
"""What a probe or a lifecycle hook does: run a command in the container, ask a port of it, or wait.

https://kubernetes.io/docs/concepts/workloads/pods/probes/
https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainwright.api.objects import Document
from trainwright.controller.local.node.document.fields import HOST_IP
from trainwright.controller.local.node.network.networks import Dial
from trainwright.controller.local.node.pod.grpchealth import SERVING, HealthError, check

_LINE_BYTES = 16 * 1024
_OUTPUT_BYTES = 10 * 1024
"""As much of a command's output as a kubelet keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerTarget:
    """The container that handlers lead to."""

    execute: Callable[[Sequence[str]], Awaitable[tuple[int, bytes]]]
    """Runs a command in it; gives exit code and output."""
    container: Document
    moved: Mapping[int, int] = field(default_factory=dict)
    """The ports that differ from what the container declares: the real one by declared one."""

    dial: Dial = asyncio.open_connection
    """Connects to its ports."""

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
            return await _get(http, target.port(http["port"]), target.dial)
        if (grpc := handler.get("grpc")) is not None:
            return await _call(target.port(grpc["port"]), grpc.get("service") or "", target.dial)
        if (connection := handler.get("tcpSocket")) is not None:
            host = connection.get("host") or HOST_IP
            return await _connect(host, target.port(connection["port"]), target.dial)
        if (pause := handler.get("sleep")) is not None:
            await asyncio.sleep(float(pause["seconds"]))
    except ValueError as error:
        return str(error)
    return ""


async def _connect(host: str, port: int, dial: Dial) -> str:
    try:
        _, writer = await dial(host, port)
    except OSError as error:
        return _dial(host, port, error)
    writer.close()
    return ""


async def _call(port: int, service: str, dial: Dial) -> str:
    try:
        state = await check(HOST_IP, port, service, dial)
    except OSError as error:
        return f'failed to connect service "{HOST_IP}:{port}": {_dial(HOST_IP, port, error)}'
    except HealthError as error:
        return f"error: health rpc probe failed: {error}"
    return "" if state == SERVING else f'service unhealthy (responded with "{state}")'


async def _get(http: Document, port: int, dial: Dial) -> str:
    scheme = str(http.get("scheme") or "HTTP").lower()
    host = http.get("host") or HOST_IP
    path = "/" + str(http.get("path") or "").removeprefix("/")
    url = f"{scheme}://{host}:{port}{path}"
    try:
        context = _anyone() if scheme == "https" else None
        reader, writer = await dial(host, port, ssl=context, limit=_LINE_BYTES)
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


def shortened(output: bytes) -> bytes:
    """Output of a command, as much as is kept."""
    return output[:_OUTPUT_BYTES]
