# SPDX-License-Identifier: Apache-2.0
"""Answers that are about the server and not about an object: health, version, discovery."""

from trainwright import __version__
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.requests import Answer, ServerRequest
from trainwright.controller.local.apiserver.resources import Registry, ServedResource

_HEALTH = ("/healthz", "/livez", "/readyz")
KUBERNETES_VERSION = "1.36.3"


def health(request: ServerRequest) -> Answer | None:
    """`ok` for the health paths, and those of single checks below them."""
    if request.path.rstrip("/").startswith(_HEALTH):
        return Answer(body=b"ok", content_type="text/plain; charset=utf-8")
    return None


def version(request: ServerRequest) -> Answer | None:
    """The version of Kubernetes that the server behaves as."""
    if request.path.rstrip("/") != "/version":
        return None
    major, minor, _ = KUBERNETES_VERSION.split(".")
    return Answer.of(
        {
            "major": major,
            "minor": minor,
            "gitVersion": f"v{KUBERNETES_VERSION}+trainwright.{__version__}",
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": "cpython",
            "platform": "",
        }
    )


class DiscoveryPages:
    """What is served, in the legacy form."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def __call__(self, request: ServerRequest) -> Answer | None:
        """Answer a request for discovery."""
        parts = [part for part in request.path.split("/") if part]
        if parts == ["api"]:
            return Answer.of({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
        if parts == ["apis"]:
            groups = dict.fromkeys(served.type.group for served in self._registry if served.type.group)
            return Answer.of(
                {"kind": "APIGroupList", "apiVersion": "v1", "groups": [self._group(name) for name in groups]}
            )
        if parts[:1] == ["api"] and len(parts) == 2:
            return self._resources("", parts[1])
        if parts[:1] == ["apis"] and len(parts) == 2 and self._registry.has_group(parts[1]):
            return Answer.of({"kind": "APIGroup", "apiVersion": "v1", **self._group(parts[1])})
        if parts[:1] == ["apis"] and len(parts) == 3:
            return self._resources(parts[1], parts[2])
        return None

    def _group(self, name: str) -> Document:
        versions = dict.fromkeys(served.version for served in self._registry if served.type.group == name)
        entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
        return {"name": name, "versions": entries, "preferredVersion": entries[0]}

    def _resources(self, group: str, version_: str) -> Answer | None:
        if not self._registry.has_version(group, version_):
            return None
        entries = [
            entry
            for served in self._registry
            if (served.type.group, served.version) == (group, version_)
            for entry in _entries(served)
        ]
        name = f"{group}/{version_}" if group else version_
        return Answer.of({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": entries})


def _entries(served: ServedResource) -> list[Document]:
    kind = served.type
    main: Document = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(served.verbs),
    }
    if kind.short_names:
        main["shortNames"] = list(kind.short_names)
    if kind.categories:
        main["categories"] = list(kind.categories)
    subs = [
        {
            "name": f"{kind.plural}/{sub.name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": sub.kind,
            "verbs": list(sub.verbs),
        }
        for sub in served.subresources.values()
    ]
    return [main, *subs]
