# SPDX-License-Identifier: Apache-2.0
"""Discovery: which resources there are. Pure functions from a description and the header `Accept` to a document."""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trainwright.controller.local.apiserver.kinds.registry import Resource, version_priority
from trainwright.controller.local.apiserver.schema.published.kinds import Subresource
from trainwright.controller.local.apiserver.views.negotiation import JSON, negotiate

Document = dict[str, Any]

_AGGREGATED, _GROUP = "APIGroupDiscoveryList", "apidiscovery.k8s.io"
AGGREGATED_TYPE = f"{JSON};g={_GROUP};v=v2;as={_AGGREGATED}"
"""The header `Content-Type` of the form in which clients ask for all groups at once."""
AGGREGATED_BEGIN = f'{{"kind":"{_AGGREGATED}"'.encode()
"""Of a body in that form."""


@dataclass(frozen=True, slots=True)
class DiscoveryGroup:
    """A group, unnamed for core, with the resources of its versions, sorted by plural; the preferred version first."""

    name: str
    versions: Mapping[str, tuple[Resource, ...]]

    @property
    def preferred(self) -> str:
        """The version that clients take unless they ask for another."""
        return next(iter(self.versions))


def groups_of(resources: Iterable[Resource]) -> tuple[DiscoveryGroup, ...]:
    """Resources by group and version: Kubernetes' own groups as they come, then the others by name.

    Versions of custom resources are ordered by priority, those of built-in ones as they come.
    """
    found: dict[str, dict[str, list[Resource]]] = {}
    for resource in resources:
        found.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
    custom = {
        name: all(one.custom for served in versions.values() for one in served) for name, versions in found.items()
    }
    names = sorted(found, key=lambda name: (custom[name], name if custom[name] else ""))
    return tuple(DiscoveryGroup(name, _ordered(found[name], custom=custom[name])) for name in names)


def _ordered(found: Mapping[str, list[Resource]], *, custom: bool) -> dict[str, tuple[Resource, ...]]:
    order = sorted(found, key=version_priority) if custom else found
    return {version: tuple(sorted(found[version], key=lambda resource: resource.plural)) for version in order}


def discovered(path: str, served: Iterable[DiscoveryGroup], accept: str, server_address: str) -> Document | None:
    """The document at a path below `/api` or `/apis`; None where there is none. Raises StatusError by `Accept`.

    `server_address` is where clients reach the server.
    """
    groups = {one.name: one for one in served}
    root, *rest = [part for part in path.split("/") if part]
    if not rest:
        named = [one for one in groups.values() if bool(one.name) == (root == "apis")]
        if negotiate(accept, (_AGGREGATED,), _GROUP, "v2"):
            items = [_aggregated(one) for one in named]
            return {"kind": _AGGREGATED, "apiVersion": f"{_GROUP}/v2", "metadata": {}, "items": items}
        if root == "apis":
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_versions(one) for one in named]}
        cidrs = [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}]
        return {"kind": "APIVersions", "versions": list(named[0].versions), "serverAddressByClientCIDRs": cidrs}
    negotiate(accept, ())
    if root == "api":
        rest = ["", *rest]
    group = groups.get(rest[0])
    if group is None or len(rest) > 2 or (len(rest) == 2 and rest[1] not in group.versions):
        return None
    if len(rest) == 1:
        return {"kind": "APIGroup", "apiVersion": "v1", **_versions(group)}
    # Kubernetes leaves the apiVersion out for core alone.
    version = {"apiVersion": "v1", "groupVersion": "/".join(rest)} if rest[0] else {"groupVersion": rest[1]}
    resources = [entry for resource in group.versions[rest[1]] for entry in _entries(resource)]
    return {"kind": "APIResourceList", **version, "resources": resources}


def etag(body: bytes) -> str:
    """The ETag of an encoded aggregated document; clients send it in `If-None-Match`, and are answered 304."""
    return f'"{hashlib.sha512(body).hexdigest().upper()}"'


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
    for _, sub in sorted(resource.subresources.items()):
        group = {"group": sub.group, "version": sub.version} if sub.version else {}
        kind = {"kind": sub.kind or resource.kind, "verbs": list(sub.verbs)}
        name = f"{resource.plural}/{sub.name}"
        yield {"name": name, "singularName": "", "namespaced": resource.namespaced, **group, **kind}


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
