# SPDX-License-Identifier: Apache-2.0
"""The subresources of pods: `binding`, `eviction`, `log`, `exec` and `portforward`. `channels` speaks the websockets.

Evictions could be refused by a disruption budget, of which there are none here:
https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.admission.request import AdmissionRequest, Chain
from trainwright.controller.local.apiserver.kinds import metadata
from trainwright.controller.local.apiserver.request import bodies
from trainwright.controller.local.apiserver.request.info import (
    NO_OPTIONS,
    RequestInfo,
    ServerResponse,
    ServerWebSocket,
    Upgrade,
    write_options,
)
from trainwright.controller.local.apiserver.store import ObjectStore
from trainwright.controller.local.apiserver.verbs import channels
from trainwright.controller.local.apiserver.verbs.deletes import Deletes, check_preconditions, checked_options
from trainwright.controller.local.apiserver.verbs.writes import ResourceWrites
from trainwright.controller.local.podaccess import (
    ExecRequest,
    ExecSource,
    GonePods,
    LogRequest,
    LogSource,
    PortSource,
    UnavailableError,
)
from trainwright.controller.local.types.errors import forbidden, invalid, not_supported, required
from trainwright.controller.local.types.go_json import is_time


async def _posted(call: RequestInfo, admission: Chain) -> tuple[AdmissionRequest, Document]:
    """A POST for the pod of the URL and its object, after mutating admission. Raises StatusError."""
    call.require("POST")
    options = write_options(call.request, "CreateOptions")
    body = bodies.read_object(call, options)
    metadata.set_namespace(metadata.metadata_of(body), call.namespace)
    request = AdmissionRequest(call, "CREATE", body, None, options)
    await admission.mutate(request)
    posted = request.new = request.new or body
    if metadata.metadata_of(posted).get("name") != call.name:
        raise errors.bad_request(f"name in URL does not match name in {body['kind']} object")
    return request, posted


def _done() -> ServerResponse:
    return ServerResponse.of(errors.status("Success", code=201), 201)


async def bind(writes: ResourceWrites, admission: Chain, call: RequestInfo) -> ServerResponse:
    request, binding = await _posted(call, admission)
    target, meta = binding.get("target") or {}, metadata.metadata_of(binding)
    node, found = str(target.get("name") or ""), []
    if target.get("kind") not in (None, "", "Node"):
        found.append(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not node:
        found.append(required("target.name"))
    if found:
        # The real server does not classify these.
        raise errors.plain_internal("; ".join(map(str, found)))
    await admission.validate(request)

    def bound(live: Document) -> Document:
        uid, own = meta.get("uid"), live["metadata"]["uid"]
        if uid and uid != own:
            raise call.conflict(f"Precondition failed: UID in precondition: {uid}, UID in object meta: {own}")
        return _bound(call, live, node, meta)

    writes.begin_change(call, bound, request.options)
    await writes.committed()
    return _done()


def _bound(call: RequestInfo, live: Document, node: str, meta: Document) -> Document:
    spec, problem = live.get("spec") or {}, ""
    if live["metadata"].get("deletionTimestamp"):
        problem = "is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        problem = f'is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        problem = "has non-empty .spec.schedulingGates"
    if problem:
        raise errors.conflict("", "pods/binding", call.name, f"pod {call.name} {problem}")
    made = _with_condition(call, live, {"type": "PodScheduled", "status": "True", "lastProbeTime": None})
    made |= {"metadata": dict(live["metadata"]), "spec": {**spec, "nodeName": node}}
    for field in ("annotations", "labels"):
        if meta.get(field):
            made["metadata"][field] = {**(live["metadata"].get(field) or {}), **meta[field]}
    return made


def _with_condition(call: RequestInfo, pod: Document, wanted: Document) -> Document:
    """The pod with a condition that holds since now."""
    status = pod.get("status") or {}
    others = [one for one in status.get("conditions") or () if one["type"] != wanted["type"]]
    condition = {**wanted, "lastTransitionTime": times.format_time(call.now)}
    return {**pod, "status": {**status, "conditions": [*others, condition]}}


_CONDITION = {
    "type": "DisruptionTarget",
    "status": "True",
    "lastProbeTime": None,
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


async def evict(writes: ResourceWrites, deletes: Deletes, admission: Chain, call: RequestInfo) -> ServerResponse:
    """Note the eviction in the pod's status and delete the pod, with its grace period. Raises StatusError.

    The deletion is without admission: as in kube-apiserver, webhooks are asked about the eviction only.
    """
    request, eviction = await _posted(call, admission)
    await admission.validate(request)
    wanted = checked_options(eviction.get("deleteOptions") or {})
    pod = replace(call, subresource="")
    if request.options.dry_run or wanted.dry_run:
        wanted = replace(wanted, dry_run=True)
    else:

        def note(live: Document) -> Document:
            check_preconditions(pod, wanted, live["metadata"])
            conditions = (live.get("status") or {}).get("conditions") or ()
            noted = any(_CONDITION.items() <= one.items() for one in conditions)
            return live if noted else _with_condition(call, live, _CONDITION)

        # Nothing is awaited before the deletion: a client that goes must not leave a pod that is only noted.
        writes.begin_change(pod, note, request.options)
        wanted = replace(wanted, version=None)  # The note changed it.
    await deletes.delete(pod, wanted)
    return _done()


_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


async def stream_log(
    store: ObjectStore, source: LogSource, call: RequestInfo, *, gone: GonePods | None = None
) -> ServerResponse:
    """Serve `pods/log`, also of a pod that is gone, as long as its logs are kept. Raises StatusError."""
    call.require("GET", "HEAD")
    request = _log_request(call)
    pod = store.document("pods", call.name, call.namespace)
    if pod is None and gone is not None:
        pod = await gone(call.namespace, call.name)
    if pod is None:
        raise call.not_found()
    container = _container_of(pod, request.container)
    if not (pod.get("spec") or {}).get("nodeName"):
        # As the real server: a pod without a node has an empty log.
        return ServerResponse(status=204, content_type="")
    try:
        stream = await source(call.namespace, call.name, replace(request, container=container))
    except UnavailableError as error:
        raise errors.bad_request(str(error)) from error
    return ServerResponse(stream=stream, content_type="text/plain")


def _container_of(pod: Document, name: str) -> str:
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
    since_time = _moment(request.param("sinceTime"))
    since_both = "at most one of `sinceTime` or `sinceSeconds` may be specified"
    checks = (
        (tail is not None and tail < 0, invalid("tailLines", tail, "must be greater than or equal to 0")),
        (limit is not None and limit < 1, invalid("limitBytes", limit, "must be greater than 0")),
        # Messages name the path of an error that is about no single field so.
        (since is not None and since_time is not None, forbidden("[]", since_both)),
        (since is not None and not since_time and since < 1, invalid("sinceSeconds", since, "must be greater than 0")),
        (request.has_param("stream"), forbidden("stream", "may not be specified")),
    )
    if found := [error for wrong, error in checks if wrong]:
        raise errors.invalid("", "PodLogOptions", call.name, found)
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


def _moment(text: str) -> datetime | None:
    try:
        if not text or is_time(text):
            return times.parse(text) if text else None
    except ValueError:
        pass
    raise errors.bad_request(f"sinceTime: {text!r} is not a time such as 2026-01-02T03:04:05Z")


_NO_SPDY = "this server does not speak SPDY: use a client that asks for websockets, such as kubectl 1.31 or later"


async def _connection(
    call: RequestInfo, store: ObjectStore, admission: Chain, wanted: Document
) -> tuple[Document, Document]:
    """What a connection is for, after admission, and its pod, which has a node. Raises StatusError."""
    call.require("GET", "POST")
    request = AdmissionRequest(call, "CONNECT", wanted, None, NO_OPTIONS)
    await admission.mutate(request)
    await admission.validate(request)
    pod = store.document("pods", call.name, call.namespace)
    if pod is None:
        raise call.not_found()
    if not (pod.get("spec") or {}).get("nodeName"):
        raise errors.bad_request(f"pod {call.name} does not have a host assigned")
    return request.new or wanted, pod


def _check_upgrade(call: RequestInfo, protocols: Sequence[str]) -> None:
    """Raises StatusError unless a request asks for a websocket with one of the protocols."""
    upgrade = call.request.headers.get("upgrade", "").lower()
    if "websocket" not in upgrade:
        raise errors.bad_request(_NO_SPDY if "spdy" in upgrade else "Upgrade request required")
    offered = [one.strip() for one in call.request.headers.get("sec-websocket-protocol", "").split(",")]
    if not any(protocol in protocols for protocol in offered):
        raise errors.bad_request(f"the websocket must offer one of the protocols {', '.join(protocols)}")


async def connect_exec(store: ObjectStore, source: ExecSource, admission: Chain, call: RequestInfo) -> ServerResponse:
    """Serve `pods/exec`: make the connection a websocket. Raises StatusError."""
    asked = call.request
    options: Document = {"kind": "PodExecOptions", "apiVersion": "v1"}
    options |= {name: True for name in ("stdin", "stdout", "stderr", "tty") if asked.flag(name)}
    if asked.param("container"):
        options["container"] = asked.param("container")
    options["command"] = list(asked.all("command")) or None
    options, pod = await _connection(call, store, admission, options)
    stdin, stdout, stderr, tty = (bool(options.get(name)) for name in ("stdin", "stdout", "stderr", "tty"))
    request = ExecRequest(
        container=_container_of(pod, options.get("container") or ""),
        command=tuple(options.get("command") or ()),
        stdin=stdin,
        stdout=stdout,
        # A terminal has one output.
        stderr=stderr and not tty,
        tty=tty,
    )
    if not request.command:
        raise errors.bad_request("you must specify at least one command for the container")
    if not (request.stdin or request.stdout or request.stderr):
        raise errors.bad_request("you must specify at least 1 of stdin, stdout, stderr")
    _check_upgrade(call, channels.EXEC)
    if not _may_run(pod, request.container):
        # The answer of a kubelet, which is no Status.
        text = f'container not found ("{request.container}")\n'
        return ServerResponse(status=500, body=text.encode(), content_type="text/plain; charset=utf-8")

    async def serve(socket: ServerWebSocket) -> None:
        await channels.serve_exec(socket, source, call.namespace, call.name, request)

    return ServerResponse(status=101, upgrade=Upgrade(channels.EXEC, serve))


def _may_run(pod: Document, container: str) -> bool:
    """Whether the status does not say that a container waits or has ended. It may be a moment old."""
    status = pod.get("status") or {}
    listed = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    state = next((one.get("state") or {} for one in listed if one.get("name") == container), {})
    return "waiting" not in state and "terminated" not in state


async def forward_ports(store: ObjectStore, source: PortSource, admission: Chain, call: RequestInfo) -> ServerResponse:
    """Serve `pods/portforward`: make the connection a websocket. Raises StatusError."""
    await _connection(call, store, admission, {"kind": "PodPortForwardOptions", "apiVersion": "v1"})
    _check_upgrade(call, channels.FORWARD)

    async def serve(socket: ServerWebSocket) -> None:
        await channels.SPDYTunnel(socket, partial(source, call.namespace, call.name)).run()

    return ServerResponse(status=101, upgrade=Upgrade(channels.FORWARD, serve))
