# SPDX-License-Identifier: Apache-2.0
"""Subresources of pods: `binding`, `log`, and the websocket of `exec`.

Each binary message of a websocket begins with the number of its channel. kubectl asks for websockets first since 1.31;
older versions speak SPDY, which is not served.
https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/4006-transition-spdy-to-websockets
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import msgspec

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.request import AdmissionRequest, Chain
from trainwright.controller.local.apiserver.kinds import metadata
from trainwright.controller.local.apiserver.request import bodies
from trainwright.controller.local.apiserver.request.call import RequestInfo
from trainwright.controller.local.apiserver.request.info import (
    ServerResponse,
    ServerWebSocket,
    Upgrade,
    WriteQuery,
    encode,
    write_options,
)
from trainwright.controller.local.apiserver.store import ObjectStore
from trainwright.controller.local.apiserver.verbs.writes import ResourceWrites, track
from trainwright.controller.local.podaccess import (
    ExecRequest,
    ExecSession,
    ExecSource,
    GonePods,
    LogRequest,
    LogSource,
    UnavailableError,
)
from trainwright.controller.local.types.errors import DocumentError, forbidden, invalid, not_supported, required
from trainwright.controller.local.types.go_json import is_time
from trainwright.controller.runtime import TaskScope


class Bindings:
    """Serves bindings."""

    def __init__(self, writes: ResourceWrites, admission: Chain) -> None:
        self._writes = writes
        self._admission = admission

    async def create(self, call: RequestInfo) -> ServerResponse:
        """Bind a pod. Raises StatusError."""
        if call.request.method != "POST":
            raise errors.method_not_allowed()
        options = write_options(call.request, "CreateOptions")
        binding = {"kind": "Binding", "apiVersion": "v1", **bodies.read_plain(call, "Binding", "v1")}
        metadata.set_namespace(metadata.metadata_of(binding), call.namespace)
        request = AdmissionRequest(call, "CREATE", binding, None, options)
        await self._admission.mutate(request)
        binding = request.new or binding
        target, meta = binding.get("target") or {}, metadata.metadata_of(binding)
        node = str(target.get("name") or "")
        if meta.get("name") != call.name:
            raise errors.bad_request("name in URL does not match name in Binding object")
        found = []
        if target.get("kind") not in (None, "", "Node"):
            found.append(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
        if not node:
            found.append(required("target.name"))
        if found:
            # The real server does not classify these.
            raise errors.plain_internal(str(found[0]) if len(found) == 1 else f"[{', '.join(map(str, found))}]")
        await self._admission.validate(request)

        def bind(live: Document) -> Document:
            uid = meta.get("uid")
            if uid and uid != live["metadata"]["uid"]:
                raise call.conflict(
                    f"Precondition failed: UID in precondition: {uid}, UID in object meta: {live['metadata']['uid']}"
                )
            return track(call, live, _bound(call, live, node, meta), options)

        await self._writes.change(call, bind, options)
        return ServerResponse.of(errors.status("Success", code=201), 201)


def _bound(call: RequestInfo, live: Document, node: str, meta: Document) -> Document:
    if live["metadata"].get("deletionTimestamp"):
        raise _conflict(call, f"pod {call.name} is being deleted, cannot be assigned to a host")
    current = (live.get("spec") or {}).get("nodeName")
    if current:
        raise _conflict(call, f'pod {call.name} is already assigned to node "{current}"')
    if (live.get("spec") or {}).get("schedulingGates"):
        raise _conflict(call, f"pod {call.name} has non-empty .spec.schedulingGates")
    status = dict(live.get("status") or {})
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": times.format_time(call.now),
    }
    others = [entry for entry in status.get("conditions") or () if entry["type"] != "PodScheduled"]
    status["conditions"] = [*others, scheduled]
    made = {**live, "metadata": dict(live["metadata"]), "spec": {**live["spec"], "nodeName": node}, "status": status}
    for field in ("annotations", "labels"):
        if meta.get(field):
            made["metadata"][field] = {**(live["metadata"].get(field) or {}), **meta[field]}
    return made


def _conflict(call: RequestInfo, why: str) -> errors.StatusError:
    return errors.conflict("", "pods/binding", call.name, why)


_NO_FIELD = "[]"
"""How messages name the path of an error that is about no single field."""
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


class PodLogs:
    """Serves `pods/log`, also of pods that are gone, as long as their logs are kept."""

    def __init__(self, store: ObjectStore, source: LogSource, gone: GonePods | None = None) -> None:
        self._store = store
        self._source = source
        self._gone = gone

    async def get(self, call: RequestInfo) -> ServerResponse:
        """Stream a log. Raises StatusError."""
        if call.request.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
        request = _log_request(call)
        stored = self._store.get("pods", call.key)
        pod = stored.document() if stored is not None else await self._of_gone(call)
        if pod is None:
            raise call.not_found()
        container = container_of(pod, request.container)
        if not (pod.get("spec") or {}).get("nodeName"):
            # As the real server: a pod without a node has an empty log.
            return ServerResponse(content_type="text/plain")
        try:
            stream = await self._source(call.namespace, call.name, replace(request, container=container))
        except UnavailableError as error:
            raise errors.bad_request(str(error)) from error
        return ServerResponse(stream=stream, content_type="text/plain")

    async def _of_gone(self, call: RequestInfo) -> Document | None:
        return await self._gone(call.namespace, call.name) if self._gone is not None else None


def container_of(pod: Document, name: str) -> str:
    """The container that is meant: the only one, if none is named. Raises StatusError."""
    spec, pod_name = pod.get("spec") or {}, pod["metadata"]["name"]
    known = [one["name"] for field in _CONTAINERS for one in spec.get(field) or ()]
    if name:
        if name not in known:
            raise errors.bad_request(f"container {name} is not valid for pod {pod_name}")
        return name
    if len(spec.get("containers") or ()) != 1:
        listed = " ".join(known)
        raise errors.bad_request(f"a container name must be specified for pod {pod_name}, choose one of: [{listed}]")
    only: str = spec["containers"][0]["name"]
    return only


def _log_request(call: RequestInfo) -> LogRequest:
    request = call.request
    tail, limit, since = (request.number(name) for name in ("tailLines", "limitBytes", "sinceSeconds"))
    moment = request.param("sinceTime")
    if moment and not is_time(moment):
        raise errors.bad_request(f"sinceTime: {moment!r} is not a time such as 2026-01-02T03:04:05Z")
    found: list[DocumentError] = []
    if tail is not None and tail < 0:
        found.append(invalid("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        found.append(invalid("limitBytes", limit, "must be greater than 0"))
    if since is not None and moment:
        text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        found.append(forbidden(_NO_FIELD, text))
    elif since is not None and since < 1:
        found.append(invalid("sinceSeconds", since, "must be greater than 0"))
    if request.has_param("stream"):
        found.append(forbidden("stream", "may not be specified"))
    if found:
        raise errors.invalid("", "PodLogOptions", call.name, found)
    try:
        since_time = times.parse(moment) if moment else None
    except ValueError as error:
        raise errors.bad_request(str(error)) from error
    return LogRequest(
        container=request.param("container"),
        follow=request.flag("follow"),
        previous=request.flag("previous"),
        run=int(run) if (run := request.param("run")).isdecimal() else None,
        timestamps=request.flag("timestamps"),
        tail_lines=tail,
        since_seconds=since,
        since_time=since_time,
        limit_bytes=limit,
    )


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
    """Serves `pods/exec`.

    Args:
        store: has the pods.
        source: starts processes.
        admission: is asked about each connection.
    """

    def __init__(self, store: ObjectStore, source: ExecSource, admission: Chain) -> None:
        self._store = store
        self._source = source
        self._admission = admission

    async def connect(self, call: RequestInfo) -> ServerResponse:
        """Make the connection a websocket. Raises StatusError."""
        if call.request.method not in ("GET", "POST"):
            raise errors.method_not_allowed()
        options = WriteQuery(manager="", dry_run=False, validation="")
        connection = AdmissionRequest(call, "CONNECT", _options(call), None, options)
        await self._admission.mutate(connection)
        await self._admission.validate(connection)
        wanted = connection.new
        assert wanted is not None
        request, runs = self._request(call, wanted)
        check_upgrade(call, PROTOCOLS)
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
        if not made.command:
            raise errors.bad_request("you must specify at least one command for the container")
        if not (made.stdin or made.stdout or made.stderr):
            raise errors.bad_request("you must specify at least 1 of stdin, stdout, stderr")
        return made, _may_run(pod, container)


def check_upgrade(call: RequestInfo, protocols: Sequence[str]) -> None:
    """Raises StatusError unless a request asks for a websocket with one of the protocols."""
    upgrade = call.request.headers.get("upgrade", "").lower()
    if "websocket" not in upgrade:
        raise errors.bad_request(_NO_SPDY if "spdy" in upgrade else "Upgrade request required")
    offered = [one.strip() for one in call.request.headers.get("sec-websocket-protocol", "").split(",")]
    if not any(protocol in protocols for protocol in offered):
        raise errors.bad_request(f"the websocket must offer one of the protocols {', '.join(protocols)}")


def _may_run(pod: Document, container: str) -> bool:
    """Whether the status does not say that a container waits or has ended. It may be a moment old."""
    status = pod.get("status") or {}
    listed = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    state = next((one.get("state") or {} for one in listed if one.get("name") == container), {})
    return "waiting" not in state and "terminated" not in state


def _options(call: RequestInfo) -> Document:
    """What the query asks for, as the object that admission is about."""
    asked = call.request
    made: Document = {"kind": "PodExecOptions", "apiVersion": "v1"}
    made |= {name: True for name in ("stdin", "stdout", "stderr", "tty") if asked.flag(name)}
    if container := asked.param("container"):
        made["container"] = container
    return {**made, "command": list(asked.all("command")) or None}


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
