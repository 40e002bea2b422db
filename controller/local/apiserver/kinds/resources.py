# SPDX-License-Identifier: Apache-2.0
"""Which resources are served, in which versions, and by which rules."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.strategy import Strategy
from trainwright.controller.local.apiserver.merge.apply import FieldManager
from trainwright.controller.local.apiserver.views.tables import TableFormat

Conversion: TypeAlias = Callable[[Document], Document]
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """A further endpoint of an object."""

    name: str
    kind: str
    """Kind of its bodies."""
    group: str = ""
    """Group of that kind, where it is not that of the resource."""
    version: str = ""
    verbs: tuple[str, ...] = ("get", "patch", "update")
    structs: Callable[[Document], list[str]] | None = None
    """Takes unknown fields out of bodies of a kind in another group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType:
    """A resource: what its versions have in common."""

    group: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    storage_version: str
    strategy: Strategy
    """Of the storage version; versions of custom resources have one each (`ServedResource.strategy`)."""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    collection: str = ""
    """Where its objects are stored. Two resources may share one."""
    custom: bool = False
    """Whether a CustomResourceDefinition defines it."""
    stored_as: str = ""
    """The apiVersion that discovery names as that of stored objects, where it is not that of `storage_version`."""

    @property
    def stored_in(self) -> str:
        """The collection of its objects."""
        return self.collection or (f"{self.plural}.{self.group}" if self.group else self.plural)

    @property
    def listed_as(self) -> str:
        """Kind of its lists."""
        return self.list_kind or f"{self.kind}List"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedResource:
    """One version of a resource."""

    type: ResourceType
    version: str
    strategy: Strategy
    managers: Mapping[str, FieldManager]
    """By subresource; the main endpoint is ``."""
    table: TableFormat
    """How `kubectl get` shows the objects."""
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    model: str = ""
    """Name of the published model, by which strategic merge patches are read; custom resources have none."""
    selectable: tuple[str, ...] = ()
    """JSON paths of a custom resource that field selectors may name."""
    warning: str = ""
    """What every answer warns of: a deprecated version."""
    ending: bool = False
    """Whether the definition of a custom resource is being deleted: then nothing is created."""
    schema: Mapping[str, Any] | None = None
    """The OpenAPI schema of a custom resource."""
    structs: Callable[[Document], list[str]] | None = None
    """Takes unknown fields out of a built-in kind."""
    to_storage: Conversion | None = None
    """Makes the stored form of an object, where it differs in more than the version."""
    from_storage: Conversion | None = None
    """Makes this version's form of a stored object."""

    @property
    def api_version(self) -> str:
        """In wire form."""
        return f"{self.type.group}/{self.version}" if self.type.group else self.version

    def named(self, document: Document) -> Document:
        """A stored document in this version."""
        if self.from_storage is not None:
            return self.from_storage(document)
        if document["apiVersion"] != self.api_version or document["kind"] != self.type.kind:
            return {**document, "apiVersion": self.api_version, "kind": self.type.kind}
        return document

    def decode(self, document: Document) -> list[str]:
        """Take out of a body what the kind does not know. Returns what is warned of.

        Raises:
            DecodeError: something is of the wrong type.
        """
        metadata = document.get("metadata")
        reset = isinstance(metadata, dict) and metadata.get("managedFields") == []
        found = self.strategy.drop_unknown(document) if self.structs is None else self.structs(document)
        if reset:
            # Decoding drops an empty list, but it resets the managed fields. An empty entry does the same.
            document["metadata"]["managedFields"] = [{}]
        return found

    def stored(self, document: Document) -> Document:
        """A document of this version as it is stored."""
        return document if self.to_storage is None else self.to_storage(document)


class ResourceRegistry:
    """All resources that are served."""

    def __init__(self) -> None:
        self._served: dict[tuple[str, str, str], ServedResource] = {}
        self._versions: dict[tuple[str, str], list[ServedResource]] = {}
        self.generation = 0
        """Rises with each change; what is made from the registry is kept by it."""

    def add(self, served: ServedResource) -> None:
        """Serve a version, instead of what was served there before."""
        self._served[served.type.group, served.version, served.type.plural] = served
        self._changed(served.type.group, served.type.plural)

    def refuse_creations(self, group: str, plural: str) -> None:
        """Let no more objects of a resource be created: its definition is being deleted."""
        for served in list(self._served.values()):
            if (served.type.group, served.type.plural) == (group, plural) and not served.ending:
                self.add(replace(served, ending=True))

    def remove(self, group: str, plural: str) -> None:
        """Serve a resource no more, in none of its versions."""
        for key in [key for key in self._served if (key[0], key[2]) == (group, plural)]:
            del self._served[key]
        self._changed(group, plural)

    def _changed(self, group: str, plural: str) -> None:
        found = [one for key, one in self._served.items() if (key[0], key[2]) == (group, plural)]
        self._versions[group, plural] = found
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> ServedResource | None:
        """One version of a resource."""
        return self._served.get((group, version, plural))

    def versions_of(self, group: str, plural: str) -> list[ServedResource]:
        """All versions of a resource."""
        return self._versions.get((group, plural), [])

    def has_built_in(self, group: str) -> bool:
        """Whether a built-in kind is served in that group."""
        return any(key[0] == group and not served.type.custom for key, served in self._served.items())

    def has_group(self, group: str) -> bool:
        """Whether anything is served in that group."""
        return any(group == key[0] for key in self._served)

    def __iter__(self) -> Iterator[ServedResource]:
        return iter(self._served.values())
