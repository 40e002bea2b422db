# SPDX-License-Identifier: Apache-2.0
"""What is served: one row per resource and version. Serving, discovery, OpenAPI and tables read it.

Begin with `Resource`. Rows of built-in kinds are made of `kinds.json` (`builtin/built_in.py`), those of custom kinds of
their CustomResourceDefinition (`custom/definitions.py`).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.conversion import WebhookConversion
from trainwright.controller.local.apiserver.kinds.custom import unknown_field
from trainwright.controller.local.apiserver.kinds.strategy import Strategy
from trainwright.controller.local.apiserver.merge.fieldmanager import FieldManager
from trainwright.controller.local.apiserver.schema.published.kinds import Column, Subresource
from trainwright.controller.local.types.go_json import decode
from trainwright.controller.local.types.model import builtin, models_by_kind

Conversion: TypeAlias = Callable[[Document], Document]
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
"""The verbs of most built-in resources."""
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""The verbs of custom resources, in the order in which discovery lists them."""

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STABILITY = {None: 0, "beta": 1, "alpha": 2}


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a custom resource says how many replicas it wants and has: dotted paths, without the first dot."""

    spec: str
    status: str
    selector: str
    """Of a selector as text; empty if there is none."""


# Compared by identity: what is made of a row, such as its table, is kept by it.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resource:
    """One version of a resource."""

    group: str
    """Empty for core."""
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    strategy: Strategy
    managers: Mapping[str, FieldManager] = field(default_factory=dict)
    """By subresource; the main endpoint is ``."""
    columns: tuple[Column, ...] = ()
    """What `kubectl get` shows of the objects."""
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    scale: ScalePaths | None = None
    """Of a custom resource that can be scaled."""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage_version: str = ""
    """The version that objects are stored in; empty for this one."""
    collection: str = ""
    """Where its objects are stored. Two resources may share one."""
    stored_as: str = ""
    """The apiVersion that discovery names as that of stored objects, where it is not that of `storage_version`."""
    model: str = ""
    """Name of the published model of a built-in kind; custom resources have none."""
    custom: bool = False
    """Whether a CustomResourceDefinition defines it."""
    schema: Mapping[str, Any] | None = None
    """The OpenAPI schema of a custom resource."""
    selectable: tuple[str, ...] = ()
    """Fields that selectors may name, beside name and namespace."""
    warning: str = ""
    """What every answer warns of: a deprecated version."""
    ending: bool = False
    """Whether the definition of a custom resource is being deleted: then nothing is created."""
    to_storage: Conversion | None = None
    """Makes the stored form of an object, where it differs in more than the version."""
    from_storage: Conversion | None = None
    """Makes this version's form of a stored object."""
    conversion: WebhookConversion | None = None
    """Of a custom resource whose versions a webhook converts: it is asked before either of them is called."""

    @property
    def api_version(self) -> str:
        """In wire form, such as `batch/v1`, or `v1` for core."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def storage_api_version(self) -> str:
        """The apiVersion of stored objects."""
        version = self.storage_version or self.version
        return f"{self.group}/{version}" if self.group else version

    @property
    def stored_in(self) -> str:
        """The collection of its objects."""
        return self.collection or (f"{self.plural}.{self.group}" if self.group else self.plural)

    @property
    def listed_as(self) -> str:
        """Kind of its lists."""
        return self.list_kind or f"{self.kind}List"

    @property
    def stores(self) -> bool:
        """Whether there are objects of it; reviews and bindings are answered and forgotten."""
        return "list" in self.verbs

    def named(self, document: Document) -> Document:
        """A stored document in this version."""
        if self.from_storage is not None:
            return self.from_storage(document)
        if document["apiVersion"] != self.api_version or document["kind"] != self.kind:
            return {**document, "apiVersion": self.api_version, "kind": self.kind}
        return document

    def stored(self, document: Document) -> Document:
        """A document of this version as it is stored."""
        return document if self.to_storage is None else self.to_storage(document)

    def decode(self, document: Document, subresource: str = "") -> list[str]:
        """Take out what a kind does not know. Returns what is warned of. Raises DecodeError for a wrong type."""
        metadata = document.get("metadata")
        reset = isinstance(metadata, dict) and metadata.get("managedFields") == []
        if model := self.body_model(subresource):
            found = [unknown_field(path) for path in decode(builtin(model), document)]
        else:
            found = self.strategy.drop_unknown(document)
        if reset:
            # Decoding drops an empty list, but it resets the managed fields. An empty entry does the same.
            document["metadata"]["managedFields"] = [{}]
        return found

    def body_model(self, subresource: str) -> str:
        """The published model of what an endpoint takes; empty for objects of a custom kind."""
        sub = self.subresources.get(subresource)
        if sub is None or sub.kind == self.kind:
            return self.model
        return models_by_kind().get((self.api_version_of(sub), sub.kind), "")

    def api_version_of(self, sub: Subresource) -> str:
        """The apiVersion of the kind of a subresource, which may be in another group."""
        version = f"{sub.group}/{sub.version}" if sub.group else sub.version
        return version if sub.version else self.api_version


def model_of_body(sub: Subresource) -> str:
    """The published model of a subresource whose bodies have a kind in another group, such as TokenRequest."""
    return models_by_kind()[f"{sub.group}/{sub.version}", sub.kind]


def version_priority(version: str) -> tuple[int, int, int, int, str]:
    """A key that sorts versions with the preferred one first: `v10`, `v2`, `v2beta1`, `v2alpha1`, then other names."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return 1, 0, 0, 0, version
    return 0, _STABILITY[match[2]], -int(match[1]), -int(match[3] or 0), ""


class ResourceRegistry:
    """All resources that are served."""

    def __init__(self) -> None:
        self._served: dict[tuple[str, str, str], Resource] = {}
        self._versions: dict[tuple[str, str], list[Resource]] = {}
        self.generation = 0
        """Rises with each change; what is made from the registry is kept by it."""

    def add(self, resource: Resource) -> None:
        """Serve a version, instead of what was served there before."""
        self._served[resource.group, resource.version, resource.plural] = resource
        self._changed(resource.group, resource.plural)

    def refuse_creations(self, group: str, plural: str) -> None:
        """Let no more objects of a resource be created: its definition is being deleted."""
        for resource in list(self.versions_of(group, plural)):
            if not resource.ending:
                self.add(replace(resource, ending=True))

    def remove(self, group: str, plural: str) -> None:
        """Serve a resource no more, in none of its versions."""
        for resource in self.versions_of(group, plural):
            del self._served[group, resource.version, plural]
        self._changed(group, plural)

    def _changed(self, group: str, plural: str) -> None:
        found = [one for key, one in self._served.items() if (key[0], key[2]) == (group, plural)]
        self._versions[group, plural] = found
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """One version of a resource."""
        return self._served.get((group, version, plural))

    def versions_of(self, group: str, plural: str) -> list[Resource]:
        """All versions of a resource."""
        return self._versions.get((group, plural), [])

    def has_built_in(self, group: str) -> bool:
        """Whether a built-in kind is served in that group."""
        return any(key[0] == group and not resource.custom for key, resource in self._served.items())

    def has_group(self, group: str) -> bool:
        """Whether anything is served in that group."""
        return any(group == key[0] for key in self._served)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._served.values())
