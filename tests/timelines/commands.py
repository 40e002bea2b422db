# SPDX-License-Identifier: Apache-2.0
"""Commands in pods that exist in memory only, as a kubelet answers them: they read the progress file of the pod."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from trainwright.controller.local.apiserver.request.info import ServerResponse, ServerWebSocket, Upgrade

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_MOST = 65537
"""Bytes that the command reads."""


def answer(pod: Mapping[str, Any], command: list[str]) -> ServerResponse:
    """What the API server answers to a command in a pod of a timeline; see `pod` in schema.json."""
    how: Mapping[str, Any] = pod.get("command", {})
    if "refused" in how:
        code, reason = how["refused"], how["reason"]
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": "no"}
        return ServerResponse.of({**status, "code": code}, code)

    async def serve(socket: ServerWebSocket) -> None:
        if how.get("hangs") == "node":
            await asyncio.Event().wait()
        for message in _output(pod, how, command):
            if len(message) > 1 and how.get("hangs"):
                await asyncio.Event().wait()
            await socket.send(message)

    return ServerResponse(status=101, upgrade=Upgrade(PROTOCOLS, serve))


def _output(pod: Mapping[str, Any], how: Mapping[str, Any], command: list[str]) -> Iterator[bytes]:
    """The messages of one command: a channel, and what it carries."""
    yield b"\x01"
    program, path = command[0], command[-1]
    if "says" in how:
        yield _status(message=how["says"].replace("PROGRAM", program), reason="InternalError")
    elif program not in how.get("programs", ("tail", "python3")):
        yield _status(message=f'exec: "{program}": executable file not found in $PATH', reason="InternalError")
    elif not how.get("breaks"):
        file, stderr, code = pod.get("file"), how.get("stderr", ""), how.get("code", 0)
        if file is None:
            stderr, code = f"{program}: cannot open '{path}': No such file or directory\n", 1
        else:
            yield b"\x01" + (file * how.get("times", 1)).encode("latin-1")[-_MOST:]
        if stderr:
            yield b"\x02" + (stderr * how.get("times", 1)).encode()
        causes = {"causes": [{"reason": "ExitCode", "message": str(code)}]}
        yield _status(reason="NonZeroExitCode", details=causes) if code else b'\x03{"status":"Success"}'


def _status(**fields: Any) -> bytes:
    """As nodes write it, without a kind."""
    return b"\x03" + msgspec.json.encode({"status": "Failure", **fields})
