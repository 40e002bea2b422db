# SPDX-License-Identifier: Apache-2.0
"""How callers name a kind, and how its objects are decoded.

A kind is given as a model class (objects come back as that model), as a `Resource` (objects come back as plain
dictionaries), or as `MetadataOnly` (only metadata is asked for and kept). Everything that differs between the three is
in one `Codec`, so there is one way to tell them apart (C-52).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeAlias, TypeVar, cast

import msgspec

from trainwright.api.base import Object, Resource
from trainwright.controller.runtime import nesting
from trainwright.controller.runtime.errors import ConfigurationError, DecodeError
from trainwright.controller.runtime.objects import AnyObject, Document, PartialObject

T = TypeVar("T")

_JSON = "application/json"
_PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class MetadataOnly:
    """A kind of which only the metadata is wanted: `MetadataOnly(ConfigMap)`."""

    kind: "type[Object] | Resource"

    @property
    def resource(self) -> Resource:
        """Where the kind lives."""
        return self.kind if isinstance(self.kind, Resource) else self.kind.RESOURCE


Kind: TypeAlias = type[Object] | Resource | MetadataOnly


def resource_of(kind: Kind) -> Resource:
    """Where a kind lives on the API server."""
    if isinstance(kind, Resource):
        return kind
    if isinstance(kind, MetadataOnly):
        return kind.resource
    resource = getattr(kind, "RESOURCE", None)
    if not isinstance(resource, Resource):
        raise ConfigurationError(f"{kind!r} is no kind: a model with RESOURCE, a Resource or MetadataOnly is needed")
    return resource


class Codec(Generic[T]):
    """Decodes the objects of one kind in one representation."""

    __slots__ = ("_decoder", "accept", "accept_list", "kind", "resource")

    def __init__(self, kind: Kind, model: type[T]) -> None:
        self.kind = kind
        self.resource = resource_of(kind)
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(model)
        partial = isinstance(kind, MetadataOnly)
        self.accept = _PARTIAL if partial else _JSON
        self.accept_list = _PARTIAL_LIST if partial else _JSON

    def decode(self, body: bytes | bytearray | memoryview | msgspec.Raw) -> T:
        """One object; apiVersion and kind are filled in where the server leaves them out or says PartialObject… (R-79).

        Raises DecodeError with the path of the field that does not fit.
        """
        try:
            obj = nesting.decode(self._decoder, body)
        except msgspec.MsgspecError as error:
            raise DecodeError(f"{self.resource.plural}: {error}") from error
        name_type(cast("AnyObject", obj), self.resource)
        return obj


def name_type(obj: AnyObject, resource: Resource) -> None:
    """Set apiVersion and kind of a fresh object to those of its resource."""
    if isinstance(obj, dict):
        obj["apiVersion"] = resource.api_version
        obj["kind"] = resource.kind
    else:
        obj.api_version = resource.api_version
        obj.kind = resource.kind


@lru_cache(maxsize=512)
def codec_of(kind: Kind) -> Codec[Any]:
    """The codec of a kind, made once."""
    if isinstance(kind, Resource):
        return Codec(kind, Document)
    if isinstance(kind, MetadataOnly):
        return Codec(kind, PartialObject)
    resource_of(kind)
    return Codec(kind, kind)


def kind_of(obj: AnyObject, known: dict[tuple[str, str], Kind] | None = None) -> Kind:
    """The kind of an object: its model, or for a dictionary the kind known under its apiVersion and kind.

    Raises ConfigurationError for a dictionary of an unknown kind.
    """
    if not isinstance(obj, dict):
        return type(obj)
    name = (str(obj.get("apiVersion", "")), str(obj.get("kind", "")))
    if known and name in known:
        return known[name]
    raise ConfigurationError(
        f"no Resource is known for apiVersion={name[0]!r} kind={name[1]!r}: pass kind=Resource(…), or register it"
    )
