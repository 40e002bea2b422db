# SPDX-License-Identifier: Apache-2.0
"""Finds the kinds that a server has and their resources: REST mapping for kinds given by name.

Answers are cached. A kind that is not cached is looked up at the server again, so a CRD that was just installed is
found. A group version that is gone is dropped.
"""

from typing import Any

import msgspec

from trainwright.api.base import Resource
from trainwright.api.objects import Document
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import ConfigurationError, NotFound

_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
)


class _Listed(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = False


class _ResourceList(msgspec.Struct):
    resources: list[_Listed] = []


class Discovery:
    """Looks up kinds through a client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._versions: dict[str, dict[str, Resource]] = {}
        self._names: dict[str, list[Resource]] | None = None

    async def resource(self, api_version: str, kind: str) -> Resource:
        """The resource of an `apiVersion` and `kind`. Raises NotFound if the server does not have it."""
        known = self._versions.get(api_version, {}).get(kind)
        if known is None:
            self._versions.pop(api_version, None)
            known = (await self._fetch(api_version)).get(kind)
        if known is None:
            raise NotFound(f"the server has no {kind} in {api_version}")
        return known

    async def resource_of(self, document: Document) -> Resource:
        """The resource of a document. Raises ConfigurationError if it has no apiVersion or kind."""
        api_version, kind = document.get("apiVersion"), document.get("kind")
        if not api_version or not kind:
            raise ConfigurationError("a document needs apiVersion and kind")
        return await self.resource(str(api_version), str(kind))

    async def preferred(self, group: str, kind: str) -> Resource | None:
        """The kind in the version that the server prefers; None if it does not serve the kind.

        Answered from one look at all kinds of the server: a definition that was installed since is not seen.
        """
        candidates = (await self._all(fresh=False)).get(kind.lower(), ())
        return next((one for one in candidates if one.group == group and one.kind == kind), None)

    async def named(self, name: str) -> Resource:
        """The kind that a user names: plural, singular, short name or kind, optionally with `.group`, in any case.

        The version is the server's preferred one. Raises NotFound, or ConfigurationError with the candidates if several
        groups have that name.
        """
        for fresh in (False, True):
            found = self._match(await self._all(fresh=fresh), name.lower())
            if found:
                break
        else:
            raise NotFound(f"the server has no kind named {name!r}")
        if len(found) > 1:
            several = ", ".join(sorted(f"{r.plural}.{r.group}".rstrip(".") for r in found))
            raise ConfigurationError(f"{name!r} is ambiguous: use one of {several}")
        return found[0]

    def _match(self, names: dict[str, list[Resource]], name: str) -> list[Resource]:
        if name in names:
            found = names[name]
            core = [r for r in found if not r.group]
            return core or found
        short, _, group = name.partition(".")
        return [r for r in names.get(short, ()) if group and r.group == group]

    async def _fetch(self, api_version: str) -> dict[str, Resource]:
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{api_version}" if group else f"/api/{version}"
        response = await self._client.send(Request("GET", path, {}, {"Accept": "application/json"}))
        listed = msgspec.json.decode(response.body, type=_ResourceList).resources
        kinds = {
            one.kind: Resource(group=group, version=version, kind=one.kind, plural=one.name, namespaced=one.namespaced)
            for one in listed
            if "/" not in one.name
        }
        self._versions[api_version] = kinds
        return kinds

    async def _all(self, *, fresh: bool) -> dict[str, list[Resource]]:
        if self._names is not None and not fresh:
            return self._names
        names: dict[str, list[Resource]] = {}
        for resource, one in (await self.served()).items():
            shorts = one.get("shortNames") or ()
            for word in {resource.plural, resource.kind.lower(), one.get("singularResource") or "", *shorts} - {""}:
                names.setdefault(word, []).append(resource)
        self._names = names
        return names

    async def served(self) -> dict[Resource, dict[str, Any]]:
        """Every kind of the server in its preferred version, and what discovery says of it, such as its `verbs`."""
        found: dict[Resource, dict[str, Any]] = {}
        for path in ("/api", "/apis"):
            response = await self._client.send(Request("GET", path, {}, {"Accept": _AGGREGATED}))
            for group in msgspec.json.decode(response.body).get("items") or ():
                seen = {""}
                for version in group.get("versions") or ():  # the preferred version comes first
                    for one in version.get("resources") or ():
                        kind = (one.get("responseKind") or {}).get("kind", "")
                        if kind not in seen:
                            seen.add(kind)
                            resource = Resource(
                                group=(group.get("metadata") or {}).get("name", ""),
                                version=version["version"],
                                kind=kind,
                                plural=one["resource"],
                                namespaced=one.get("scope") == "Namespaced",
                            )
                            found[resource] = one
        return found
