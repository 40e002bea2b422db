# SPDX-License-Identifier: Apache-2.0
"""The documents of discovery: aggregated, and one per group and version.

https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api
"""

import base64
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from trainwright.controller.local.apiserver.views.discovery.resources import (
    DiscoveryGroup,
    DiscoveryResource,
    Subresource,
)
from trainwright.controller.local.apiserver.views.negotiation import Form, negotiate

Document = dict[str, Any]

AGGREGATED: Form = ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")


@dataclass(frozen=True, slots=True)
class DiscoveryDocument:
    """A document and what it is sent as.

    Attributes:
        document: to be encoded in the media type.
        media_type: `application/json` or `application/yaml`.
        content_type: the header's value, which names the form if one was asked for.
    """

    document: Document
    media_type: str
    content_type: str


def core_versions(accept: str, core: DiscoveryGroup, server_address: str) -> DiscoveryDocument:
    """`/api`: the versions of core, or all of its resources.

    Args:
        accept: the header of the request.
        core: the core group.
        server_address: host and port that clients reach the server at.

    Raises:
        NotAcceptableError: the client accepts nothing that is offered.
    """
    cidrs = [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}]
    versions: Document = {"kind": "APIVersions", "versions": list(core.versions), "serverAddressByClientCIDRs": cidrs}
    return _negotiated(accept, lambda: versions, [core])


def groups(accept: str, served: Iterable[DiscoveryGroup]) -> DiscoveryDocument:
    """`/apis`: the groups, or all of their resources. See `core_versions`."""
    named = [group for group in served if group.name]
    return _negotiated(
        accept,
        lambda: {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_versions(group) for group in named]},
        named,
    )


def group(accept: str, found: DiscoveryGroup) -> DiscoveryDocument:
    """`/apis/<group>`: the versions of a group. Raises NotAcceptableError."""
    return _plain(accept, {"kind": "APIGroup", "apiVersion": "v1", **_versions(found)})


def resources(accept: str, group_version: str, served: Iterable[DiscoveryResource]) -> DiscoveryDocument:
    """`/apis/<group>/<version>` and `/api/v1`: the resources of a version. Raises NotAcceptableError."""
    document: Document = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version}
    if "/" not in group_version:
        # Kubernetes leaves it out for core alone.
        del document["apiVersion"]
    return _plain(accept, document | {"resources": [entry for resource in served for entry in _entries(resource)]})


def version(accept: str, git_version: str, go_version: str, platform: str, build_date: str) -> DiscoveryDocument:
    """`/version`.

    Args:
        accept: the header of the request.
        git_version: such as `v1.36.3+trainwright`.
        go_version: the implementation; for a server in Python its version.
        platform: such as `linux/amd64`.
        build_date: in RFC 3339.

    Raises:
        NotAcceptableError: the client accepts nothing that is offered.
    """
    major, minor, *_ = git_version.removeprefix("v").split(".")
    document = {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": git_version,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": build_date,
        "goVersion": go_version,
        "compiler": "",
        "platform": platform,
    }
    return _plain(accept, document)


def etag(body: bytes) -> str:
    """The ETag of an encoded aggregated document; clients send it in `If-None-Match`, and are answered 304."""
    return f'"{hashlib.sha512(body).hexdigest().upper()}"'


def _plain(accept: str, document: Document) -> DiscoveryDocument:
    accepted = negotiate(accept)
    return DiscoveryDocument(document, accepted.media_type, accepted.media_type)


def _negotiated(accept: str, plain: Callable[[], Document], aggregated: Iterable[DiscoveryGroup]) -> DiscoveryDocument:
    accepted = negotiate(accept, lambda form: form == AGGREGATED)
    if accepted.form is None:
        return DiscoveryDocument(plain(), accepted.media_type, accepted.media_type)
    api_group, api_version, kind = accepted.form
    document = {
        "kind": kind,
        "apiVersion": f"{api_group}/{api_version}",
        "metadata": {},
        "items": [_aggregated(one) for one in aggregated],
    }
    content_type = f"{accepted.media_type};g={api_group};v={api_version};as={kind}"
    return DiscoveryDocument(document, accepted.media_type, content_type)


def _versions(found: DiscoveryGroup) -> Document:
    versions = [{"groupVersion": f"{found.name}/{name}", "version": name} for name in found.versions]
    return {"name": found.name, "versions": versions, "preferredVersion": versions[0]}


def _entries(resource: DiscoveryResource) -> Iterable[Document]:
    entry: Document = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
        **_names(resource),
    }
    if resource.stored:
        entry["storageVersionHash"] = _storage_version_hash(resource)
    yield entry
    for subresource in resource.subresources:
        yield {
            "name": f"{resource.plural}/{subresource.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            **({"group": subresource.group, "version": subresource.version} if subresource.group is not None else {}),
            "kind": subresource.kind or resource.kind,
            "verbs": list(subresource.verbs),
        }


def _names(resource: DiscoveryResource) -> Document:
    names = {"shortNames": resource.short_names, "categories": resource.categories}
    return {key: list(value) for key, value in names.items() if value}


def _storage_version_hash(resource: DiscoveryResource) -> str:
    group_name, _, version_name = (resource.stored_as or resource.group_version).rpartition("/")
    stored = f"{group_name}/{version_name}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()


def _aggregated(found: DiscoveryGroup) -> Document:
    versions = [
        {"version": name, "resources": [_aggregated_resource(one) for one in served], "freshness": "Current"}
        for name, served in found.versions.items()
    ]
    return {"metadata": {"name": found.name} if found.name else {}, "versions": versions}


def _aggregated_resource(resource: DiscoveryResource) -> Document:
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
            for one in resource.subresources
        ]
    return made


def _response_kind(resource: DiscoveryResource, subresource: Subresource | None = None) -> Document:
    # Empty for the group version that it stands in, but for custom resources.
    group_name, version_name = (resource.group, resource.version) if resource.custom else ("", "")
    kind = resource.kind
    if subresource is not None:
        kind = subresource.kind or kind
        if subresource.group is not None:
            group_name, version_name = subresource.group, subresource.version or ""
    return {"group": group_name, "version": version_name, "kind": kind}
