# SPDX-License-Identifier: Apache-2.0
"""Checks a document against its JSON Schema, its lists against their types, and its metadata."""

import base64
import binascii
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from trainwright.api import times
from trainwright.api.extras import load
from trainwright.api.validation import names
from trainwright.api.validation.errors import (
    DUPLICATE,
    INVALID,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    WRONG_TYPE,
    DocumentError,
    Path,
    shown,
    spoken,
)
from trainwright.api.validation.patterns import compiled
from trainwright.api.validation.schema import KindSchema, Schema, children

_REASONS = {"enum": NOT_SUPPORTED, "maxLength": TOO_LONG, "maxItems": TOO_MANY, "type": WRONG_TYPE, "anyOf": WRONG_TYPE}

Found = tuple[Path, DocumentError]


def schema_errors(kind: KindSchema, document: dict[str, Any]) -> list[Found]:
    """The errors of the document by its JSON Schema."""
    found: list[Found] = []
    for error in _validator(kind).iter_errors(document):
        path: Path = tuple(error.absolute_path)
        if path[:1] == ("metadata",) and error.validator != "type":
            continue  # `metadata_errors` checks everything of metadata but its types
        if error.validator == "required":
            found.extend(_missing(error, path))
        else:
            reason = _REASONS.get(str(error.validator), INVALID)
            message = f"Invalid value: {shown(error.instance)}: {_explain(error)}"
            found.append((path, DocumentError(reason, spoken(path), message)))
    return found


def _missing(error: Any, path: Path) -> Iterator[Found]:
    for name in error.validator_value:
        if name not in error.instance and f"'{name}' is a required" in error.message:
            whole = (*path, name)
            yield whole, DocumentError(REQUIRED, spoken(whole), "Required value")


def _explain(error: Any) -> str:
    limit = error.validator_value
    texts = {
        "type": f"must be of type {limit}",
        "enum": f"supported values: {json.dumps(limit)}",
        "minimum": f"should be greater than or equal to {limit}",
        "maximum": f"should be less than or equal to {limit}",
        "minLength": f"should be at least {limit} chars long",
        "maxLength": f"may not be more than {limit} bytes",
        "minItems": f"should have at least {limit} items",
        "maxItems": f"must have at most {limit} items",
        "minProperties": f"should have at least {limit} properties",
        "pattern": f"should match '{limit}'",
        "format": f"must be of type {limit}",
        "anyOf": "must be an integer or a string",
        "const": f"must be {limit}",
    }
    return texts.get(str(error.validator), str(error.message))


@cache
def _validator(kind: KindSchema) -> Any:
    jsonschema = load("jsonschema")
    checker = jsonschema.FormatChecker(formats=())
    checker.checks("date-time", raises=ValueError)(lambda value: not isinstance(value, str) or bool(times.parse(value)))
    checker.checks("byte", raises=binascii.Error)(_is_base64)
    dialect = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": _pattern})
    return dialect(kind.document, format_checker=checker)


def _pattern(validator: Any, pattern: str, value: Any, schema: Schema) -> Iterator[Any]:  # noqa: ARG001  as jsonschema calls it
    """A pattern as the API server reads it, in linear time."""
    if isinstance(value, str) and not compiled(pattern).search(value):
        error = load("jsonschema").ValidationError
        yield error(f"{value!r} does not match {pattern!r}")


def _is_base64(value: object) -> bool:
    if isinstance(value, str):
        base64.b64decode(value, validate=True)
    return True


def list_errors(kind: KindSchema, schema: Schema, value: Any, path: Path = ()) -> Iterator[Found]:
    """Errors of items that appear twice in a set, or twice with the same keys in a keyed list."""
    if isinstance(value, list):
        keys = schema.get("x-kubernetes-list-map-keys")
        if keys or schema.get("x-kubernetes-list-type") == "set":
            yield from _duplicates(value, keys, path)
    for step, inner, part in children(kind, schema, value):
        yield from list_errors(kind, inner, part, (*path, step))


def _duplicates(value: list[Any], keys: list[str] | None, path: Path) -> Iterator[Found]:
    seen: set[str] = set()
    for index, item in enumerate(value):
        identity: Any = item
        if keys is not None:
            if not isinstance(item, dict):
                continue
            identity = {key: item.get(key) for key in keys}
        text = json.dumps(identity, sort_keys=True)
        if text in seen:
            whole = (*path, index)
            yield whole, DocumentError(DUPLICATE, spoken(whole), f"Duplicate value: {shown(identity)}")
        seen.add(text)


def metadata_errors(document: dict[str, Any]) -> Iterator[Found]:
    """Errors by the rules that hold for the metadata of every object."""
    metadata = document.get("metadata")
    metadata = {} if metadata is None else metadata
    name, prefix = metadata.get("name"), metadata.get("generateName")
    if not name and not prefix:
        yield (
            ("metadata", "name"),
            DocumentError(REQUIRED, "metadata.name", "Required value: a name is needed"),
        )
    elif name and names.dns_subdomain(name):
        message = f"Invalid value: {shown(name)}: must be a lower case DNS subdomain of at most 253 characters"
        yield ("metadata", "name"), DocumentError(INVALID, "metadata.name", message)
    for key, value in (metadata.get("labels") or {}).items():
        if names.qualified(key) or not isinstance(value, str) or names.label_value(value):
            message = f"Invalid value: {shown(value)}: label {key} must have a valid key and value"
            yield ("metadata", "labels"), DocumentError(INVALID, "metadata.labels", message)
    for key in metadata.get("annotations") or {}:
        if names.qualified(key.lower()):
            message = f"Invalid value: {shown(key)}: not a name with an optional DNS prefix"
            yield ("metadata", "annotations"), DocumentError(INVALID, "metadata.annotations", message)
