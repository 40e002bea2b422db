# SPDX-License-Identifier: Apache-2.0
"""Checks that a default is valid by its own schema."""

from typing import Any

from trainwright.api.validation.patterns import PatternError, compiled
from trainwright.codegen.catalog import Catalog
from trainwright.codegen.definition import Schema

PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def wrong_values(catalog: Catalog, schema: Schema, value: Any, where: str = "") -> list[tuple[str, str]]:
    """The errors of a default by its own schema: a path inside it, and the problem."""
    schema = catalog.resolve(schema)
    here = f"{where}: " if where else ""
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        fits = is_of_type(value, "integer") or is_of_type(value, "string")
        return [] if fits else [(here, f"{value!r} is neither integer nor string")]
    if kind in PYTHON_TYPES and not is_of_type(value, kind):
        article = "an" if kind in ("integer", "array", "object") else "a"
        return [(here, f"default {value!r} is not {article} {kind}")]
    wrong = [(here, f"default {value!r} {message}") for message in _broken_limits(schema, value)]
    if isinstance(value, dict):
        wrong.extend(_wrong_fields(catalog, schema, value, where))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            wrong.extend(wrong_values(catalog, schema["items"], item, f"{where}[{index}]"))
    return wrong


def _wrong_fields(catalog: Catalog, schema: Schema, value: dict[str, Any], where: str) -> list[tuple[str, str]]:
    wrong: list[tuple[str, str]] = []
    properties = schema.get("properties", {})
    here = f"{where}: " if where else ""
    absent = [name for name in schema.get("required", ()) if name not in value]
    lacking = [name for name in absent if "default" not in catalog.resolve(properties.get(name, {}))]
    wrong.extend((here, f"default lacks the required field {name}") for name in lacking)
    for name, item in value.items():
        inner = properties.get(name, schema.get("additionalProperties"))
        path = f"{where}.{name}" if where else name
        if isinstance(inner, dict):
            wrong.extend(wrong_values(catalog, inner, item, path))
        elif not schema.get("x-kubernetes-preserve-unknown-fields"):
            wrong.append((f"{path}: ", "default has a field that the schema does not know"))
    return wrong


def _broken_limits(schema: Schema, value: Any) -> list[str]:
    broken: list[str] = []
    if "enum" in schema and value not in schema["enum"]:
        broken.append(f"is not one of {schema['enum']}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            broken.append(f"is below the minimum {schema['minimum']}")
        if value > schema.get("maximum", value):
            broken.append(f"is above the maximum {schema['maximum']}")
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            broken.append(f"is shorter than minLength {schema['minLength']}")
        if len(value) > schema.get("maxLength", len(value)):
            broken.append(f"is longer than maxLength {schema['maxLength']}")
        if "pattern" in schema and compiles(schema["pattern"]) and not compiled(schema["pattern"]).search(value):
            broken.append(f"does not match {schema['pattern']}")
    return broken


def is_of_type(value: Any, kind: str) -> bool:
    """Whether a YAML value has a type of the schema; true and false are not numbers."""
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, PYTHON_TYPES[kind])


def compiles(pattern: str) -> bool:
    """Whether a pattern is a regular expression of API servers."""
    try:
        compiled(pattern)
    except PatternError:
        return False
    return True
