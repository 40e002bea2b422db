# SPDX-License-Identifier: Apache-2.0
"""The schemas of a definition: whether they are structural, supported, and hold good rules and defaults.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation`. Costs of rules are not estimated.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from trainwright.controller.local.apiserver.schema.checks import compile_checks, problems_of
from trainwright.controller.local.apiserver.schema.crd import decode_embedded, embedded_errors, prune
from trainwright.controller.local.apiserver.schema.rules import FieldPathError, compile_rules, resolve, uses_old
from trainwright.controller.local.cel.schemas import misfit
from trainwright.controller.local.types.errors import (
    NOWHERE,
    DocumentError,
    forbidden,
    invalid,
    not_supported,
    required,
)
from trainwright.controller.local.types.go_json import DocumentDecodeError
from trainwright.controller.local.types.model import Type, custom_part
from trainwright.controller.local.types.patterns import PatternError, compiled
from trainwright.controller.local.values import join

Schema = Mapping[str, Any]
_Level = Literal["root", "item", "field"]

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_WHERE = {"root": "at the root", "item": "for specified array items", "field": "for specified object fields"}
_EMPTY = (
    *("type", "default", "title"),
    *("description", "nullable", "x-kubernetes-preserve-unknown-fields"),
    *("x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys"),
    *("x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-validations"),
)
_WITH_STATUS = frozenset(
    (
        *("description", "type", "format", "title", "maximum", "exclusiveMaximum"),
        *("minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems"),
        *("minItems", "uniqueItems", "multipleOf", "required", "items", "properties"),
        *("externalDocs", "example", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
    )
)
"""The words of a schema that its root may have where there is an endpoint for the status."""
_META = "must not specify anything other than name and generateName, but metadata is implicitly specified"
_NO_FIELDS = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"


def schema_errors(schema: Mapping[str, Any], path: str, *, status: bool) -> list[DocumentError]:
    """The errors of the schema of a version.

    Args:
        schema: `openAPIV3Schema`.
        path: of what it is in.
        status: there is an endpoint for the status.
    """
    at = f"{path}.openAPIV3Schema"
    found: list[DocumentError] = []
    if status:
        found += _root_errors(schema, at)
    if schema.get("nullable"):
        found.append(forbidden(f"{at}.nullable", "nullable cannot be true at the root"))
    # Later steps take for granted what earlier ones have made sure.
    wrong = structural_errors(schema, at) or default_errors(schema, at)
    return found + wrong + openapi_errors(schema, at, rules=not wrong)


def _root_errors(schema: Mapping[str, Any], path: str) -> Iterator[DocumentError]:
    if schema.get("type", "object") != "object":
        wrong = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield invalid(f"{path}.type", schema["type"], wrong)
    elif any(value and word not in _WITH_STATUS for word, value in schema.items()):
        yield invalid(
            path, dict(schema), "has fields that are not allowed at the root if the status subresource is enabled"
        )


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
    for word in _EMPTY:
        if schema.get(word):
            yield forbidden(f"{path}.{word}", "must not be set here, so that the schema is structural")
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


_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_OF_OBJECTS = ("metadata", "kind", "apiVersion")
_ALTERNATIVES = ("not", "allOf", "oneOf", "anyOf")
_LINE_BREAK = re.compile(r"[\n\r]")


@dataclass(frozen=True, slots=True)
class _Context:
    """What is around a schema."""

    no_defaults: str | None = None
    """Why defaults are not allowed; None if they are."""
    inside_metadata: bool = False
    uncorrelated: str = ""
    """The outermost schema in which old values have no counterpart."""
    rules: bool = True
    """Rules are compiled here."""


def openapi_errors(schema: Schema, path: str, *, rules: bool) -> list[DocumentError]:
    """The errors of a schema; `rules` to compile its rules, which is done where it is structural."""
    found, in_rules = _errors(schema, path, _Context(rules=rules), root=True)
    return found + in_rules


def _errors(
    schema: Any, path: str, context: _Context, *, root: bool = False
) -> tuple[list[DocumentError], list[DocumentError]]:
    """The errors of a schema, and those of its rules, which are only looked at if there are no others."""
    if not isinstance(schema, Mapping):
        return [], []
    found = [*_unsupported(schema, path, context)]
    in_rules: list[DocumentError] = []
    for inner, inner_path, inner_context in _parts(schema, path, context, root=root):
        more, more_rules = _errors(inner, inner_path, inner_context)
        found += more
        in_rules += more_rules
    found += [*_map_and_list_types(schema, path), *_list_map_keys(schema, path), *_unique_items(schema, path)]
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        found += _rule_words(rule, schema, f"{path}.x-kubernetes-validations[{index}]")
    if not found and context.rules:
        for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
            at = f"{path}.x-kubernetes-validations[{index}]"
            whole = root or bool(schema.get("x-kubernetes-embedded-resource"))
            in_rules += _rule_errors(rule, at, context, schema, root=whole)
    return found, in_rules


def _unsupported(schema: Schema, path: str, context: _Context) -> Iterator[DocumentError]:
    kind = schema.get("type") or ""
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if schema.get("default") is not None and context.no_defaults is not None:
        yield forbidden(f"{path}.default", f"must not be set {context.no_defaults}".rstrip())
    for word in _UNSUPPORTED:
        if schema.get(word):
            yield forbidden(f"{path}.{word}", f"{word} is not supported")
    if kind == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if context.inside_metadata and schema.get("x-kubernetes-embedded-resource"):
        yield forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")
    if schema.get("uniqueItems"):
        wrong = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", wrong)
    if schema.get("properties") and schema.get("additionalProperties") not in (None, True):
        wrong = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", wrong)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")


def _parts(schema: Schema, path: str, context: _Context, *, root: bool) -> Iterator[tuple[Any, str, _Context]]:
    """The schemas inside a schema, with their paths and contexts."""
    # Contexts are made only where there is a schema: definitions have thousands of schemas, most of them scalars.
    if isinstance(schema.get("additionalProperties"), Mapping):
        inner = context
        if context.inside_metadata:
            inner = replace(context, no_defaults="inside additionalProperties applying to object metadata")
        yield schema["additionalProperties"], f"{path}.additionalProperties", inner
    for name, one in (schema.get("properties") or {}).items():
        inner = context
        if (root or schema.get("x-kubernetes-embedded-resource")) and name in _OF_OBJECTS:
            inner = replace(inner, inside_metadata=True)
            if root:
                inner = replace(inner, no_defaults=f"in top-level {name}")
        yield one, f"{path}.properties[{name}]", inner
    if any(schema.get(word) for word in _ALTERNATIVES):
        without = replace(context, rules=False)
        yield schema.get("not"), f"{path}.not", without
        for word in _ALTERNATIVES[1:]:
            for index, one in enumerate(schema.get(word) or ()):
                yield one, f"{path}.{word}[{index}]", without
    if isinstance(schema.get("items"), Mapping):
        inner = context
        if schema.get("x-kubernetes-list-type") != "map" and not context.uncorrelated:
            inner = replace(context, uncorrelated=path)
        yield schema["items"], f"{path}.items", inner


def _map_and_list_types(schema: Schema, path: str) -> Iterator[DocumentError]:
    kind, map_type, list_type = schema.get("type") or "", *map(schema.get, _EXTENSIONS)
    for value, wanted, known, word in (
        (map_type, "object", ("atomic", "granular"), _EXTENSIONS[0]),
        (list_type, "array", ("atomic", "set", "map"), _EXTENSIONS[1]),
    ):
        if value is not None and kind != wanted:
            wrong = f"must be {wanted} if {word} is specified"
            yield invalid(f"{path}.type", kind, wrong) if kind else required(f"{path}.type", wrong)
        if value is not None and value not in known:
            yield not_supported(f"{path}.{word}", value, known)
    items = schema.get("items")
    if list_type == "set" and kind == "array" and isinstance(items, Mapping):
        yield from _set_items(items, f"{path}.items")


_EXTENSIONS = ("x-kubernetes-map-type", "x-kubernetes-list-type")


def _set_items(items: Schema, path: str) -> Iterator[DocumentError]:
    wrong = "must be atomic as item of a list with x-kubernetes-list-type=set"
    list_type, map_type = items.get("x-kubernetes-list-type"), items.get("x-kubernetes-map-type")
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        yield invalid(f"{path}.x-kubernetes-list-type", list_type, wrong)
    if items.get("type") == "object" and map_type != "atomic":
        # The server shows the list type here.
        yield invalid(f"{path}.x-kubernetes-map-type", list_type, wrong)


def _list_map_keys(schema: Schema, path: str) -> Iterator[DocumentError]:
    keys, list_type = schema.get("x-kubernetes-list-map-keys") or [], schema.get("x-kubernetes-list-type")
    items = schema.get("items")
    if keys and list_type != "map":
        at, wrong = f"{path}.x-kubernetes-list-type", "must be map if x-kubernetes-list-map-keys is non-empty"
        yield required(at, wrong) if list_type is None else invalid(at, list_type, wrong)
    if list_type != "map":
        return
    if not keys:
        wrong = "must not be empty if x-kubernetes-list-type is map"
        yield required(f"{path}.x-kubernetes-list-map-keys", wrong)
    if items is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    if not isinstance(items, Mapping):
        return
    if items.get("type") != "object":
        wrong = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), wrong)
        return
    properties: Mapping[str, Schema] = items.get("properties") or {}
    for index, key in enumerate(keys):
        if properties.get(key, {}).get("type") in ("array", "object"):
            wrong = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{path}.items.properties[{key}].type", "object", wrong)
        if key not in properties:
            yield invalid(f"{path}.x-kubernetes-list-map-keys", keys, "entries must all be names of item properties")
        if key in keys[:index]:
            yield invalid(f"{path}.x-kubernetes-list-map-keys", keys, "must not contain duplicate entries")


def _unique_items(schema: Schema, path: str) -> Iterator[DocumentError]:
    """Items of sets and map lists are not null, and keys of map lists are always there."""
    list_type, items = schema.get("x-kubernetes-list-type"), schema.get("items")
    if list_type not in ("set", "map") or not isinstance(items, Mapping):
        return
    if items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")
    if list_type == "set":
        return
    for key in schema.get("x-kubernetes-list-map-keys") or ():
        declared = (items.get("properties") or {}).get(key)
        if declared is None:
            continue
        at, this = f"{path}.items.properties[{key}]", "this property is in x-kubernetes-list-map-keys, so it"
        if key not in (items.get("required") or ()) and declared.get("default") is None:
            yield required(f"{at}.default", f"{this} must have a default or be a required property")
        if declared.get("nullable"):
            yield forbidden(f"{at}.nullable", f"{this} cannot be nullable")


def _rule_words(rule: Schema, schema: Schema, path: str) -> Iterator[DocumentError]:
    text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
    if not text:
        yield required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _LINE_BREAK.search(message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif _LINE_BREAK.search(text) and not message.strip():
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    if rule.get("messageExpression") and not rule["messageExpression"].strip():
        yield required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        yield not_supported(f"{path}.reason", rule["reason"], _REASONS)
    field = rule.get("fieldPath") or ""
    if field and not field.strip():
        yield invalid(f"{path}.fieldPath", field, "must be non-empty if specified")
    if _LINE_BREAK.search(field):
        yield invalid(f"{path}.fieldPath", field, "must not contain line breaks")
    if field:
        try:
            resolve(field, schema)
        except FieldPathError:
            yield invalid(f"{path}.fieldPath", field, "must be a valid path")


def _rule_errors(rule: Schema, path: str, context: _Context, schema: Schema, *, root: bool) -> Iterator[DocumentError]:
    optional = bool(rule.get("optionalOldSelf"))
    message = rule.get("messageExpression") or ""
    wrong = misfit(rule["rule"], schema, wanted="bool", root=root, optional=optional)
    if wrong:
        yield invalid(f"{path}.rule", dict(rule), wrong)
    elif message and (problem := misfit(message, schema, wanted="string", root=root, optional=optional)):
        yield invalid(f"{path}.messageExpression", dict(rule), problem)
    # Of a rule that does not compile, the server does not know what it uses.
    if not wrong and uses_old(rule["rule"]):
        if context.uncorrelated:
            wrong = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
            yield invalid(f"{path}.rule", rule["rule"], f"{wrong} {context.uncorrelated}")
    elif rule.get("optionalOldSelf") is not None:
        wrong = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{path}.optionalOldSelf", rule["optionalOldSelf"], wrong)


def default_errors(schema: Schema, path: str) -> list[DocumentError]:
    """The errors of all defaults in a structural schema. Defaults in maps are refused elsewhere."""
    found: list[DocumentError] = []
    if schema.get("default") is not None:
        found += _errors_of_default(schema, schema["default"], f"{path}.default")
    if isinstance(schema.get("items"), Mapping):
        found += default_errors(schema["items"], f"{path}.items")
    for name, inner in (schema.get("properties") or {}).items():
        found += default_errors(inner, f"{path}.properties[{name}]")
    return found


def _errors_of_default(schema: Schema, default: Any, path: str) -> list[DocumentError]:
    kind = custom_part(schema)
    found: list[DocumentError] = []
    pruned = copy.deepcopy(default)
    if isinstance(pruned, (dict, list)) and prune(kind, pruned):
        found.append(invalid(path, default, "must not have unknown fields"))
    return found + _value_errors(kind, copy.deepcopy(default), path)


def _value_errors(kind: Type, default: Any, path: str) -> list[DocumentError]:
    schema = kind.schema
    if isinstance(default, dict):
        try:
            decode_embedded(kind, default)
        except DocumentDecodeError as error:
            # The text begins with the field inside the default.
            return [DocumentError("FieldValueInvalid", path, str(error))]
        if wrong := embedded_errors(kind, default, path):
            return wrong
    problems = problems_of(compile_checks(schema, strict=False), default)
    if problems:
        return [_placed(problem.located(), path) for problem in problems]
    rules = compile_rules(schema)
    if rules is None:
        return []
    return rules.errors(default, default, path, None, None) or rules.errors(default, None, path, None, None)


def _placed(error: DocumentError, path: str) -> DocumentError:
    return error._replace(field=path if error.field == NOWHERE else join(path, error.field))
