# SPDX-License-Identifier: Apache-2.0
"""Objects read and written as the administrator, without a kubectl for each, as tests look again and again.

Kinds are named as for kubectl: `pods`, `trainjob`, `events.events.k8s.io`. What is served is asked for once, and again
when a kind is not known.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from trainwright.controller.runtime.testing.errors import ControlPlaneError
from trainwright.controller.runtime.testing.posting import Poster
from trainwright.controller.runtime.testing.waiting import GaveUp, eventually_sync, is_empty

_STRICT = "fieldValidation=Strict"
_STYLES = {style: f"application/{style}-patch+json" for style in ("merge", "json")} | {
    "strategic": "application/strategic-merge-patch+json"
}
_GONE_SECONDS = 60.0
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True)
class _Served:
    group: str
    version: str
    kind: str
    plural: str
    singular: str
    short: tuple[str, ...]
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def is_called(self, name: str) -> bool:
        plain, _, group = name.lower().partition(".")
        known = {self.plural, self.singular, self.kind.lower(), *self.short}
        return plain in known and group in ("", self.group)

    def path(self, namespace: str, name: str = "") -> str:
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{quote(namespace)}" if namespace and self.namespaced else ""
        return f"{root}{place}/{self.plural}" + (f"/{quote(name)}" if name else "")


class StoredObjects:
    """The objects of one control plane. See `ControlPlane.stored`.

    All methods raise ControlPlaneError: the kind is not served, or the API server refuses or cannot be reached.
    """

    def __init__(self, url: str, authority: bytes, token: str) -> None:
        """`authority` is the API server's, as PEM, `token` the administrator's."""
        self._poster = Poster(url, authority, token)
        self._served: list[_Served] = []

    def get(self, kind: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        """An object, or None if there is none."""
        return self._poster.read(self._called(kind).path(namespace, name))

    def list(self, kind: str, namespace: str = "") -> "list[dict[str, Any]]":
        """The objects of a kind in a namespace, or all of them."""
        served = self._called(kind)
        found = self._poster.read(served.path(namespace)) or {}
        about = {"apiVersion": served.api_version, "kind": served.kind}  # items of lists lack it
        return [about | item for item in found.get("items") or ()]

    def groups(self) -> set[str]:
        """The API groups that are served at this moment."""
        return {group["name"] for group in (self._poster.read("/apis") or {}).get("groups") or ()}

    def apply(self, *documents: Mapping[str, Any], field_manager: str) -> None:
        """Server-side apply; fields that a kind lacks are refused. What can be applied is, also after a refusal."""
        refused = []
        for document in documents:
            try:
                path = self._kind_of(document).path(_namespace(document), document["metadata"]["name"])
                self._poster.apply(f"{path}?fieldManager={quote(field_manager)}&{_STRICT}", document)
            except ControlPlaneError as error:
                refused.append(str(error))
        if refused:
            raise ControlPlaneError("; ".join(refused))

    def create(self, document: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Create an object; fields that its kind lacks are refused. Returns what is stored."""
        path = self._kind_of(document).path(_namespace(document))
        return self._poster.create(f"{path}?{_STRICT}" + ("&dryRun=All" if dry_run else ""), document)

    def patch(
        self, kind: str, name: str, body: object, namespace: str = "", *, style: str = "merge", subresource: str = ""
    ) -> dict[str, Any]:
        """Change an object; returns what is stored. `style` is `merge`, `strategic` or `json`."""
        path = self._called(kind).path(namespace, name) + (f"/{subresource}" if subresource else "")
        return self._poster.patch(f"{path}?{_STRICT}", body, _STYLES[style])

    def delete(
        self, kind: str, name: str, namespace: str = "", *, cascade: str = "background", wait: bool = True
    ) -> None:
        """Delete an object, and wait until finalizers have let it go or another one has its name. None may be there.

        `cascade` is `background`, `foreground` or `orphan`. Also raises if the object is still there after a minute.
        """
        path = self._called(kind).path(namespace, name)
        before = self._poster.read(path)
        if before is None or not self._poster.delete(path, {"propagationPolicy": cascade.capitalize()}) or not wait:
            return

        def left() -> Mapping[str, Any] | None:
            found = self._poster.read(path)
            return found if found is not None and found["metadata"]["uid"] == before["metadata"]["uid"] else None

        try:
            eventually_sync(left, is_empty, seconds=_GONE_SECONDS)
        except GaveUp as error:
            holders = error.last["metadata"].get("finalizers")
            raise ControlPlaneError(
                f"{kind} {name} is still there {_GONE_SECONDS:g} s after its deletion; finalizers: {holders}"
            ) from error

    def _kind_of(self, document: Mapping[str, Any]) -> _Served:
        api_version, kind = document["apiVersion"], document["kind"]
        return self._find(
            f"{kind} of {api_version}", lambda served: (served.api_version, served.kind) == (api_version, kind)
        )

    def _called(self, kind: str) -> _Served:
        return self._find(kind, lambda served: served.is_called(kind))

    def _find(self, what: str, is_wanted: Callable[[_Served], bool]) -> _Served:
        for attempt in range(2):
            # A definition may be newer than what was asked for.
            if attempt or not self._served:
                self._served = [*self._ask()]
            for served in self._served:
                if is_wanted(served):
                    return served
        raise ControlPlaneError(f"the API server does not serve {what}")

    def _ask(self) -> Iterator[_Served]:
        for root in ("/api", "/apis"):
            for group in (self._poster.read(root, accept=_DISCOVERY) or {}).get("items") or ():
                for version in group["versions"]:
                    yield from _served(group["metadata"].get("name", ""), version)


def _namespace(document: Mapping[str, Any]) -> str:
    return str(document["metadata"].get("namespace") or "default")


def _served(group: str, version: Mapping[str, Any]) -> Iterator[_Served]:
    for one in version.get("resources") or ():
        # What has subresources alone has no kind.
        if kind := (one.get("responseKind") or {}).get("kind"):
            yield _Served(
                group=group,
                version=version["version"],
                kind=kind,
                plural=one["resource"],
                singular=one.get("singularResource", ""),
                short=tuple(one.get("shortNames") or ()),
                namespaced=one["scope"] == "Namespaced",
            )
