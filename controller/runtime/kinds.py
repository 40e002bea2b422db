# SPDX-License-Identifier: Apache-2.0
"""Kinds of objects, and how their objects are decoded.

A kind is a model class (objects are decoded into that model), a `Resource` (into dictionaries), or `MetadataOnly` (only
the metadata is requested and kept). One `Codec` holds everything that differs between the three.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, cast

import msgspec

from trainwright.api.base import Object, Resource
from trainwright.api.objects import AnyObject, Document, PartialObject
from trainwright.controller.runtime import nesting
from trainwright.controller.runtime.errors import ConfigurationError, DecodeError

DEFINITION = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)
"""The kind that defines others."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_JSON = "application/json"
_PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class Described(Protocol[T_co]):
    """A kind that is no model: a `Resource` or `MetadataOnly`. For type checkers."""

    def read_as(self) -> T_co:
        """Type of its objects."""
        ...


@dataclass(frozen=True, slots=True)
class MetadataOnly:
    """A kind of which only the metadata is requested: `MetadataOnly(ConfigMap)`."""

    kind: "type[Object] | Resource"

    @property
    def resource(self) -> Resource:
        return self.kind if isinstance(self.kind, Resource) else self.kind.RESOURCE

    if TYPE_CHECKING:

        def read_as(self) -> PartialObject: ...


KindOf: TypeAlias = type[T] | Described[T]
"""A kind, by the type that its objects are decoded into."""
Kind: TypeAlias = type[Object] | Described[Any]
"""Any kind."""


def resource_of(kind: KindOf[Any]) -> Resource:
    """The API resource of a kind. Raises ConfigurationError for anything else."""
    if isinstance(kind, Resource):
        return kind
    if isinstance(kind, MetadataOnly):
        return kind.resource
    resource = getattr(kind, "RESOURCE", None)
    if not isinstance(resource, Resource):
        raise ConfigurationError(f"{kind!r} is not a kind: use a model with RESOURCE, a Resource or MetadataOnly")
    return resource


class Codec(Generic[T]):
    """Decodes the objects of one kind in one representation."""

    __slots__ = ("_decoder", "accept", "accept_list", "kind", "resource")

    def __init__(self, kind: KindOf[T], model: type[T]) -> None:
        self.kind = kind
        self.resource = resource_of(kind)
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(model)
        partial = isinstance(kind, MetadataOnly)
        self.accept = _PARTIAL if partial else _JSON
        self.accept_list = _PARTIAL_LIST if partial else _JSON

    def decode(self, body: bytes | bytearray | memoryview | msgspec.Raw) -> T:
        """Decode one object. apiVersion and kind become those of the resource, also where the server sends none.

        Raises DecodeError with the path of the field that does not fit.
        """
        try:
            obj = nesting.decode(self._decoder, body)
        except msgspec.MsgspecError as error:
            raise DecodeError(f"{self.resource.plural}: {error}") from error
        name_type(cast("AnyObject", obj), self.resource)
        return obj


def decoded(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw, what: str) -> T:
    """What is no object of a kind. Raises DecodeError that begins with `what`."""
    try:
        return nesting.decode(decoder, body)
    except msgspec.MsgspecError as error:
        raise DecodeError(f"{what}: {error}") from error


def name_type(obj: AnyObject, resource: Resource) -> None:
    """Set apiVersion and kind of a decoded object to those of its resource."""
    if isinstance(obj, dict):
        obj["apiVersion"] = resource.api_version
        obj["kind"] = resource.kind
    else:
        obj.api_version = resource.api_version
        obj.kind = resource.kind


def codec_of(kind: KindOf[T]) -> Codec[T]:
    return _codec_of(cast("Any", kind))


@lru_cache(maxsize=512)
def _codec_of(kind: Any) -> Codec[Any]:
    if isinstance(kind, Resource):
        return Codec(kind, Document)
    if isinstance(kind, MetadataOnly):
        return Codec(kind, PartialObject)
    resource_of(kind)
    return Codec(kind, kind)


def type_name(obj: AnyObject) -> tuple[str, str] | None:
    """apiVersion and kind of an object whose class does not say its kind; None for a model."""
    if isinstance(obj, PartialObject):
        return obj.api_version or "", obj.kind or ""
    return (str(obj.get("apiVersion", "")), str(obj.get("kind", ""))) if isinstance(obj, dict) else None


def kind_of(obj: AnyObject, known: dict[tuple[str, str], Kind] | None = None) -> Kind:
    """The kind of an object: its model, or the known kind with its apiVersion and kind.

    Raises ConfigurationError for a dictionary of an unknown kind, and for metadata alone.
    """
    name = type_name(obj)
    if name is None:
        return cast("Kind", type(obj))
    if known and name in known:
        return known[name]
    raise ConfigurationError(
        f"apiVersion={name[0]!r} kind={name[1]!r} is not a known kind: pass kind=Resource(…), or register it"
    )
