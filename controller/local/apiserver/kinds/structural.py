# SPDX-License-Identifier: Apache-2.0
"""Whether the schema of a definition is structural and supported, with good rules and defaults: one walk over it.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
Source: `apiextensions-apiserver/pkg/apis/apiextensions/validation`. Costs of rules are not estimated.
"""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.custom import decode_embedded, embedded_errors, prune
from trainwright.controller.local.apiserver.kinds.rules import check, register
from trainwright.controller.local.apiserver.schema.checks import compile_checks, known_format, problems_of
from trainwright.controller.local.apiserver.schema.rules import FieldPathError, resolve, rule_errors, uses_old
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
from trainwright.controller.local.types.model import OF_OBJECTS, custom_part
from trainwright.controller.local.types.patterns import PatternError, compiled
from trainwright.controller.local.values import join

Schema = dict[str, Any]
Errors = Iterator[DocumentError]
_Level = Literal["root", "item", "field", "nested", "first", "loose"]

_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
_LINE_BREAK = re.compile(r"[\n\r]")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_PRESERVE, _EMBEDDED, _EITHER, _KEYS, _LIST, _MAP, _RULES = (
    *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"),
    *("x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-validations"),
)
_NOT_NESTED = (
    *("type", "default", "title", "description", "nullable"),
    *(_PRESERVE, _EMBEDDED, _EITHER, _KEYS, _LIST, _MAP, _RULES),
)
"""Words that an alternative may not hold."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a schema is."""

    level: _Level
    """`nested` in an alternative, `first` the first of `allOf`, `loose` where nothing needs to be structural."""
    no_defaults: str | None = None
    """Why defaults are not allowed; None if they are."""
    inside_metadata: bool = False
    in_map: bool = False
    """Defaults are not looked at here."""
    uncorrelated: str = ""
    """The outermost schema in which old values have no counterpart."""

    @property
    def is_alternative(self) -> bool:
        """Whether it belongs to an alternative, where no rule is looked at."""
        return self.level in ("nested", "first", "loose")


class SchemaReview:
    """What is wrong with `openAPIV3Schema`, or a part of one, at a path."""

    def __init__(self, schema: Schema, path: str) -> None:
        self.formats: list[tuple[str, str]] = []
        """Paths and names of formats that are not checked."""
        self._schema, self._path = schema, path
        self._structural: list[DocumentError] = []
        self._unsupported: list[DocumentError] = []
        self._defaults: list[tuple[Schema, str]] = []
        self._rules: list[tuple[Schema, str, _Place]] = []
        self._look(schema, path, _Place("root"))

    @cached_property
    def errors(self) -> list[DocumentError]:
        """All that is wrong."""
        schema, path = self._schema, self._path
        found: list[DocumentError] = []
        if schema.get("nullable"):
            found.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
        # Later steps take for granted what earlier ones have made sure.
        wrong = sorted(self._structural, key=str)
        wrong = wrong or [one for each in self._defaults for one in _errors_of_default(*each)]
        of_rules = [] if wrong else [one for each in self._rules for one in _rule_errors(*each)]
        return [*found, *wrong, *self._unsupported, *of_rules]

    def _look(self, schema: Any, path: str, place: _Place) -> bool:
        """Look at a schema and what is in it; whether all of it is supported."""
        if not isinstance(schema, dict):
            return True
        form = schema.get("format")
        if form and not known_format(form, schema.get("type") or ""):
            self.formats.append((path, form))
        if place.level != "loose":
            self._structural += _pattern_errors(schema, path)
            self._structural += _nested(schema, path) if place.is_alternative else _invariants(schema, path, place)
        known = len(self._unsupported)
        self._unsupported += _unsupported(schema, path, place)
        inside = [self._look(*part) for part in _parts(schema, path, place)]
        self._unsupported += _list_map_keys(schema, path)
        rules = schema.get(_RULES) or ()
        for index, rule in enumerate(rules):
            self._unsupported += _rule_words(rule, schema, f"{path}.{_RULES}[{index}]")
        is_good = all(inside) and len(self._unsupported) == known
        if not place.is_alternative:
            if rules and is_good:
                self._rules.append((schema, path, place))
            if schema.get("default") is not None and not place.in_map:
                self._defaults.append((schema, f"{path}.default"))
        return is_good


