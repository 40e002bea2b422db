# SPDX-License-Identifier: Apache-2.0
"""Parts of a definition as messages show them: the JSON of the server's internal structs, with every field.

These structs have no names for JSON, so their fields are written as in Go and in their order.
"""

from collections.abc import Callable, Mapping
from typing import Any

from trainwright.controller.local.apiserver.apply.values import json_text
from trainwright.controller.local.apiserver.schema.errors import Verbatim

_Text = Callable[[Any], str]


def _struct(value: Mapping[str, Any], fields: tuple[tuple[str, str, Any, _Text], ...]) -> str:
    parts = []
    for name, word, empty, text in fields:
        given = value.get(word)
        parts.append(f'"{name}":{json_text(empty) if given is None else text(given)}')
    return "{" + ",".join(parts) + "}"


def _plain(name: str, word: str, empty: Any = None) -> tuple[str, str, Any, _Text]:
    return name, word, empty, json_text


def schema(value: Mapping[str, Any]) -> Verbatim:
    """A schema."""
    return Verbatim(_struct(value, _SCHEMA))


def rule(value: Mapping[str, Any]) -> Verbatim:
    """A rule."""
    return Verbatim(_struct(value, _RULE))


def versions(values: list[dict[str, Any]] | None, alike: set[str]) -> Verbatim:
    """The versions, without what all of them have alike, which the server holds elsewhere."""
    if values is None:
        return Verbatim("null")
    texts = [_struct({word: one[word] for word in one if word not in alike}, _VERSION) for one in values]
    return Verbatim(f"[{','.join(texts)}]")


def _schemas(values: list[Mapping[str, Any]]) -> str:
    return f"[{','.join(map(schema, values))}]"


def _named_schemas(values: Mapping[str, Mapping[str, Any]]) -> str:
    return "{" + ",".join(f"{json_text(name)}:{schema(values[name])}" for name in sorted(values)) + "}"


def _items(value: Any) -> str:
    if isinstance(value, list):
        return f'{{"Schema":null,"JSONSchemas":{_schemas(value)}}}'
    return f'{{"Schema":{schema(value)},"JSONSchemas":null}}'


def _others(value: Any) -> str:
    if isinstance(value, Mapping):
        return f'{{"Allows":true,"Schema":{schema(value)}}}'
    return f'{{"Allows":{json_text(value)},"Schema":null}}'


_RULE = (
    _plain("Rule", "rule", ""),
    _plain("Message", "message", ""),
    _plain("MessageExpression", "messageExpression", ""),
    _plain("Reason", "reason"),
    _plain("FieldPath", "fieldPath", ""),
    _plain("OptionalOldSelf", "optionalOldSelf"),
)
_SCHEMA: tuple[tuple[str, str, Any, _Text], ...] = (
    _plain("ID", "id", ""),
    _plain("Schema", "$schema", ""),
    _plain("Ref", "$ref"),
    _plain("Description", "description", ""),
    _plain("Type", "type", ""),
    _plain("Nullable", "nullable", False),
    _plain("Format", "format", ""),
    _plain("Title", "title", ""),
    _plain("Default", "default"),
    _plain("Maximum", "maximum"),
    _plain("ExclusiveMaximum", "exclusiveMaximum", False),
    _plain("Minimum", "minimum"),
    _plain("ExclusiveMinimum", "exclusiveMinimum", False),
    _plain("MaxLength", "maxLength"),
    _plain("MinLength", "minLength"),
    _plain("Pattern", "pattern", ""),
    _plain("MaxItems", "maxItems"),
    _plain("MinItems", "minItems"),
    _plain("UniqueItems", "uniqueItems", False),
    _plain("MultipleOf", "multipleOf"),
    _plain("Enum", "enum"),
    _plain("MaxProperties", "maxProperties"),
    _plain("MinProperties", "minProperties"),
    _plain("Required", "required"),
    ("Items", "items", None, _items),
    ("AllOf", "allOf", None, _schemas),
    ("OneOf", "oneOf", None, _schemas),
    ("AnyOf", "anyOf", None, _schemas),
    ("Not", "not", None, schema),
    ("Properties", "properties", None, _named_schemas),
    ("AdditionalProperties", "additionalProperties", None, _others),
    ("PatternProperties", "patternProperties", None, _named_schemas),
    _plain("Dependencies", "dependencies"),
    ("AdditionalItems", "additionalItems", None, _others),
    ("Definitions", "definitions", None, _named_schemas),
    _plain("ExternalDocs", "externalDocs"),
    _plain("Example", "example"),
    _plain("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields"),
    _plain("XEmbeddedResource", "x-kubernetes-embedded-resource", False),
    _plain("XIntOrString", "x-kubernetes-int-or-string", False),
    _plain("XListMapKeys", "x-kubernetes-list-map-keys"),
    _plain("XListType", "x-kubernetes-list-type"),
    _plain("XMapType", "x-kubernetes-map-type"),
    (
        "XValidations",
        "x-kubernetes-validations",
        None,
        lambda values: f"[{','.join(map(rule, values))}]",
    ),
)
_SUBRESOURCES = (
    _plain("Status", "status"),
    (
        "Scale",
        "scale",
        None,
        lambda value: _struct(
            value,
            (
                _plain("SpecReplicasPath", "specReplicasPath", ""),
                _plain("StatusReplicasPath", "statusReplicasPath", ""),
                _plain("LabelSelectorPath", "labelSelectorPath"),
            ),
        ),
    ),
)
_COLUMN = (
    _plain("Name", "name", ""),
    _plain("Type", "type", ""),
    _plain("Format", "format", ""),
    _plain("Description", "description", ""),
    _plain("Priority", "priority", 0),
    _plain("JSONPath", "jsonPath", ""),
)
_VERSION: tuple[tuple[str, str, Any, _Text], ...] = (
    _plain("Name", "name", ""),
    _plain("Served", "served", False),
    _plain("Storage", "storage", False),
    _plain("Deprecated", "deprecated", False),
    _plain("DeprecationWarning", "deprecationWarning"),
    (
        "Schema",
        "schema",
        None,
        lambda value: '{"OpenAPIV3Schema":' + schema(value["openAPIV3Schema"]) + "}",
    ),
    ("Subresources", "subresources", None, lambda value: _struct(value, _SUBRESOURCES)),
    (
        "AdditionalPrinterColumns",
        "additionalPrinterColumns",
        None,
        lambda values: "[" + ",".join(_struct(one, _COLUMN) for one in values) + "]",
    ),
    (
        "SelectableFields",
        "selectableFields",
        None,
        lambda values: "[" + ",".join(_struct(one, (_plain("JSONPath", "jsonPath", ""),)) for one in values) + "]",
    ),
)
