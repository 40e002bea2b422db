# SPDX-License-Identifier: Apache-2.0
"""What containers use now, as metrics-server serves it: `pods` of metrics.k8s.io, to be got and listed.

The node is not known here. GPUs, which metrics-server does not tell, are further resources of `usage`. The group is
not in discovery.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from trainwright.api import times
from trainwright.api.objects import Document, labels_of, name_of, namespace_of, uid_of
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.request.info import ServerRequest, ServerResponse
from trainwright.controller.local.apiserver.request.routes import Route
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore
from trainwright.controller.local.apiserver.views.selection.labels import SelectorError, parse_label_selector
from trainwright.controller.local.podaccess import ContainerUse

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
GPU, GPU_MEMORY = "nvidia.com/gpu", "nvidia.com/gpu-memory"
_WINDOW = timedelta(seconds=1)


Source = Callable[[], Awaitable[Sequence[ContainerUse]]]


class PodMetrics:
    """Serves the group."""

    def __init__(self, store: ObjectStore, source: Source, now: times.Now) -> None:
        self._store, self._source, self._now = store, source, now

    async def __call__(self, request: ServerRequest, route: Route) -> ServerResponse:
        """Answer a request. Raises StatusError."""
        if route.version != VERSION or route.resource != "pods" or route.subresource:
            raise errors.no_such_resource()
        if request.method not in ("GET", "HEAD") or request.flag("watch") or route.watch:
            raise errors.method_not_allowed()
        used: dict[str, list[ContainerUse]] = {}
        for one in await self._source():
            used.setdefault(one.pod, []).append(one)
        if route.name:
            stored = self._store.get("pods", ObjectName(route.namespace, route.name))
            pod = stored.document() if stored is not None else None
            if pod is None or uid_of(pod) not in used:
                raise errors.not_found(GROUP, "pods", route.name)
            return ServerResponse.of({**self._metrics(pod, used[uid_of(pod)]), **_kind("PodMetrics")})
        try:
            selector = parse_label_selector(request.asked("labelSelector"))
        except SelectorError as error:
            raise errors.bad_request(str(error)) from error
        stored_pods = self._store.collection("pods").listed(route.namespace)
        pods = [pod for pod in (stored.document() for stored in stored_pods) if selector.matches_document(pod)]
        items = [self._metrics(pod, used[uid_of(pod)]) for pod in pods if uid_of(pod) in used]
        return ServerResponse.of({**_kind("PodMetricsList"), "metadata": {}, "items": items})

    def _metrics(self, pod: Document, containers: Sequence[ContainerUse]) -> Document:
        now = times.format_time(self._now())
        metadata = {"name": name_of(pod), "namespace": namespace_of(pod), "creationTimestamp": now}
        return {
            "metadata": {**metadata, "labels": dict(labels_of(pod))},
            "timestamp": now,
            "window": f"{_WINDOW.total_seconds():.0f}s",
            "containers": [{"name": one.container, "usage": _usage(one)} for one in containers],
        }


def _usage(used: ContainerUse) -> dict[str, str]:
    found = {"cpu": f"{round(used.cpu * 1e9)}n", "memory": f"{used.memory // 1024}Ki"}
    if used.gpu is not None:
        found[GPU] = f"{round(used.gpu * 1000)}m"
    if used.gpu_memory is not None:
        found[GPU_MEMORY] = f"{used.gpu_memory // 1024}Ki"
    return found


def _kind(kind: str) -> dict[str, str]:
    return {"kind": kind, "apiVersion": f"{GROUP}/{VERSION}"}
