# SPDX-License-Identifier: Apache-2.0
"""Whether a schema is structural: every field is declared where its type is, and alternatives only restrict values.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from trainwright.api.validation import DocumentError
from trainwright.api.validation.patterns import PatternError, compiled
from trainwright.controller.local.apiserver.schema.errors import forbidden, invalid, required

Schema = Mapping[str, Any]
_Level = Literal["root", "item", "field"]

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_WHERE = {"root": "at the root", "item": "for specified array items", "field": "for specified object fields"}
_EMPTY = {
    "type": "must be empty to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_META = "must not specify anything other than name and generateName, but metadata is implicitly specified"
_NO_FIELDS = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"


def structural_errors(schema: Schema, path: str) -> list[DocumentError]:
    """What keeps a schema from being structural, sorted."""
    found = [*_invariants(schema, "root", path), *_incomplete(schema, path)]
    return sorted(found, key=str)


def _invariants(schema: Schema, level: _Level, path: str) -> Iterator[DocumentError]:
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    items, others = schema.get("items"), schema.get("additionalProperties")
    if schema.get("type") == "array" and items is None:
        yield required(f"{path}.items", "must be specified")
    if isinstance(items, Mapping):
        yield from _invariants(items, "item", f"{path}.items")
    for name, inner in properties.items():
        yield from _invariants(inner, "field", f"{path}.properties[{name}]")
    if others is not None and level == "root":
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(others, Mapping):
        yield from _invariants(others, "field", f"{path}.additionalProperties")
    yield from _extensions(schema, path)
    yield from _values(schema, path, skip=_skipped(schema))
    yield from _type(schema, level, path)
    if schema.get("x-kubernetes-embedded-resource"):
        if others is not None:
            wrong = "must not be used if x-kubernetes-embedded-resource is set"
            yield forbidden(f"{path}.additionalProperties", wrong)
        if not schema.get("x-kubernetes-preserve-unknown-fields") and not properties:
            yield required(f"{path}.properties", _NO_FIELDS)
    yield from _metadata(schema, level, path)


def _type(schema: Schema, level: _Level, path: str) -> Iterator[DocumentError]:
    kind, at = schema.get("type") or "", f"{path}.type"
    if schema.get("x-kubernetes-embedded-resource") and kind != "object":
        wrong = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(at, kind, wrong) if kind else required(at, wrong)
    elif not (kind or schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")):
        yield required(at, f"must not be empty {_WHERE[level]}")
    if level == "root" and kind and kind != "object":
        yield invalid(at, kind, "must be object at the root")


def _extensions(schema: Schema, path: str) -> Iterator[DocumentError]:
    if not schema.get("x-kubernetes-int-or-string"):
        return
    for word in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
        if schema.get(word):
            yield invalid(f"{path}.{word}", True, "must be false if x-kubernetes-int-or-string is true")


def _metadata(schema: Schema, level: _Level, path: str) -> Iterator[DocumentError]:
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    checked = level == "root" or schema.get("x-kubernetes-embedded-resource")
    for name in ("kind", "apiVersion"):
        if checked and name in properties and properties[name].get("type") != "string":
            yield invalid(f"{path}.properties[{name}].type", properties[name].get("type", ""), "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    at = f"{path}.properties[metadata]"
    if checked and metadata.get("type") != "object":
        yield invalid(f"{at}.type", metadata.get("type", ""), "must be object")
    if level == "root":
        # Defaults are refused elsewhere.
        beyond = metadata.keys() - {"type", "properties", "default"}
        if any(metadata[word] for word in beyond) or (metadata.get("properties") or {}).keys() - {
            "name",
            "generateName",
        }:
            yield forbidden(at, _META)


def _skipped(schema: Schema) -> str:
    """Where an int-or-string says its types, as it may: in `anyOf` or in the first of `allOf`."""
    if schema.get("anyOf") == _INT_OR_STRING:
        return "anyOf"
    first = (schema.get("allOf") or [{}])[0]
    return "allOf" if first.get("anyOf") == _INT_OR_STRING else ""


def _values(schema: Schema, path: str, *, skip: str) -> Iterator[DocumentError]:
    for word in ("anyOf", "allOf", "oneOf"):
        if word == "anyOf" and skip == "anyOf":
            continue
        for index, inner in enumerate(schema.get(word) or ()):
            first = "anyOf" if word == "allOf" and skip == "allOf" and index == 0 else ""
            yield from _nested(inner, f"{path}.{word}[{index}]", skip=first)
    if schema.get("not") is not None:
        yield from _nested(schema["not"], f"{path}.not", skip="")
    if schema.get("pattern"):
        try:
            compiled(schema["pattern"])
        except PatternError as error:
            wrong = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", schema["pattern"], wrong)


def _nested(schema: Schema, path: str, *, skip: str) -> Iterator[DocumentError]:
    yield from _values(schema, path, skip=skip)
    if isinstance(schema.get("items"), Mapping):
        yield from _nested(schema["items"], f"{path}.items", skip="")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _nested(inner, f"{path}.properties[{name}]", skip="")
    if schema.get("additionalProperties"):
        yield forbidden(f"{path}.additionalProperties", "must be undefined to be structural")
    for word, wrong in _EMPTY.items():
        if schema.get(word):
            yield forbidden(f"{path}.{word}", wrong)
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _incomplete(schema: Schema, path: str) -> Iterator[DocumentError]:
    """Fields that alternatives at the root speak of must be declared; the server does not look further."""
    for word in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(word) or ()):
            yield from _undeclared(inner, schema, f"{path}.{word}[{index}]", path)
    if schema.get("not") is not None:
        yield from _undeclared(schema["not"], schema, f"{path}.not", path)


def _undeclared(inner: Schema, outer: Schema, path: str, outer_path: str) -> Iterator[DocumentError]:
    for word in ("allOf", "anyOf", "oneOf"):
        for index, one in enumerate(inner.get(word) or ()):
            yield from _undeclared(one, outer, f"{path}.{word}[{index}]", outer_path)
    if inner.get("not") is not None:
        yield from _undeclared(inner["not"], outer, f"{path}.not", outer_path)
    items = outer.get("items")
    if isinstance(inner.get("items"), Mapping):
        if isinstance(items, Mapping):
            yield from _undeclared(inner["items"], items, f"{path}.items", f"{outer_path}.items")
        else:
            yield required(f"{outer_path}.items", f"because it is defined in {path}.items")
    declared: Mapping[str, Schema] = outer.get("properties") or {}
    for name, one in (inner.get("properties") or {}).items():
        at, declared_at = f"{path}.properties[{name}]", f"{outer_path}.properties[{name}]"
        if name in declared:
            yield from _undeclared(one, declared[name], at, declared_at)
        else:
            yield required(declared_at, f"because it is defined in {at}")
