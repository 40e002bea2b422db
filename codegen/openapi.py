# SPDX-License-Identifier: Apache-2.0
"""Makes the OpenAPI document that datamodel-code-generator reads.

The generator makes a struct of each schema. Everything that would change how a value is decoded, apart from its type,
is left out: defaults (an omitted default would vanish from the wire), limits (the API server has checked them),
keywords of Kubernetes. Optional fields are nullable, so that `null` from a server is accepted.
"""

from typing import Any

from trainwright.codegen.catalog import Catalog
from trainwright.codegen.definition import Definition, Schema

MODULE = "models"
"""The name of the generated module in each package."""

_NUMBER = {"type": "number"}


def schema_name(definition: Definition) -> str:
    """The name that makes the generator put the struct into the right module."""
    return f"{definition.package.module}.{MODULE}.{definition.name}"


def document(catalog: Catalog) -> Schema:
    schemas = {schema_name(definition): _struct(catalog, definition) for definition in catalog.definitions.values()}
    return {
        "openapi": "3.0.3",
        "info": {"title": "types", "version": "0"},
        "paths": {},
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


def _struct(catalog: Catalog, definition: Definition) -> Schema:
    schema = definition.schema
    # The API server sets defaults before it checks required fields, so a field with a default may be absent.
    properties = schema.get("properties", {})
    required = {name for name in schema.get("required", ()) if "default" not in catalog.resolve(properties[name])}
    literal = not definition.package.foreign
    made: Schema = {}
    for name, child in properties.items():
        converted = _value(catalog, child, literal=literal)
        if name not in required:
            converted = _nullable(converted)
        if child.get("description"):
            converted["description"] = child["description"]
        made[name] = converted
    out: Schema = {"type": "object", "properties": made}
    if required:
        out["required"] = sorted(required)
    if schema.get("description"):
        out["description"] = schema["description"]
    return out


def _nullable(schema: Schema) -> Schema:
    return {"allOf": [schema], "nullable": True} if "$ref" in schema else {**schema, "nullable": True}


def _value(catalog: Catalog, schema: Schema, *, literal: bool) -> Schema:
    if "$ref" in schema:
        target = catalog.definitions[schema["$ref"]]
        if is_struct(target.schema):
            return {"$ref": f"#/components/schemas/{schema_name(target)}"}
        return _value(catalog, target.schema, literal=literal)
    if schema.get("x-kubernetes-int-or-string"):
        quantity = [_NUMBER] if "pattern" in schema else []
        return {"anyOf": [{"type": "integer"}, *quantity, {"type": "string"}]}
    kind: Any = schema.get("type")
    if kind is None:
        return {}  # any JSON
    out: Schema = {"type": kind}
    if kind == "array":
        out["items"] = _value(catalog, schema["items"], literal=literal)
    elif kind == "object":
        values = schema.get("additionalProperties")
        out["additionalProperties"] = _value(catalog, values, literal=literal) if isinstance(values, dict) else True
    elif literal and kind == "string" and "enum" in schema:
        out["enum"] = schema["enum"]
    return out


def is_struct(schema: Schema) -> bool:
    """Whether a definition becomes a struct; others become the type of the value that they describe."""
    return (
        schema.get("type") == "object"
        and "additionalProperties" not in schema
        and not schema.get("x-kubernetes-preserve-unknown-fields")
    )
