# SPDX-License-Identifier: Apache-2.0
"""Runs a command in a container of a pod, over the websocket of `pods/exec`.

The client offers v5.channel.k8s.io and v4.channel.k8s.io. Each message starts with the number of its channel: 1 is
standard output, 2 is standard error, 3 is the Status that ends the command. A connection may end without a closing
frame after the Status, so nothing after it is waited for.
https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/4006-transition-spdy-to-websockets

The caller needs `get` and `create` on `pods/exec`: the request is a GET, and since 1.35 `create` is checked as well.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from trainwright.api.kubernetes.core.v1 import Pod
from trainwright.api.kubernetes.meta.v1 import Status
from trainwright.controller.runtime.client.session import ApiSession, error_of
from trainwright.controller.runtime.client.transport import Request, object_path
from trainwright.controller.runtime.errors import (
    BadRequest,
    ConnectionLost,
    DecodeError,
    OutputTooLarge,
    RequestTimeout,
)

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
SECONDS = 10.0
"""Longest time of a whole exec, if the caller names none."""
LIMIT = 2**20
"""Bytes of one message, and of all output together, if the caller names no limit."""
_STDOUT, _STDERR, _STATUS = 1, 2, 3


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended. `code` is its exit code, 128 + n after signal n."""

    stdout: bytes
    stderr: bytes
    code: int


class CommandTimeout(RequestTimeout):
    """The command has started, and did not end in time. It may still run."""


class Exec(ApiSession):
    """Exec in containers."""

    async def exec(
        self,
        pod: str,
        namespace: str,
        command: Sequence[str],
        *,
        container: str = "",
        seconds: float = SECONDS,
        limit: int = LIMIT,
    ) -> ExecResult:
        """Run a command without standard input and without a terminal, and wait until it ends.

        No shell takes part. Nothing is retried, because a command may have run although its answer is lost. After a
        timeout, and after OutputTooLarge, the process in the container may live on.

        Args:
            pod: name of the pod.
            namespace: namespace of the pod.
            command: the program and its arguments.
            container: required if the pod has several and does not name a default one.
            seconds: longest time of the whole exchange.
            limit: bytes of standard output and standard error together.

        Raises:
            NotFound: the pod does not exist.
            BadRequest: the container does not exist, or the pod has no node yet. An empty command is not sent.
            Forbidden: `get` or `create` on `pods/exec` is missing.
            Invalid: an admission policy refuses the command.
            ServerError: the node does not answer or could not start the command; the message says which.
            OutputTooLarge: more output than `limit`.
            CommandTimeout: the command started and did not end within `seconds`.
            RequestTimeout: the command did not start within `seconds`; the node may hang.
            Unreachable, ConnectionLost: no connection, or it broke before the end of the command.
            DecodeError: the server does not follow the protocol.
        """
        if not command:
            raise BadRequest("exec needs a command")
        query: dict[str, str | tuple[str, ...]] = {"command": tuple(command), "stdout": "true", "stderr": "true"}
        if container:
            query["container"] = container
        request = Request("GET", object_path(Pod.RESOURCE, pod, namespace, "exec"), query)
        started = asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                return await self._run(request, limit, started)
        except TimeoutError as error:
            if started.is_set():
                raise CommandTimeout(f"{request}: the command did not end within {seconds:g} s") from error
            raise RequestTimeout(f"{request}: the command did not start within {seconds:g} s") from error

    async def _run(self, request: Request, limit: int, started: asyncio.Event) -> ExecResult:
        outputs = {_STDOUT: bytearray(), _STDERR: bytearray()}
        left = limit
        # One more byte for the channel; a Status is always let through.
        async with self.connect(request, PROTOCOLS, limit=max(limit, LIMIT) + 1) as socket:
            while (message := await socket.receive()) is not None:
                started.set()  # nodes send an empty message once the command runs
                if not message:
                    continue
                channel, data = message[0], message[1:]
                if channel == _STATUS:
                    code = _exit_code(data, request)
                    return ExecResult(bytes(outputs[_STDOUT]), bytes(outputs[_STDERR]), code)
                if channel not in outputs:
                    raise DecodeError(f"{request}: a message on channel {channel}, which the client has not asked for")
                left -= len(data)
                if left < 0:
                    raise OutputTooLarge(f"{request}: more than {limit} bytes of output")
                outputs[channel] += data
        raise ConnectionLost(f"{request}: the server closed the connection before the end of the command")


def _exit_code(data: bytes, request: Request) -> int:
    """The exit code in a Status. Raises DecodeError, or the ApiError that it is."""
    try:
        status = msgspec.json.decode(data, type=Status)
        if status.status == "Success":
            return 0
        if status.reason == "NonZeroExitCode":
            causes = status.details_or_empty.causes or ()
            return int(next(cause.message or "" for cause in causes if cause.reason == "ExitCode"))
    except (msgspec.MsgspecError, ValueError, StopIteration) as error:
        raise DecodeError(f"{request}: the Status of the command is unreadable: {error!r}") from error
    # Nodes leave out the kind, which an error answer has.
    raise error_of(0, {}, msgspec.json.encode({"kind": "Status", **msgspec.json.decode(data)}), request=str(request))
