# SPDX-License-Identifier: Apache-2.0
"""Facts about the cluster, as the pipeline sees them: frozen, and all there before it runs.

A plugin never reads from the API server. It announces which objects it must know of (`UsesFacts`), the controller
looks them up in its cache, and the plugin finds them here. So the pipeline stays a function of its inputs, and
admission, reconcile, `render` and tests can all run it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import msgspec

from trainwright.api.base import Object, Resource
from trainwright.controller.runtime.objects import AnyObject
from trainwright.plugins.contract.errors import FactUnavailable

T = TypeVar("T", bound=Object)


class Reference(NamedTuple):
    """One object of the cluster."""

    resource: Resource
    namespace: str
    """Empty for kinds without namespaces."""
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.resource.kind} {where}{self.name}"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for an object whose read failed otherwise than with 404."""

    message: str


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What is known of the announced objects: the object, None for absent, or that the read failed."""

    objects: Mapping[Reference, AnyObject | Unreadable | None] = field(default_factory=dict)
    offline: bool = False
    """There is no cluster: everything counts as absent, and no job is refused because something is."""

    def find(self, reference: Reference) -> AnyObject | None:
        """The object as the cache has it (a model, metadata only, or a dictionary); None if it does not exist.

        Raises FactUnavailable when the read failed, or when no plugin announced the reference.
        """
        if self.offline:
            return None
        try:
            found = self.objects[reference]
        except KeyError:
            raise FactUnavailable(f"{reference} was not announced by uses_facts, so nobody read it") from None
        if isinstance(found, Unreadable):
            raise FactUnavailable(f"{reference} cannot be read: {found.message}")
        return found

    def exists(self, reference: Reference) -> bool:
        """Whether the object exists. Raises like `find`."""
        return self.find(reference) is not None

    def get(self, reference: Reference, model: type[T]) -> T | None:
        """The object as a model, decoded if the cache holds a dictionary. Raises like `find`."""
        found = self.find(reference)
        if found is None or isinstance(found, model):
            return found
        return msgspec.convert(msgspec.to_builtins(found), model)


OFFLINE = ClusterFacts(offline=True)
"""For `render` and for tests that need no facts."""