def _parts(schema: Schema, path: str, place: _Place) -> Iterator[tuple[Any, str, _Place]]:
    """The schemas inside a schema, with their paths and places."""
    # Places are made only where they differ: definitions have thousands of schemas, most of them scalars.
    nested: _Level = "loose" if place.level == "loose" else "nested"
    field = replace(place, level=nested if place.is_alternative else "field") if place.level != "field" else place
    others, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(others, dict):
        inner = replace(field, level="loose" if place.is_alternative else "field", in_map=True)
        if place.inside_metadata:
            inner = replace(inner, no_defaults="inside additionalProperties applying to object metadata")
        yield others, f"{path}.additionalProperties", inner
    root = place.level == "root"
    for name, one in (schema.get("properties") or {}).items():
        inner = field
        if (root or schema.get(_EMBEDDED)) and name in OF_OBJECTS:
            no_defaults = f"in top-level {name}" if root else place.no_defaults
            inner = replace(field, inside_metadata=True, no_defaults=no_defaults)
        yield one, f"{path}.properties[{name}]", inner
    if schema.get("not") is not None:
        yield schema["not"], f"{path}.not", replace(place, level=nested)
    for word in _ALTERNATIVES:
        for index, one in enumerate(schema.get(word) or ()):
            level = nested
            if word == "allOf" and index == 0 and not place.is_alternative and schema.get("anyOf") != _INT_OR_STRING:
                level = "first"
            elif word == "anyOf" and schema[word] == _INT_OR_STRING and place.level != "nested":
                # An int-or-string may say its types in `anyOf`, or in the first of `allOf`.
                level = "loose"
            yield one, f"{path}.{word}[{index}]", replace(place, level=level)
    if isinstance(items, dict):
        inner = replace(field, level="item") if field.level == "field" else field
        if schema.get(_LIST) != "map" and not place.uncorrelated:
            inner = replace(inner, uncorrelated=path)
        yield items, f"{path}.items", inner


def _invariants(schema: Schema, path: str, place: _Place) -> list[DocumentError]:
    """What keeps a schema from being structural."""
    found = check("StructuralSchema", schema, path)
    if schema.get(_EMBEDDED):
        found += check("EmbeddedSchema", schema, path)
    return found + check("RootSchema", schema, path) if place.level == "root" else found


@register("metadata of objects")
def _metadata_errors(schema: Document, path: str, _: Document) -> list[DocumentError]:
    metadata = (schema.get("properties") or {}).get("metadata") or {}
    # Defaults are refused elsewhere.
    beyond = any(metadata[word] for word in metadata.keys() - {"type", "properties", "default"})
    if beyond or (metadata.get("properties") or {}).keys() - {"name", "generateName"}:
        return [forbidden(f"{path}.properties[metadata]", "must not specify anything other than name, generateName")]
    return []


def _nested(schema: Schema, path: str) -> Errors:
    """What keeps an alternative from being structural."""
    if schema.get("additionalProperties"):
        yield forbidden(f"{path}.additionalProperties", "must be undefined to be structural")
    for word in _NOT_NESTED:
        if schema.get(word):
            yield forbidden(f"{path}.{word}", "must not be set here, so that the schema is structural")
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _pattern_errors(schema: Schema, path: str) -> Errors:
    if schema.get("pattern"):
        try:
            compiled(schema["pattern"])
        except PatternError as error:
            wrong = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", schema["pattern"], wrong)


def _unsupported(schema: Schema, path: str, place: _Place) -> Errors:
    yield from check("SchemaWords", schema, path)
    if schema.get(_MAP) is not None:
        yield from check("MapSchema", schema, path)
    if schema.get(_LIST) is not None:
        yield from check("ListSchema", schema, path)
    if schema.get("default") is not None and place.no_defaults is not None:
        yield forbidden(f"{path}.default", f"must not be set {place.no_defaults}")
    for word in _UNSUPPORTED:
        if schema.get(word):
            yield forbidden(f"{path}.{word}", f"{word} is not supported")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.inside_metadata and schema.get(_EMBEDDED):
        yield forbidden(f"{path}.{_EMBEDDED}", "must not be used inside of resource meta")
    if schema.get("properties") and schema.get("additionalProperties") not in (None, True):
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")


