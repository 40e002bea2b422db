# SPDX-License-Identifier: Apache-2.0
"""The base classes of the generated models.

A model is a msgspec struct that is decoded straight from the wire bytes. `None` means "not set" and is not encoded;
schema defaults never live in the struct, because an omitted default would vanish from the wire (`set_defaults` fills
them in). Fields that a newer API server knows and a model does not are ignored on read. They are not lost, because no
decoded object is ever written back whole.
"""

import sys
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar, Union, get_args, get_origin

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
    DEFAULTS: ClassVar[Mapping[str, Any]] = {}
    """The schema's defaults by attribute, in wire form."""

    if TYPE_CHECKING:

        def __copy__(self) -> Self: ...  # every struct has it; msgspec's stubs do not say so

    def deepcopy(self) -> Self:
        """A copy that shares immutable parts only: shallow, in C, and then copies of the mutable parts."""
        copied = self.__copy__()
        for name, copy in _mutable_parts(type(self)):
            if (value := getattr(copied, name)) is not None:
                setattr(copied, name, copy(value))
        return copied

    def __deepcopy__(self, memo: object) -> Self:
        return self.deepcopy()

    def set_defaults(self) -> None:
        """Set the schema's defaults on absent fields, as the API server does. Absent objects are not created.

        Like the server it sets those of a struct before those of the values inside it.
        """
        for name, default in self.DEFAULTS.items():
            if getattr(self, name) is None:
                is_plain = isinstance(default, str | int | float)
                made = default if is_plain else msgspec.convert(copy_open(default), _types(type(self))[name])
                setattr(self, name, made)
        for name, set_inside in _defaulted_parts(type(self)):
            if (value := getattr(self, name)) is not None:
                set_inside(value)


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


@cache
def _types(kind: type[Struct]) -> Mapping[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


@cache
def _mutable_parts(kind: type[Struct]) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """The fields of a struct that can be changed in place, and what copies their values."""
    found = ((field.name, _copier(field.type)) for field in msgspec.structs.fields(kind))
    return tuple((name, copy) for name, copy in found if copy is not None)


def _copier(annotation: Any) -> Callable[[Any], Any] | None:
    """What copies a value of this type; None if it is immutable: text, a number, a truth value, or one of several."""
    if annotation is Any or annotation == dict[str, Any]:  # a cache may have something compact in place of the latter
        return copy_open
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation.deepcopy
    origin, *arguments = get_origin(annotation), *get_args(annotation)
    if origin is Union or origin is UnionType:
        present = [one for one in arguments if one is not NoneType]
        return _copier(present[0]) if len(present) == 1 else None
    if origin is list:
        item = _copier(arguments[0])
        return list if item is None else lambda values: [item(value) for value in values]
    if origin is dict:
        of_value = _copier(arguments[1])
        return dict if of_value is None else lambda values: {key: of_value(value) for key, value in values.items()}
    return None


@cache
def _defaulted_parts(kind: type[Struct]) -> tuple[tuple[str, Callable[[Any], None]], ...]:
    """The fields of a struct that have defaults in or below their values, and what sets these."""
    found = ((field.name, _defaulter(field.type, frozenset({kind}))) for field in msgspec.structs.fields(kind))
    return tuple((name, set_inside) for name, set_inside in found if set_inside is not None)


def _defaulter(annotation: Any, around: frozenset[type[Struct]]) -> Callable[[Any], None] | None:
    """What sets the defaults in a value of this type; None if it has none. `around`: the structs that it is in.

    One that contains itself counts as having some.
    """
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        if annotation.DEFAULTS or annotation.set_defaults is not Struct.set_defaults or annotation in around:
            return annotation.set_defaults
        below = (_defaulter(field.type, around | {annotation}) for field in msgspec.structs.fields(annotation))
        return annotation.set_defaults if any(below) else None
    origin, *arguments = get_origin(annotation), *get_args(annotation)
    if origin is Union or origin is UnionType:
        return next((found for one in arguments if (found := _defaulter(one, around)) is not None), None)
    inside = _defaulter(arguments[-1], around) if origin is list or origin is dict else None
    if inside is None:
        return None

    def set_all(values: Any) -> None:
        for value in values.values() if origin is dict else values:
            inside(value)

    return set_all


class OrEmpty(Generic[S]):
    """`<field>_or_empty` of a struct: the struct in the field, or an empty one to read from: no check for None."""

    def __init__(self, kind: type[S]) -> None:
        self._kind = kind
        self._nothing: S | None = None

    def __set_name__(self, owner: type, name: str) -> None:
        self._field = sys.intern(name.removesuffix("_or_empty"))  # or each look-up misses the cache of attributes

    def __get__(self, struct: Any, owner: type | None = None) -> S:
        found: S | None = getattr(struct, self._field)
        if found is not None:
            return found
        if self._nothing is None:
            self._nothing = empty(self._kind)
        return self._nothing


def copy_open(value: Any) -> Any:
    """A copy of plain JSON data, for fields that hold any object."""
    if isinstance(value, dict):
        return {key: copy_open(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_open(item) for item in value]
    return value
