# SPDX-License-Identifier: Apache-2.0
"""Answers that are about the server and not about an object: health, version, discovery; and the metrics of pods."""

import platform
from collections.abc import Awaitable, Callable, Sequence

from trainwright import __version__
from trainwright.api import times
from trainwright.api.objects import Document, labels_of, name_of, namespace_of, uid_of
from trainwright.api.selectors import SelectorError, parse_label_selector
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.kinds.registry import Resource, ResourceRegistry
from trainwright.controller.local.apiserver.request.info import Route, ServerRequest, ServerResponse, encode, verb_of
from trainwright.controller.local.apiserver.store import ObjectStore
from trainwright.controller.local.apiserver.views import discovery, openapi
from trainwright.controller.local.podaccess import ContainerUse

_ALIVE = ("", "ping", "log", "etcd")
_CHECKS = {
    "healthz": _ALIVE,
    "livez": _ALIVE,
    "readyz": (*_ALIVE, "etcd-readiness", "informer-sync", "shutdown"),
}
"""Health checks by path. While the server answers, all of them pass."""
KUBERNETES_VERSION = "1.36.3"
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
    if check not in _CHECKS.get(root, ()):
        return None
    headers = {"X-Content-Type-Options": "nosniff"}
    return ServerResponse(body=b"ok", content_type="text/plain; charset=utf-8", headers=headers)


def version(request: ServerRequest) -> ServerResponse | None:
    if request.path.rstrip("/") != "/version":
        return None
    major, minor, _ = KUBERNETES_VERSION.split(".")
    document = {
        **dict.fromkeys(("major", "emulationMajor", "minCompatibilityMajor"), major),
        **dict.fromkeys(("minor", "emulationMinor"), minor),
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": f"v{KUBERNETES_VERSION}+trainwright.{__version__}",
        **dict.fromkeys(("gitCommit", "gitTreeState", "compiler"), ""),
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": platform.python_version(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    return ServerResponse.of(document)


class ServedDefinitions:
    """Which resources there are, and their schemas, which kubectl asks for before it writes."""

    def __init__(self, registry: ResourceRegistry) -> None:
        self._registry = registry
        self._generation = 0
        self._made: dict[tuple[str, ...], bytes | None] = {}
        """Bodies by path and headers, of one generation of the registry. Clients ask for the same again and again."""

    def __call__(self, request: ServerRequest) -> ServerResponse | None:
        path, accept = request.path.strip("/"), request.headers.get("accept", "")
        match path.split("/"):
            case ["api" | "apis", *_]:
                return self._discovery(path, accept, request)
            case ["openapi", "v2"] if "protobuf" in accept:
                media = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
                return ServerResponse(body=_NO_MODELS, content_type=media)
            case ["openapi", "v3", *_]:
                body = self._kept((path,), lambda: self._models(path.removeprefix("openapi/v3").strip("/")))
                return None if body is None else ServerResponse(body=body)
        return None

    def _kept(self, key: tuple[str, ...], make: Callable[[], Document | None]) -> bytes | None:
        if self._generation != self._registry.generation or len(self._made) >= _KEPT_ANSWERS:
            self._made.clear()  # headers are what clients like
        self._generation = self._registry.generation
        if key not in self._made:
            made = make()
            self._made[key] = None if made is None else encode(made)
        return self._made[key]

    def _discovery(self, path: str, accept: str, request: ServerRequest) -> ServerResponse | None:
        host = request.headers.get("host", "")
        groups = discovery.groups_of
        body = self._kept(
            (path, accept, host), lambda: discovery.discovered(path, groups(self._registry), accept, host)
        )
        if body is None:
            return None
        answer = ServerResponse(body=body)
        if body.startswith(discovery.AGGREGATED_BEGIN):
            answer.content_type = discovery.AGGREGATED_TYPE
            answer.headers["ETag"] = tag = discovery.etag(body)
            if request.headers.get("if-none-match") == tag:
                # A client replaces the headers of the answer that it keeps. With another type, kubectl takes the
                # aggregated document for the plain one and finds no resource in it.
                answer.status, answer.body = 304, b""
        return answer

    def _models(self, path: str) -> Document | None:
        found: dict[str, list[Resource]] = {}
        for resource in self._registry:
            found.setdefault(openapi.document_path(resource.group, resource.version), []).append(resource)
        if not path:
            return openapi.index(dict.fromkeys(found, str(self._registry.generation)))
        return openapi.document(found[path], KUBERNETES_VERSION.rpartition(".")[0]) if path in found else None


METRICS, _VERSION = "metrics.k8s.io", "v1beta1"
GPU, GPU_MEMORY = "nvidia.com/gpu", "nvidia.com/gpu-memory"


async def pod_metrics(
    store: ObjectStore,
    source: Callable[[], Awaitable[Sequence[ContainerUse]]],
    now: times.Now,
    request: ServerRequest,
    route: Route,
) -> ServerResponse:
    """The list of what pods use, in the group METRICS. Raises StatusError."""
    if (route.version, route.resource, route.name) != (_VERSION, "pods", ""):
        raise errors.no_such_resource()
    if verb_of(request, route) != "list":
        raise errors.method_not_allowed()
    try:
        selector = parse_label_selector(request.param("labelSelector"))
    except SelectorError as error:
        raise errors.bad_request(str(error)) from error
    used: dict[str, list[ContainerUse]] = {}
    for one in await source():
        used.setdefault(one.pod, []).append(one)
    pods = [pod for pod in store.documents("pods", route.namespace) if uid_of(pod) in used]
    moment = times.format_time(now())
    items = [_metrics(pod, used[uid_of(pod)], moment) for pod in pods if selector.matches_document(pod)]
    head = {"kind": "PodMetricsList", "apiVersion": f"{METRICS}/{_VERSION}", "metadata": {}}
    return ServerResponse.of({**head, "items": items})


def _metrics(pod: Document, containers: Sequence[ContainerUse], now: str) -> Document:
    metadata = {"name": name_of(pod), "namespace": namespace_of(pod), "creationTimestamp": now}
    return {
        "metadata": {**metadata, "labels": dict(labels_of(pod))},
        "timestamp": now,
        "window": "1s",
        "containers": [{"name": one.container, "usage": _usage(one)} for one in containers],
    }


def _usage(used: ContainerUse) -> dict[str, str]:
    found = {"cpu": f"{round(used.cpu * 1e9)}n", "memory": f"{used.memory // 1024}Ki"}
    if used.gpu is not None:
        found[GPU] = f"{round(used.gpu * 1000)}m"
    if used.gpu_memory is not None:
        found[GPU_MEMORY] = f"{used.gpu_memory // 1024}Ki"
    return found
