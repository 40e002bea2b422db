# SPDX-License-Identifier: Apache-2.0
"""Discovery: which resources there are. Pure functions from a description and the header `Accept` to a document."""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from trainwright.controller.local.apiserver.kinds.registry import Resource, version_priority
from trainwright.controller.local.apiserver.schema.published.kinds import Subresource
from trainwright.controller.local.apiserver.views.negotiation import JSON, YAML, Form, negotiate

Document = dict[str, Any]

AGGREGATED: Form = ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")


@dataclass(frozen=True, slots=True)
class DiscoveryGroup:
    """A group, unnamed for core, with the resources of its versions, sorted by plural; the preferred version first."""

    name: str
    versions: Mapping[str, tuple[Resource, ...]]

    @property
    def preferred(self) -> str:
        """The version that clients take unless they ask for another."""
        return next(iter(self.versions))


_ORDER = (
    *("", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io"),
    *("autoscaling", "batch", "certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io"),
    *("storage.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io"),
    *("coordination.k8s.io", "node.k8s.io", "discovery.k8s.io", "resource.k8s.io", "flowcontrol.apiserver.k8s.io"),
)


def groups_of(resources: Iterable[Resource]) -> tuple[DiscoveryGroup, ...]:
    """Resources by group and version: Kubernetes' own groups in its order, then the others by name.

    Versions of custom resources are ordered by priority, those of built-in ones as they come.
    """
    found: dict[str, dict[str, list[Resource]]] = {}
    for resource in resources:
        found.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
    names = sorted(found, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))
    return tuple(DiscoveryGroup(name, _ordered_versions(found[name])) for name in names)


def _ordered_versions(found: Mapping[str, list[Resource]]) -> dict[str, tuple[Resource, ...]]:
    custom = all(resource.custom for resources in found.values() for resource in resources)
    order = sorted(found, key=version_priority) if custom else found
    return {version: tuple(sorted(found[version], key=lambda resource: resource.plural)) for version in order}


class DiscoveryDocument(NamedTuple):
    """A document and the header `Content-Type`, which names the form if one was asked for."""

    document: Document
    content_type: str


def discovered(
    path: str, served: Iterable[DiscoveryGroup], accept: str, server_address: str
) -> DiscoveryDocument | None:
    """The document at a path below `/api` or `/apis`; None where there is none. Raises StatusError by `Accept`.

    `server_address` is where clients reach the server.
    """
    groups = {one.name: one for one in served}
    match [part for part in path.split("/") if part]:
        case ["api"]:
            cidrs = [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}]
            core = {"kind": "APIVersions", "versions": list(groups[""].versions), "serverAddressByClientCIDRs": cidrs}
            return _negotiated(accept, core, [groups[""]])
        case ["apis"]:
            named = [one for one in groups.values() if one.name]
            plain = {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_versions(one) for one in named]}
            return _negotiated(accept, plain, named)
        case ["apis", name] if name in groups:
            return _plain(accept, {"kind": "APIGroup", "apiVersion": "v1", **_versions(groups[name])})
        case ["api", version] if "" in groups and version in groups[""].versions:
            # Kubernetes leaves the apiVersion out for core alone.
            listed = [entry for one in groups[""].versions[version] for entry in _entries(one)]
            return _plain(accept, {"kind": "APIResourceList", "groupVersion": version, "resources": listed})
        case ["apis", name, version] if name in groups and version in groups[name].versions:
            listed = [entry for one in groups[name].versions[version] for entry in _entries(one)]
            head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{name}/{version}"}
            return _plain(accept, {**head, "resources": listed})
    return None


def version(accept: str, git_version: str, go_version: str, platform: str, build_date: str) -> DiscoveryDocument:
    """`/version`, with what the build says. Raises StatusError where the client accepts nothing that is offered."""
    major, minor, *_ = git_version.removeprefix("v").split(".")
    document = {
        **dict.fromkeys(("major", "emulationMajor", "minCompatibilityMajor"), major),
        **dict.fromkeys(("minor", "emulationMinor"), minor),
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": git_version,
        **dict.fromkeys(("gitCommit", "gitTreeState", "compiler"), ""),
        "buildDate": build_date,
        "goVersion": go_version,
        "platform": platform,
    }
    return _plain(accept, document)


def etag(body: bytes) -> str:
    """The ETag of an encoded aggregated document; clients send it in `If-None-Match`, and are answered 304."""
    return f'"{hashlib.sha512(body).hexdigest().upper()}"'


def _plain(accept: str, document: Document) -> DiscoveryDocument:
    return DiscoveryDocument(document, YAML if negotiate(accept).yaml else JSON)


def _negotiated(accept: str, plain: Document, aggregated: Iterable[DiscoveryGroup]) -> DiscoveryDocument:
    accepted = negotiate(accept, (AGGREGATED,))
    media = YAML if accepted.yaml else JSON
    if not accepted.kind:
        return DiscoveryDocument(plain, media)
    group, version, kind = AGGREGATED
    items = [_aggregated(one) for one in aggregated]
    document = {"kind": kind, "apiVersion": f"{group}/{version}", "metadata": {}, "items": items}
    return DiscoveryDocument(document, f"{media};g={group};v={version};as={kind}")


def _versions(found: DiscoveryGroup) -> Document:
    versions = [{"groupVersion": f"{found.name}/{name}", "version": name} for name in found.versions]
    return {"name": found.name, "versions": versions, "preferredVersion": versions[0]}


def _entries(resource: Resource) -> Iterable[Document]:
    entry: Document = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
        **_names(resource),
    }
    if resource.stores:
        entry["storageVersionHash"] = _storage_version_hash(resource)
    yield entry
    for _, subresource in sorted(resource.subresources.items()):
        yield {
            "name": f"{resource.plural}/{subresource.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            **({"group": subresource.group, "version": subresource.version} if subresource.version else {}),
            "kind": subresource.kind or resource.kind,
            "verbs": list(subresource.verbs),
        }


def _names(resource: Resource) -> Document:
    names = {"shortNames": resource.short_names, "categories": resource.categories}
    return {key: list(value) for key, value in names.items() if value}


def _storage_version_hash(resource: Resource) -> str:
    group_name, _, version_name = (resource.stored_as or resource.storage_api_version).rpartition("/")
    stored = f"{group_name}/{version_name}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()


def _aggregated(found: DiscoveryGroup) -> Document:
    versions = [
        {"version": name, "resources": [_aggregated_resource(one) for one in served], "freshness": "Current"}
        for name, served in found.versions.items()
    ]
    return {"metadata": {"name": found.name} if found.name else {}, "versions": versions}


def _aggregated_resource(resource: Resource) -> Document:
    made: Document = {
        "resource": resource.plural,
        "responseKind": _response_kind(resource),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
        **_names(resource),
    }
    if resource.subresources:
        made["subresources"] = [
            {"subresource": one.name, "responseKind": _response_kind(resource, one), "verbs": list(one.verbs)}
            for _, one in sorted(resource.subresources.items())
        ]
    return made


def _response_kind(resource: Resource, subresource: Subresource | None = None) -> Document:
    # Empty for the group version that it stands in, but for custom resources.
    group_name, version_name = (resource.group, resource.version) if resource.custom else ("", "")
    kind = resource.kind
    if subresource is not None:
        kind = subresource.kind or kind
        if subresource.version:
            group_name, version_name = subresource.group, subresource.version
    return {"group": group_name, "version": version_name, "kind": kind}
