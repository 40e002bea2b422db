# SPDX-License-Identifier: Apache-2.0
"""What admission is told of a write, and what it may look up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver import errors
from trainwright.controller.local.apiserver.errors import StatusError


@dataclass(frozen=True)
class Write:
    """A creation, update or deletion."""

    operation: Literal["CREATE", "UPDATE", "DELETE"]
    group: str
    plural: str
    namespace: str = ""
    """Empty for kinds without namespace."""
    subresource: str = ""
    old: Document | None = None
    """The object before an update."""

    def creates(self, group: str, plural: str) -> bool:
        """Whether this creates an object of a kind."""
        return self.operation == "CREATE" and self.is_of(group, plural)

    def is_of(self, group: str, plural: str) -> bool:
        """Whether this is for an object of a kind, at its main endpoint."""
        return (self.group, self.plural, self.subresource) == (group, plural, "")

    def forbidden(self, document: Document, why: str) -> StatusError:
        """The answer of a plugin that refuses the object."""
        metadata = document.get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName") or "Unknown"
        return errors.forbidden(self.group, self.plural, name, why)


class Context(Protocol):
    """The stored objects. What it returns must not be changed."""

    def get(self, group: str, plural: str, namespace: str, name: str) -> Document | None:
        """One object; None if it is not there."""
        ...

    def listed(self, group: str, plural: str, namespace: str) -> Sequence[Document]:
        """The objects of a namespace, or of a kind without namespace."""
        ...
