# SPDX-License-Identifier: Apache-2.0
"""Objects within objects (`x-kubernetes-embedded-resource`): their kind and metadata are those of any object.

Source: `apiextensions-apiserver/pkg/apiserver/schema/objectmeta`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from trainwright.api.validation import DocumentError, names
from trainwright.controller.local.apiserver.schema.errors import (
    DocumentDecodeError,
    invalid,
    required,
)
from trainwright.controller.local.apiserver.schema.metadata import decode_metadata, validate_metadata
from trainwright.controller.local.apiserver.schema.problems import join

Schema = Mapping[str, Any]
Visit = Callable[[dict[str, Any], str], None]
"""Is given each embedded object with its path."""
Walk = Callable[[Any, str, Visit], None]


def compile_walk(schema: Schema) -> Walk | None:
    """What finds the embedded objects in a value; None if there can be none."""
    declared = {name: found for name, inner in schema.get("properties", {}).items() if (found := compile_walk(inner))}
    others, items = schema.get("additionalProperties"), schema.get("items")
    other = compile_walk(others) if isinstance(others, Mapping) else None
    item = compile_walk(items) if isinstance(items, Mapping) else None
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    if not (declared or other or item or embedded):
        return None

    def walk(value: Any, path: str, visit: Visit) -> None:
        if type(value) is dict:
            if embedded:
                visit(value, path)
            for name, inner in value.items():
                if (part := declared.get(name)) is not None:
                    part(inner, join(path, name), visit)
                elif other is not None:
                    other(inner, f"{path}[{name}]", visit)
        elif type(value) is list and item is not None:
            for index, inner in enumerate(value):
                item(inner, f"{path}[{index}]", visit)

    return walk


def coerce(walk: Walk, document: dict[str, Any]) -> list[str]:
    """Bring the metadata of embedded objects into their form, in place.

    Returns:
        The paths of unknown fields in them.

    Raises:
        DecodeError: kind, version or metadata are of the wrong type.
    """
    dropped: list[str] = []

    def visit(value: dict[str, Any], path: str) -> None:
        for name in ("apiVersion", "kind"):
            if name in value and type(value[name]) is not str:
                raise DocumentDecodeError(str(invalid(f"{path}.{name}", value[name], "must be a string")))
        if "metadata" in value:
            try:
                value["metadata"], unknown = decode_metadata(value["metadata"])
            except DocumentDecodeError as error:
                raise DocumentDecodeError(str(invalid(f"{path}.metadata", value["metadata"], str(error)))) from error
            dropped.extend(f"{path}.metadata.{name}" for name in unknown)

    walk(document, "", visit)
    return sorted(dropped)


def validate(walk: Walk, document: dict[str, Any]) -> list[DocumentError]:
    """The errors of embedded objects; they are the same at every write."""
    found: list[DocumentError] = []
    walk(document, "", lambda value, path: found.extend(_errors(value, path)))
    return found


def _errors(value: dict[str, Any], path: str) -> list[DocumentError]:
    found = [required(f"{path}.{name}") for name in ("apiVersion", "kind") if name not in value]
    for name, inner in value.items():
        if name == "apiVersion":
            found += [invalid(f"{path}.apiVersion", inner, one) for one in _wrong_version(inner)]
        elif name == "kind":
            found += [invalid(f"{path}.kind", inner, one) for one in _wrong_kind(inner)]
        elif name == "metadata":
            metadata = {**inner, "name": inner.get("name") or "fakename"}
            found += validate_metadata(
                metadata,
                namespaced=bool(inner.get("namespace")),
                path=f"{path}.metadata",
            )
    return found


def _wrong_version(version: Any) -> list[str]:
    if type(version) is not str:
        return ["must be a string"]
    if not version:
        return ["must not be empty"]
    return [f"unexpected GroupVersion string: {version}"] if version.count("/") > 1 else []


def _wrong_kind(kind: Any) -> list[str]:
    if type(kind) is not str:
        return ["must be a string"]
    if not kind:
        return ["must not be empty"]
    wrong = names.dns_label_1035(kind.lower())
    return ["may have mixed case, but should otherwise match: " + ",".join(wrong)] if wrong else []
