# SPDX-License-Identifier: Apache-2.0
"""`pods/log`, and which container of a pod is meant."""

from dataclasses import replace

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.request.call import RequestInfo
from trainwright.controller.local.apiserver.request.info import ServerResponse
from trainwright.controller.local.apiserver.schema.errors import forbidden, invalid
from trainwright.controller.local.apiserver.schema.structs import is_time
from trainwright.controller.local.apiserver.store import ObjectStore
from trainwright.controller.local.podaccess import GonePods, LogRequest, LogSource, UnavailableError

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
    moment = request.asked("sinceTime")
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
    if request.says("stream"):
        found.append(forbidden("stream", "may not be specified"))
    if found:
        raise errors.invalid("", "PodLogOptions", call.name, found)
    try:
        since_time = times.parse(moment) if moment else None
    except ValueError as error:
        raise errors.bad_request(str(error)) from error
    return LogRequest(
        container=request.asked("container"),
        follow=request.flag("follow"),
        previous=request.flag("previous"),
        run=int(run) if (run := request.asked("run")).isdecimal() else None,
        timestamps=request.flag("timestamps"),
        tail_lines=tail,
        since_seconds=since,
        since_time=since_time,
        limit_bytes=limit,
    )
