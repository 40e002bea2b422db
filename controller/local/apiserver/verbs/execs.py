# SPDX-License-Identifier: Apache-2.0
"""`pods/exec` and `pods/attach`: a process in a container, its streams in the channels of a websocket.

Each binary message begins with the number of its channel. kubectl asks for websockets first since 1.31; older versions
speak SPDY, which is not served.
https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/4006-transition-spdy-to-websockets
"""

import asyncio
from collections.abc import AsyncIterator

import msgspec

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.chain import Admission
from trainwright.controller.local.apiserver.request.call import RequestInfo
from trainwright.controller.local.apiserver.request.info import (
    ServerResponse,
    ServerWebSocket,
    Upgrade,
    WriteQuery,
    encode,
)
from trainwright.controller.local.apiserver.store import ObjectStore
from trainwright.controller.local.apiserver.verbs.podlogs import container_of
from trainwright.controller.local.podaccess import ExecRequest, ExecSession, ExecSource, UnavailableError
from trainwright.controller.runtime import TaskScope

_V5 = "v5.channel.k8s.io"
PROTOCOLS = (_V5, "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
"""Channels. A message on the last one names a channel that the client closes; version 4 does not have it."""
_NO_SPDY = (
    "this server does not speak SPDY: use a client that asks for websockets, such as kubectl 1.31 or later without "
    "KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false"
)


class _Size(msgspec.Struct):
    Width: int = 0
    Height: int = 0


class PodExecs:
    """Serves `pods/exec`, or `pods/attach`: the process that the container runs already.

    Args:
        store: has the pods.
        source: starts processes, or joins them.
        admission: is asked about each connection.
        attach: serve `pods/attach`, whose requests have no command.
    """

    def __init__(self, store: ObjectStore, source: ExecSource, admission: Admission, *, attach: bool = False) -> None:
        self._store = store
        self._source = source
        self._admission = admission
        self._attach = attach

    async def connect(self, call: RequestInfo) -> ServerResponse:
        """Make the connection a websocket. Raises StatusError."""
        if call.request.method not in ("GET", "POST"):
            raise errors.method_not_allowed()
        options = WriteQuery(manager="", dry_run=False, validation="")
        wanted = await self._admission.mutate(call, "CONNECT", _options(call, attach=self._attach), None, options)
        assert wanted is not None
        await self._admission.validate(call, "CONNECT", wanted, None, options)
        request, runs = self._request(call, wanted)
        if "websocket" not in call.request.headers.get("upgrade", "").lower():
            spdy = "spdy" in call.request.headers.get("upgrade", "").lower()
            raise errors.bad_request(_NO_SPDY if spdy else "Upgrade request required")
        offered = [one.strip() for one in call.request.headers.get("sec-websocket-protocol", "").split(",")]
        if not any(protocol in PROTOCOLS for protocol in offered):
            raise errors.bad_request(f"the websocket must offer one of the protocols {', '.join(PROTOCOLS)}")
        if not runs:
            # The answer of a kubelet, which is no Status.
            text = f'container not found ("{request.container}")\n'
            return ServerResponse(status=500, body=text.encode(), content_type="text/plain; charset=utf-8")

        async def serve(socket: ServerWebSocket) -> None:
            await serve_exec(socket, self._source, call.namespace, call.name, request)

        return ServerResponse(status=101, upgrade=Upgrade(PROTOCOLS, serve))

    def _request(self, call: RequestInfo, wanted: Document) -> tuple[ExecRequest, bool]:
        """What is asked for, in a pod that has a node, and whether the container may run. Raises StatusError."""
        stored = self._store.get("pods", call.key)
        if stored is None:
            raise call.not_found()
        pod = stored.document()
        container = container_of(pod, wanted.get("container") or "")
        if not (pod.get("spec") or {}).get("nodeName"):
            raise errors.bad_request(f"pod {call.name} does not have a host assigned")
        tty = bool(wanted.get("tty"))
        made = ExecRequest(
            container=container,
            command=tuple(wanted.get("command") or ()),
            stdin=bool(wanted.get("stdin")),
            stdout=bool(wanted.get("stdout")),
            # A terminal has one output.
            stderr=bool(wanted.get("stderr")) and not tty,
            tty=tty,
        )
        if not made.command and not self._attach:
            raise errors.bad_request("you must specify at least one command for the container")
        if not (made.stdin or made.stdout or made.stderr):
            raise errors.bad_request("you must specify at least 1 of stdin, stdout, stderr")
        return made, _may_run(pod, container)


def _may_run(pod: Document, container: str) -> bool:
    """Whether the status does not say that a container waits or has ended. It may be a moment old."""
    status = pod.get("status") or {}
    listed = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    state = next((one.get("state") or {} for one in listed if one.get("name") == container), {})
    return "waiting" not in state and "terminated" not in state


def _options(call: RequestInfo, *, attach: bool) -> Document:
    """What the query asks for, as the object that admission is about."""
    asked = call.request
    made: Document = {"kind": "PodAttachOptions" if attach else "PodExecOptions", "apiVersion": "v1"}
    made |= {name: True for name in ("stdin", "stdout", "stderr", "tty") if asked.flag(name)}
    if container := asked.asked("container"):
        made["container"] = container
    return made if attach else {**made, "command": list(asked.all("command")) or None}


async def serve_exec(
    socket: ServerWebSocket, source: ExecSource, namespace: str, pod: str, request: ExecRequest
) -> None:
    """Start a process and speak of it over an open websocket, until one of the two ends. Raises ConnectionError."""
    try:
        session = await source(namespace, pod, request)
    except UnavailableError as error:
        await _tell(socket, errors.internal(str(error)).document())
        return
    await _Connection(socket, session, request).run()


class _Connection:
    """A session and its websocket."""

    def __init__(self, socket: ServerWebSocket, session: ExecSession, request: ExecRequest) -> None:
        self._socket = socket
        self._session = session
        self._request = request

    async def run(self) -> None:
        """Until the process has ended and its output is sent, or the client is gone; then the process is killed.

        Raises ConnectionError.
        """
        try:
            if self._request.stdout or self._request.stderr:
                # As kubelet, so that the client knows that the process runs.
                await self._socket.send(bytes([STDOUT if self._request.stdout else STDERR]))
            async with TaskScope("exec") as tasks:
                reading = tasks.start("exec/input", self._read())
                running = tasks.start("exec/process", self._process())
                await asyncio.wait({reading, running}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._session.close()

    async def _process(self) -> None:
        """Send all output, then the exit code."""
        async with TaskScope("exec output") as tasks:
            copies = {
                tasks.start("exec/stdout", self._copy(self._session.stdout, STDOUT, wanted=self._request.stdout)),
                tasks.start("exec/stderr", self._copy(self._session.stderr, STDERR, wanted=self._request.stderr)),
            }
            code = await self._session.wait()
            await asyncio.wait(copies)
        await _tell(self._socket, _exit_status(code))

    async def _copy(self, output: AsyncIterator[bytes], channel: int, *, wanted: bool) -> None:
        prefix = bytes([channel])
        async for chunk in output:
            if wanted:
                await self._socket.send(prefix + chunk)

    async def _read(self) -> None:
        """Take input until the client is gone."""
        while (message := await self._socket.receive()) is not None:
            if not message:
                continue
            channel, data = message[0], message[1:]
            if channel == STDIN and self._request.stdin:
                await self._session.write(data)
            elif channel == CLOSE and data == bytes([STDIN]) and self._socket.protocol == _V5:
                await self._session.close_stdin()
            elif channel == RESIZE and self._request.tty:
                self._resize(data)

    def _resize(self, data: bytes) -> None:
        try:
            size = msgspec.json.decode(data, type=_Size)
        except msgspec.DecodeError:
            return  # As kubelet: a terminal of the wrong size is no reason to end it.
        if 0 < size.Width < 2**16 and 0 < size.Height < 2**16:
            self._session.resize(size.Width, size.Height)


async def _tell(socket: ServerWebSocket, status: Document) -> None:
    await socket.send(bytes([ERROR]) + encode(status))


def _exit_status(code: int) -> Document:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: command terminated with exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
