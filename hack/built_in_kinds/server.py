# SPDX-License-Identifier: Apache-2.0
"""What the server says of its kinds by itself, and requests to it."""

import base64
import hashlib
import json
import re
from typing import Any

from trainwright.controller.local.apiserver.schema.published import models_by_kind
from trainwright.controller.local.apiserver.schema.published.kinds import RecordedKind, RecordedSubresource
from trainwright.controller.runtime import HTTPTransport
from trainwright.controller.runtime.client.transport import Request

Document = dict[str, Any]

_VERSION = re.compile(r"v\d+")
_NOT_SERVED = frozenset({"ComponentStatus", "CustomResourceDefinition"})
"""The first is no stored kind; the second has a strategy of its own."""


class RealServer:
    def __init__(self, transport: HTTPTransport) -> None:
        self._transport = transport
        self.warnings: tuple[str, ...] = ()
        """Of the last answer."""

    async def ask(
        self, method: str, path: str, body: Document | None = None, accept: str = "application/json", **query: str
    ) -> tuple[int, Document]:
        """One request: code and body of the answer."""
        headers = {"Accept": accept, "Content-Type": "application/json"}
        payload = b"" if body is None else json.dumps(body).encode()
        answer = await self._transport.send(Request(method, path, query, headers, payload))
        self.warnings = tuple(answer.warnings)
        decoded = json.loads(answer.body) if answer.body[:1] == b"{" else {}
        return answer.status, decoded

    async def good(self, method: str, path: str, body: Document | None = None, **more: str) -> Document:
        """One request that must succeed."""
        status, answer = await self.ask(method, path, body, **more)
        if status >= 300:
            raise SystemExit(f"{method} {path}: {answer.get('message')}")
        return answer


async def discovered(server: RealServer) -> list[RecordedKind]:
    """All stored kinds in the versions that are served by default."""
    found: list[RecordedKind] = []
    groups = [("", ["v1"])]
    for group in (await server.good("GET", "/apis"))["groups"]:
        groups += [(group["name"], [one["version"] for one in group["versions"]])]
    for group, versions in groups:
        for version in filter(_VERSION.fullmatch, versions):
            root = f"/apis/{group}/{version}" if group else f"/api/{version}"
            if (group, version) != ("", "v1") and not models_of(group, version):
                continue
            resources = (await server.good("GET", root))["resources"]
            stored = [one for one in resources if "/" not in one["name"] and "list" in one["verbs"]]
            found += [_kind(group, version, one, resources) for one in stored if one["kind"] not in _NOT_SERVED]
    return found


def models_of(group: str, version: str) -> list[str]:
    """Published models of a group version."""
    wanted = f"{group}/{version}" if group else version
    return [name for (known, _), name in models_by_kind().items() if known == wanted and name.startswith("io.k8s.")]


def _stored_as(api_version: str, one: Document) -> str:
    """The apiVersion that objects are stored in, which only a hash tells; empty for their own."""
    group = api_version.rpartition("/")[0]
    versions = ("v1", "v2", "v1beta1", "v1beta2", "v1beta3", "v1alpha1", "v1alpha2", "v1alpha3")
    for candidate in (api_version, *(f"{group}/{version}" for version in versions), "v1"):
        stored_group, _, version = candidate.rpartition("/")
        digest = hashlib.sha256(f"{stored_group}/{version}/{one['kind']}".encode()).digest()[:8]
        if base64.b64encode(digest).decode() == one["storageVersionHash"]:
            return "" if candidate == api_version else candidate
    raise SystemExit(f"{api_version} {one['kind']}: stored in a version that is not known")


def _kind(group: str, version: str, one: Document, resources: list[Document]) -> RecordedKind:
    below = [sub for sub in resources if sub["name"].startswith(f"{one['name']}/")]
    api_version = f"{group}/{version}" if group else version
    return RecordedKind(
        group=group,
        version=version,
        kind=one["kind"],
        plural=one["name"],
        singular=one["singularName"],
        namespaced=one["namespaced"],
        verbs=tuple(one["verbs"]),
        model=models_by_kind()[api_version, one["kind"]],
        stored_as=_stored_as(api_version, one),
        short_names=tuple(one.get("shortNames", ())),
        categories=tuple(one.get("categories", ())),
        subresources=tuple(
            RecordedSubresource(
                sub["name"].partition("/")[2],
                sub["kind"],
                tuple(sub["verbs"]),
                sub.get("group", ""),
                sub.get("version", ""),
            )
            for sub in below
        ),
    )
