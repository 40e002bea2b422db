# SPDX-License-Identifier: Apache-2.0
"""A custom resource for tests of server-side apply, and short forms to apply and update it."""

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from trainwright.controller.local.apiserver.kinds.built_in import serve_built_in
from trainwright.controller.local.apiserver.kinds.definitions import served_versions
from trainwright.controller.local.apiserver.kinds.registry import Resource, ResourceRegistry
from trainwright.controller.local.apiserver.merge import fieldset
from trainwright.controller.local.apiserver.merge.fieldmanager import FieldManager
from trainwright.controller.local.types.model import Type, custom_type

Document = dict[str, Any]

TEXT: Document = {"type": "string"}
ITEMS: Document = {
    "type": "array",
    "items": {"type": "object", "properties": {"name": TEXT, "x": TEXT, "y": TEXT}},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
}
PORTS: Document = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"port": {"type": "integer"}, "protocol": {**TEXT, "default": "TCP"}, "note": TEXT},
    },
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["port", "protocol"],
}
SPEC: Document = {
    "type": "object",
    "properties": {
        "text": TEXT,
        "number": {"type": "integer"},
        "flag": {"type": "boolean"},
        "either": {"x-kubernetes-int-or-string": True},
        "when": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        "plain": {"type": "array", "items": TEXT},
        "table": {"type": "object", "additionalProperties": TEXT},
        "unit": {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "x-kubernetes-map-type": "atomic"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "inner": {
            "type": "object",
            "properties": {
                "a": TEXT,
                "b": TEXT,
                "tags": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            },
        },
        "items": ITEMS,
        "ports": PORTS,
    },
}
VERSION = "test.example/v1"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def view(spec: Document = SPEC) -> Type:
    """The type of the kind with this spec."""
    schema = {
        "type": "object",
        "properties": {"spec": spec, "status": {"type": "object", "properties": {"phase": TEXT}}},
    }
    return custom_type(schema)


def thing(spec: Document | None = None, **more: Any) -> Document:
    """A document of the kind."""
    made: Document = {"apiVersion": VERSION, "kind": "Thing", "metadata": {"name": "it"}, **more}
    return made if spec is None else {**made, "spec": spec}


class Things:
    """An object and what managers do to it, a second after the other."""

    def __init__(self, spec: Document = SPEC) -> None:
        self.use(spec)
        self.live: Document = {"apiVersion": VERSION, "kind": "Thing"}
        self.seconds = 0

    def use(self, spec: Document) -> None:
        """Go on with another schema."""
        kind = view(spec)
        resets = {"": fieldset.of(("f:status",)), "status": fieldset.of(("f:spec",), ("f:metadata",))}
        self._managers = {
            name: FieldManager(kind, VERSION, "Thing", subresource=name, reset=reset) for name, reset in resets.items()
        }

    def _manager(self, subresource: str) -> FieldManager:
        return self._managers[subresource]

    def _next(self) -> datetime:
        self.seconds += 1
        return BEGIN + timedelta(seconds=self.seconds)

    def apply(self, manager: str, spec: Any, *, force: bool = False, subresource: str = "", **more: Any) -> Document:
        """Apply a spec; the object afterwards."""
        document = thing(spec, **more)
        made = self._manager(subresource).apply(self.live, document, manager, force=force, now=self._next())
        return self._stored(made)

    def update(self, manager: str, spec: Any, *, subresource: str = "", **more: Any) -> Document:
        """Replace the spec; the object afterwards."""
        metadata = {**self.live.get("metadata", {}), **more.pop("metadata", {"name": "it"})}
        new = thing(spec, metadata=metadata, **more)
        return self._stored(self._manager(subresource).update(self.live, new, manager, now=self._next()))

    def _stored(self, made: Document) -> Document:
        self.live = {**made, "metadata": {**made["metadata"], "uid": "u"}}
        return self.live

    @property
    def owners(self) -> dict[str, Any]:
        """What each manager owns, by name."""
        return {entry.get("manager", ""): entry["fieldsV1"] for entry in self.entries}

    @property
    def entries(self) -> list[Document]:
        """The managed fields."""
        found: list[Document] = self.live["metadata"].get("managedFields", [])
        return found


def built_in() -> list[Resource]:
    """All built-in resources."""
    registry = ResourceRegistry()
    serve_built_in(registry, for_others=True)
    return list(registry)


def resource(api_version: str, kind: str) -> Resource:
    """A built-in resource."""
    return next(one for one in _built_in() if (one.api_version, one.kind) == (api_version, kind))


_built_in = cache(built_in)


def custom(group: str = "example.com", kind: str = "Widget", *, scope: str = "Namespaced", **version: Any) -> Resource:
    """What the one version of a definition serves."""
    names = {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower()}
    versions = [{"name": "v1", "served": True, "storage": True, **version}]
    (made,) = served_versions({"group": group, "names": names, "scope": scope, "versions": versions})
    return made
