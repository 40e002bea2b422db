# SPDX-License-Identifier: Apache-2.0
"""The base classes of the generated models.

A model is a msgspec struct that is decoded straight from the wire bytes. `None` means "not set" and is not encoded;
schema defaults never live in the struct, because an omitted default would vanish from the wire (`set_defaults` fills
them in). Fields that a newer API server knows and a model does not are ignored on read. They are not lost, because no
decoded object is ever written back whole.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, get_origin

import msgspec

if TYPE_CHECKING:
    from trainwright.api.kubernetes.meta.v1 import ObjectMeta


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A kind and where the API server serves it: the result of a REST mapping."""

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

    if TYPE_CHECKING:

        def read_as(self) -> dict[str, Any]: ...  # the type of its objects; see `controller.runtime.kinds.KindOf`


class Merge(msgspec.Struct, frozen=True):
    """How several writers share one field; `trainwright.api.merge` has the rules for undeclared fields."""

    type: Literal["atomic", "set", "map", "granular"]
    """`atomic` belongs to one writer as a whole, `set` and `map` are shared by item, `granular` by key."""
    keys: tuple[str, ...] = ()
    """Wire names of the fields that tell the items of a `map` list apart."""
    patch: tuple[str, ...] = ()
    """Strategies of a strategic merge patch: `merge`, `replace`, `retainKeys`."""
    patch_key: str = ""
    """Wire name of the field by which a strategic merge patch finds items; empty for lists of plain values."""


class Struct(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Base of all generated structs. API objects are trees, so garbage collection of cycles is off for them
    (`gc=False`)."""

    MERGE: ClassVar[Mapping[str, Merge]] = {}
    """The fields whose sharing the schema declares, by wire name."""

    if TYPE_CHECKING:

        def __copy__(self) -> Self: ...  # every struct has it; msgspec's stubs do not say so

    def deepcopy(self) -> Self:
        """A copy that shares immutable parts only. The compiler overrides this in each struct with mutable parts."""
        return self.__copy__()

    def __deepcopy__(self, memo: object) -> Self:
        return self.deepcopy()

    def set_defaults(self) -> None:
        """Set the schema's defaults on absent fields, as the API server does. Absent objects are not created.

        The compiler overrides this in each struct with defaults in or below it.
        """


class Object(Struct):
    """Base of the kinds: structs that the API server stores under a name."""

    RESOURCE: ClassVar[Resource]

    if TYPE_CHECKING:
        # Every kind has these; the structs declare them, in the order of their schema.
        api_version: str | None = None
        kind: str | None = None
        metadata: ObjectMeta | None = None

    @property
    def name(self) -> str:
        """`metadata.name`, empty when unset."""
        return (self.metadata.name or "") if self.metadata is not None else ""

    @property
    def namespace(self) -> str:
        """`metadata.namespace`, empty when unset and for kinds without namespaces."""
        return (self.metadata.namespace or "") if self.metadata is not None else ""

    def typed(self) -> Self:
        """Set apiVersion and kind, which items of a list lack. Returns the object."""
        self.api_version = self.RESOURCE.api_version
        self.kind = self.RESOURCE.kind
        return self


S = TypeVar("S", bound=Struct)
_ZEROS = {str: "", int: 0, float: 0.0, bool: False, list: (), dict: MappingProxyType({})}


@cache
def empty(kind: type[S]) -> S:
    """The struct that `<field>_or_empty` gives for an absent one, to read from: nothing is set in it.

    A field that it must have is empty too, as Go has it. All readers share one, so it cannot be changed.
    """
    frozen: type[S] = msgspec.defstruct(kind.__name__, (), bases=(kind,), frozen=True, kw_only=True)  # type: ignore[assignment]
    return frozen(**{field.name: _zero(field.type) for field in msgspec.structs.fields(kind) if field.required})


def _zero(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return empty(annotation)
    return _ZEROS.get(get_origin(annotation) or annotation)


def copy_open(value: Any) -> Any:
    """A copy of plain JSON data, for fields that hold any object."""
    if isinstance(value, dict):
        return {key: copy_open(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_open(item) for item in value]
    return value
