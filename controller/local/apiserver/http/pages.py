# SPDX-License-Identifier: Apache-2.0
"""Answers that are about the server and not about an object: health, version, discovery; and the metrics of pods."""

import platform
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from trainwright import __version__
from trainwright.api import times
from trainwright.api.objects import Document, labels_of, name_of, namespace_of, uid_of
from trainwright.api.selectors import SelectorError, parse_label_selector
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds.registry import Resource, ResourceRegistry
from trainwright.controller.local.apiserver.request.info import Route, ServerRequest, ServerResponse, encode
from trainwright.controller.local.apiserver.store import ObjectStore
from trainwright.controller.local.apiserver.views import discovery, openapi
from trainwright.controller.local.podaccess import ContainerUse

_ALIVE = ("ping", "log", "etcd")
_CHECKS = {
    "healthz": _ALIVE,
    "livez": _ALIVE,
    "readyz": (*_ALIVE, "etcd-readiness", "informer-sync", "shutdown"),
}
"""Health checks by path. While the server answers, all of them pass."""
KUBERNETES_VERSION = "1.36.3"
_BUILD_DATE = "1970-01-01T00:00:00Z"
_KEPT_ANSWERS = 100
_NO_MODELS = b"\x0a\x032.0" + b"\x12\x0e" + b"\x0a\x0aKubernetes" + b"\x12\x00"
"""An OpenAPI v2 document in protobuf: `swagger` "2.0", `info` with a title and no version, no models. kubectl reads it
before it writes a `kind: List`, to validate the items itself. An item without a model passes here, and the server
validates it."""


def health(request: ServerRequest) -> ServerResponse | None:
    """The health paths, and those of single checks below them.

    https://kubernetes.io/docs/reference/using-api/health-checks/
    """
    root, _, check = request.path.strip("/").partition("/")
    checks = _CHECKS.get(root)
    if checks is None or (check and check not in checks):
        return None
    headers = {"X-Content-Type-Options": "nosniff"}
    return ServerResponse(body=b"ok", content_type="text/plain; charset=utf-8", headers=headers)


def version(request: ServerRequest) -> ServerResponse | None:
    """The version of Kubernetes that the server behaves as."""
    if request.path.rstrip("/") != "/version":
        return None
    system = f"{platform.system().lower()}/{platform.machine()}"
    git_version = f"v{KUBERNETES_VERSION}+trainwright.{__version__}"
    accept = request.headers.get("accept", "")
    made = discovery.version(accept, git_version, platform.python_version(), system, _BUILD_DATE)
    return ServerResponse(body=encode(made.document), content_type=made.content_type)


class DiscoveryPages:
    """Which resources there are."""

    def __init__(self, registry: ResourceRegistry) -> None:
        self._registry = registry
        self._made: dict[tuple[str, str, str], tuple[int, bytes, str]] = {}
        """Body and type of answers by path, Accept and Host, with the generation of the registry that they tell of."""

    def __call__(self, request: ServerRequest) -> ServerResponse | None:
        """Answer a request for discovery. Raises StatusError."""
        if request.path.strip("/").partition("/")[0] not in ("api", "apis"):
            return None
        # Clients ask for the same documents again and again.
        key = (request.path.strip("/"), request.headers.get("accept", ""), request.headers.get("host", ""))
        generation, body, content_type = self._made.get(key, (-1, b"", ""))
        if generation != self._registry.generation:
            made = discovery.discovered(key[0], discovery.groups_of(self._registry), *key[1:])
            if made is None:
                return None
            if len(self._made) >= _KEPT_ANSWERS:
                self._made.clear()  # headers are what clients like
            body, content_type = encode(made.document), made.content_type
            self._made[key] = (self._registry.generation, body, content_type)
        answer = ServerResponse(body=body, content_type=content_type)
        if "as=APIGroupDiscoveryList" in content_type:
            answer.headers["ETag"] = tag = discovery.etag(body)
            if request.headers.get("if-none-match") == tag:
                # A client replaces the headers of the answer that it keeps. With another type, kubectl takes the
                # aggregated document for the plain one and finds no resource in it.
                answer.status, answer.body = 304, b""
        return answer


class OpenAPIPages:
    """The schemas of everything that is served, which kubectl asks for before it writes."""

    def __init__(self, registry: ResourceRegistry) -> None:
        self._registry = registry
        self._made: dict[str, tuple[int, bytes]] = {}

    def __call__(self, request: ServerRequest) -> ServerResponse | None:
        """Answer a request for OpenAPI v3, and for v2 in the one form that kubectl asks for."""
        path = request.path.rstrip("/")
        if path == "/openapi/v2" and "protobuf" in request.headers.get("accept", ""):
            return ServerResponse(
                body=_NO_MODELS, content_type="application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
            )
        if path == "/openapi/v3":
            return ServerResponse.of(openapi.index(dict.fromkeys(self._versions(), str(self._registry.generation))))
        if not path.startswith("/openapi/v3/"):
            return None
        name = path.removeprefix("/openapi/v3/")
        found = self._versions().get(name)
        if found is None:
            return None
        made = self._made.get(name)
        if made is None or made[0] != self._registry.generation:
            document = openapi.document(found, KUBERNETES_VERSION.rpartition(".")[0])
            made = self._made[name] = (self._registry.generation, encode(document))
        return ServerResponse(body=made[1])

    def _versions(self) -> dict[str, list[Resource]]:
        found: dict[str, list[Resource]] = {}
        for resource in self._registry:
            found.setdefault(openapi.document_path(resource.group, resource.version), []).append(resource)
        return found


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
            stored = self._store.document("pods", route.name, route.namespace)
            pods = [stored] if stored is not None else []
        else:
            pods = self._store.documents("pods", route.namespace)
        try:
            selector = parse_label_selector(request.param("labelSelector"))
        except SelectorError as error:
            raise errors.bad_request(str(error)) from error
        items = [self._metrics(pod, used[uid_of(pod)]) for pod in pods if uid_of(pod) in used]
        if not route.name:
            found = [one for one in items if selector.matches_document(one)]
            return ServerResponse.of({**_kind("PodMetricsList"), "metadata": {}, "items": found})
        if not items:
            raise errors.not_found(GROUP, "pods", route.name)
        return ServerResponse.of({**items[0], **_kind("PodMetrics")})

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