def _list_map_keys(schema: Schema, path: str) -> Errors:
    """Keys of map lists are scalars that are always there."""
    keys, list_type, items = schema.get(_KEYS) or [], schema.get(_LIST), schema.get("items")
    if keys and list_type != "map":
        wrong = f"must be map if {_KEYS} is non-empty"
        yield required(f"{path}.{_LIST}", wrong) if list_type is None else invalid(f"{path}.{_LIST}", list_type, wrong)
    if list_type != "map" or not isinstance(items, dict) or items.get("type") != "object":
        return
    properties = items.get("properties") or {}
    for index, key in enumerate(keys):
        if key not in properties:
            yield invalid(f"{path}.{_KEYS}", keys, "entries must all be names of item properties")
        if key in keys[:index]:
            yield invalid(f"{path}.{_KEYS}", keys, "must not contain duplicate entries")
        yield from _key_field(
            properties.get(key), f"{path}.items.properties[{key}]", key in (items.get("required") or ())
        )


def _key_field(schema: Schema | None, path: str, is_required: bool) -> Errors:
    if schema is None:
        return
    if schema.get("type") in ("array", "object"):
        yield invalid(f"{path}.type", schema["type"], f"must be a scalar type, because it is in {_KEYS}")
    if not is_required and schema.get("default") is None:
        yield required(f"{path}.default", f"must have a default or be a required property, because it is in {_KEYS}")
    if schema.get("nullable"):
        yield forbidden(f"{path}.nullable", f"cannot be nullable, because it is in {_KEYS}")


def _rule_words(rule: Schema, schema: Schema, path: str) -> Errors:
    text, message, field = (rule.get("rule") or "").strip(), rule.get("message") or "", rule.get("fieldPath") or ""
    if not text:
        yield required(f"{path}.rule", "rule is not specified")
    elif _LINE_BREAK.search(message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif _LINE_BREAK.search(text) and not message.strip():
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        yield not_supported(f"{path}.reason", rule["reason"], _REASONS)
    if field:
        try:
            resolve(field, custom_part(schema))
        except FieldPathError:
            yield invalid(f"{path}.fieldPath", field, "must be a valid path")


def _rule_errors(schema: Schema, path: str, place: _Place) -> Errors:
    root, kind = place.level == "root" or bool(schema.get(_EMBEDDED)), custom_part(schema)
    for index, rule in enumerate(schema[_RULES]):
        at, message = f"{path}.{_RULES}[{index}]", rule.get("messageExpression") or ""
        optional = bool(rule.get("optionalOldSelf"))
        wrong = misfit(rule["rule"], kind, wanted="bool", root=root, optional=optional)
        if wrong:
            yield invalid(f"{at}.rule", dict(rule), wrong)
        elif message and (problem := misfit(message, kind, wanted="string", root=root, optional=optional)):
            yield invalid(f"{at}.messageExpression", dict(rule), problem)
        # Of a rule that does not compile, the server does not know what it uses.
        if not wrong and uses_old(rule["rule"]):
            if place.uncorrelated:
                wrong = (
                    f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelated}"
                )
                yield invalid(f"{at}.rule", rule["rule"], wrong)
        elif rule.get("optionalOldSelf") is not None:
            yield invalid(f"{at}.optionalOldSelf", optional, "may not be set if oldSelf is not used in rule")


def _errors_of_default(schema: Schema, path: str) -> Errors:
    kind, default = custom_part(schema), schema["default"]
    pruned, decoded = copy.deepcopy(default), copy.deepcopy(default)
    if isinstance(pruned, (dict, list)) and prune(kind, pruned):
        yield invalid(path, default, "must not have unknown fields")
    if isinstance(decoded, dict):
        try:
            decode_embedded(kind, decoded)
        except DocumentDecodeError as error:
            # The text begins with the field inside the default.
            yield invalid(path, default, str(error))
            return
        if wrong := embedded_errors(kind, decoded, path):
            yield from wrong
            return
    problems = problems_of(compile_checks(kind, strict=False), decoded)
    for one in problems:
        located = one.located()
        yield located._replace(field=path if located.field == NOWHERE else join(path, located.field))
    if not problems:
        yield from list(rule_errors(kind, decoded, decoded, path)) or rule_errors(kind, decoded, None, path)
