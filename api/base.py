# SPDX-License-Identifier: Apache-2.0
"""What every generated model is made of.

A model is a msgspec struct that is decoded straight from the wire bytes. `None` means "not set" and is not encoded;
schema defaults never live in the struct, because an omitted default would vanish from the wire (`set_defaults` fills
them in). Fields that a newer API server knows and we do not are ignored on read; that loses nothing, because no decoded
object is ever written back whole.
"""

import copy
from typing import ClassVar, Self

import msgspec


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """Where a kind lives on the API server: what REST mapping would answer for it."""

    group: str
    """API group; empty for core/v1."""
    version: str
    kind: str
    plural: str
    """The name in the URL, lower case."""
    namespaced: bool

    @property
    def api_version(self) -> str:
        """The wire form: `v1` for the core group, `group/version` for every other."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection (without `name`) or of one object, without host and query."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


class Struct(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Base of all generated structs. API objects form trees, so the cyclic collector need not look at them."""

    def deepcopy(self) -> Self:
        """A copy that shares immutable parts only. The compiler overrides this in each struct with mutable parts."""
        return copy.copy(self)

    def __deepcopy__(self, memo: object) -> Self:
        return self.deepcopy()


class Object(Struct):
    """Base of the kinds: structs that the API server stores under a name."""

    RESOURCE: ClassVar[Resource]
