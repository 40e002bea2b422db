# SPDX-License-Identifier: Apache-2.0
"""Checks that schemas are structural, so that an API server can prune, default and merge by them.

The server would refuse an invalid CustomResourceDefinition too, but only when it is installed, with one error at a time
and with a path through expanded types. The types of Kubernetes are not checked.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from trainwright.api.manifest import Path
from trainwright.codegen.catalog import NOWHERE, Catalog
from trainwright.codegen.crd import expand
from trainwright.codegen.definition import Definition, Kind, Problems, Schema, subschemas
from trainwright.codegen.structs import MEMBERS_OF_KINDS, USED_NAMES, attribute, is_struct
from trainwright.controller.local.cel.expression import EvaluationError, compiled
from trainwright.controller.local.cel.schemas import bound, compile_conversion, misfit
from trainwright.controller.local.types.formats import check_of
from trainwright.controller.local.types.patterns import PatternError
from trainwright.controller.local.types.patterns import compiled as compiled_pattern

_WORDS_OF = {
    "format": {"string", "integer", "number"},
    "enum": {"string", "integer"},
    "pattern": {"string"},
    "minLength": {"string"},
    "maxLength": {"string"},
    "minimum": {"integer", "number"},
    "maximum": {"integer", "number"},
    "items": {"array"},
    "minItems": {"array"},
    "maxItems": {"array"},
    "x-kubernetes-list-type": {"array"},
    "x-kubernetes-list-map-keys": {"array"},
    "properties": {"object"},
    "required": {"object"},
    "additionalProperties": {"object"},
    "minProperties": {"object"},
    "maxProperties": {"object"},
    "x-kubernetes-map-type": {"object"},
    "x-kubernetes-preserve-unknown-fields": {"object"},
}
"""Keywords that apply to some types only."""

_FORMATS = {
    "string": {"date-time", "byte"},
    "integer": {"int32", "int64"},
    "number": {"float", "double"},
}
_PAIRS = (
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)

Complain = Callable[[Path, str], None]


def check(catalog: Catalog, problems: Problems) -> None:
    before = len(problems.found)
    _check_cycles(catalog, problems)
    if len(problems.found) > before:
        return  # the other checks follow references, and would not end
    for definition in catalog.definitions.values():
        if definition.document is not None:
            _check_definition(catalog, definition, problems)
    for kind in catalog.kinds.values():
        if kind.definition.document is not None:
            _check_kind(kind.definition, stored=kind.crd is not None, problems=problems)
            _check_document(catalog, kind, problems)


def _check_definition(catalog: Catalog, definition: Definition, problems: Problems) -> None:
    def complain(path: Path, message: str) -> None:
        definition.complain(problems, path, message)

    if definition.name in USED_NAMES:
        complain((), "is a name that generated code uses for something else: rename the definition")
    if definition.schema.get("type") != "object":
        complain((), "a definition must be of type object; write other types where they are used")
    for path, schema in subschemas(definition.schema):
        _check_shape(schema, path, complain)
        resolved = catalog.resolve(schema)
        _check_words(resolved, path, complain)
        _check_list(catalog, resolved, path, complain)
        if "properties" in schema:
            _check_names(catalog, definition, schema, path, complain)
        whole = expand(catalog, schema) if "x-kubernetes-validations" in resolved or "default" in schema else {}
        if NOWHERE in repr(whole):
            continue
        fits = _check_rules(schema, whole, path, complain, root=not path and definition.key in catalog.kinds)
        if "default" in schema and fits:
            for where, message in _wrong_values(whole, schema["default"]):
                complain((*path, "default"), f"{where}{message}")
    _check_transition_rules(catalog, definition.schema, (), complain, correlatable=True)


def _check_kind(definition: Definition, *, stored: bool, problems: Problems) -> None:
    properties = definition.schema.get("properties", {})
    needed = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    if stored:
        needed["metadata"] = {"$ref": "meta/v1/ObjectMeta"}
    for name, wanted in needed.items():
        found = {word: value for word, value in properties.get(name, {}).items() if word != "description"}
        if found != wanted:
            definition.complain(problems, ("properties", name), f"a kind must have this field as {wanted}")


def _check_document(catalog: Catalog, kind: Kind, problems: Problems) -> None:
    """What stands around the schema of a stored kind: its names, and the fields that its columns show."""
    definition, document, crd = kind.definition, kind.definition.document, kind.crd
    if crd is None or document is None:
        return

    def complain(path: Path, message: str) -> None:
        problems.add(definition.file, document.line(path), kind.name, message)

    names, group = crd["spec"]["names"], crd["spec"]["group"]
    if crd["metadata"]["name"] != f"{names['plural']}.{group}":
        complain(("metadata", "name"), f"metadata.name must be {names['plural']}.{group}")
    if names["listKind"] == names["kind"]:
        complain(("spec", "names", "listKind"), "kind and listKind must differ")
    for index, column in enumerate(crd["spec"]["versions"][0].get("additionalPrinterColumns", ())):
        schema = definition.schema
        steps = re.findall(r"\.([\w-]+)", column["jsonPath"].partition("[")[0])
        for name in () if steps[:1] == ["metadata"] else steps:
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if not isinstance(inner, dict):
                if not schema.get("x-kubernetes-preserve-unknown-fields"):
                    at = ("spec", "versions", 0, "additionalPrinterColumns", index, "jsonPath")
                    complain(at, f"column {column['name']} shows {column['jsonPath']}, and there is no field {name}")
                break
            schema = catalog.resolve(inner)


def _check_shape(schema: Schema, path: Path, complain: Complain) -> None:
    if "$ref" in schema:
        stray = sorted(schema.keys() & {"type", "properties", "items", "additionalProperties", "required"})
        if stray:
            complain(path, f"{', '.join(stray)} cannot be used beside $ref, whose target has it")
        return
    if "type" not in schema and not schema.get("x-kubernetes-int-or-string"):
        complain(path, "needs a type, or a $ref to a definition that has one")
    if path and "properties" in schema:
        complain(path, "an object with fields needs a name: move it to definitions and refer to it with $ref")
    if "properties" in schema and "additionalProperties" in schema:
        complain(
            path, "is either an object with fields or a map: properties and additionalProperties exclude each other"
        )
    if schema.get("type") == "array" and "items" not in schema:
        complain(path, "an array needs items")


def _check_words(schema: Schema, path: Path, complain: Complain) -> None:
    kind = schema.get("type")
    for word, kinds in _WORDS_OF.items():
        if word in schema and kind is not None and kind not in kinds:
            complain(path, f"{word} has no meaning for type {kind}")
    if "format" in schema and kind in _FORMATS and schema["format"] not in _FORMATS[kind]:
        complain(path, f"format {schema['format']} has no meaning for type {kind}")
    for least, most in _PAIRS:
        if least in schema and most in schema and schema[least] > schema[most]:
            complain(path, f"{least} {schema[least]} is greater than {most} {schema[most]}")
    for value in schema.get("enum", ()):
        if kind in _PYTHON_TYPES and not _is_of_type(value, kind):
            complain(path, f"enum value {value!r} is not of type {kind}")
    if "pattern" in schema and not _compiles(schema["pattern"]):
        complain(path, f"pattern {schema['pattern']!r} is not a regular expression")
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in properties:
            complain((*path, "required"), f"{name} is required but is not a field")


def _check_rules(schema: Schema, whole: Schema, path: Path, complain: Complain, *, root: bool) -> bool:
    """Whether the rules of a schema fit it.

    Args:
        schema: as it was written.
        whole: the same without references.
        path: of the schema.
        complain: takes what is wrong.
        root: it is the schema of a kind.
    """
    fits = True
    for index, rule in enumerate(schema.get("x-kubernetes-validations", ())):
        if problem := misfit(rule["rule"], whole, wanted="bool", root=root):
            fits = False
            first = problem.splitlines()[0].removeprefix("ERROR: ").removeprefix("<input>:")
            complain((*path, "x-kubernetes-validations", index), f"rule {rule['rule']!r} does not fit: {first}")
    return fits


def _check_list(catalog: Catalog, schema: Schema, path: Path, complain: Complain) -> None:
    kind = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys")
    if (keys is not None) != (kind == "map"):
        complain(path, "x-kubernetes-list-map-keys and x-kubernetes-list-type: map need each other")
        return
    if kind not in ("set", "map") or "items" not in schema:
        return
    items = catalog.resolve(schema["items"])
    if NOWHERE in items:
        return
    scalar = items.get("type") not in ("object", "array")
    atomic = "atomic" in (items.get("x-kubernetes-map-type"), items.get("x-kubernetes-list-type"))
    if kind == "set" and not scalar and not atomic:
        complain(path, "items of a set must be plain values, or atomic")
    for key in keys or ():
        _check_key(catalog, items, key, path, complain)


def _check_key(catalog: Catalog, items: Schema, key: str, path: Path, complain: Complain) -> None:
    properties = items.get("properties", {})
    if key not in properties:
        complain(path, f"list key {key} is not a field of the items")
        return
    resolved = catalog.resolve(properties[key])
    if resolved.get("type") in ("object", "array"):
        complain(path, f"list key {key} must be a plain value")
    if key not in items.get("required", ()) and "default" not in resolved:
        complain(path, f"list key {key} must be required or have a default, so that every item has a key")


def _check_names(catalog: Catalog, definition: Definition, schema: Schema, path: Path, complain: Complain) -> None:
    """No two members of the class may have one name: a field is lost behind another member, silently."""
    taken = {"_".join(one.module.split(".")[-2:]): f"the types of {one.key}" for one in catalog.packages()}
    if not path and (kind := catalog.kinds.get(definition.key)) is not None and kind.plural:
        taken |= dict.fromkeys(MEMBERS_OF_KINDS, "a member of every kind")
    properties = schema["properties"]
    for name, child in properties.items():
        whole = catalog.resolve(child)
        if is_struct(whole) and (name not in schema.get("required", ()) or "default" in whole):
            taken[f"{attribute(name)}_or_empty"] = f"the property for reading field {name}"
    for name in properties:
        python = attribute(name)
        if python in taken:
            complain(
                (*path, "properties", name), f"would become the attribute {python}, like {taken[python]}: rename it"
            )
        taken.setdefault(python, f"field {name}")


def _check_transition_rules(
    catalog: Catalog, schema: Schema, path: Path, complain: Complain, *, correlatable: bool
) -> None:
    """A rule with oldSelf needs the old value, which cannot be found for items of atomic lists and sets."""
    for index, rule in enumerate(schema.get("x-kubernetes-validations", ())):
        if not correlatable and re.search(r"\boldSelf\b", rule["rule"]):
            complain(
                (*path, "x-kubernetes-validations", index), "oldSelf cannot be used inside a list without map keys"
            )
    for name, child in schema.get("properties", {}).items():
        _check_transition_rules(catalog, child, (*path, "properties", name), complain, correlatable=correlatable)
    if isinstance(items := schema.get("items"), dict):
        found = correlatable and schema.get("x-kubernetes-list-type") == "map"
        _check_transition_rules(catalog, items, (*path, "items"), complain, correlatable=found)
        if not found and "$ref" in items:
            _check_referenced_rules(catalog, items["$ref"], path, complain)
    if isinstance(values := schema.get("additionalProperties"), dict):
        _check_transition_rules(catalog, values, (*path, "additionalProperties"), complain, correlatable=correlatable)


def _check_referenced_rules(catalog: Catalog, key: str, path: Path, complain: Complain) -> None:
    for _, part in subschemas(catalog.definitions[key].schema):
        for rule in part.get("x-kubernetes-validations", ()):
            if re.search(r"\boldSelf\b", rule["rule"]):
                complain(
                    (*path, "items"), f"{key} has a rule with oldSelf, which cannot be used in a list without map keys"
                )


def _check_cycles(catalog: Catalog, problems: Problems) -> None:
    """A CustomResourceDefinition cannot be recursive, because every reference is expanded."""
    done: set[str] = set()

    def visit(key: str, trail: tuple[str, ...]) -> None:
        if key in trail:
            definition = catalog.definitions[key]
            ring = " -> ".join((*trail[trail.index(key) :], key))
            definition.complain(problems, (), f"refers to itself ({ring}); schemas cannot be recursive")
            return
        if key in done:
            return
        for _, part in subschemas(catalog.definitions[key].schema):
            if "$ref" in part:
                visit(part["$ref"], (*trail, key))
        done.add(key)

    for key, definition in catalog.definitions.items():
        if definition.document is not None:
            visit(key, ())


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def _wrong_values(schema: Schema, value: Any, where: str = "") -> list[tuple[str, str]]:
    """The errors of a default by its own schema, which has no references: a path inside it, and the problem."""
    here = f"{where}: " if where else ""
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        fits = _is_of_type(value, "integer") or _is_of_type(value, "string")
        return [] if fits else [(here, f"{value!r} is neither integer nor string")]
    if kind in _PYTHON_TYPES and not _is_of_type(value, kind):
        article = "an" if kind in ("integer", "array", "object") else "a"
        return [(here, f"default {value!r} is not {article} {kind}")]
    wrong = [(here, f"default {value!r} {message}") for message in _broken_limits(schema, value)]
    if isinstance(value, dict):
        wrong.extend(_wrong_fields(schema, value, where))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            wrong.extend(_wrong_values(schema["items"], item, f"{where}[{index}]"))
    if not wrong:
        wrong = [(here, f"default {value!r} {message}") for message in _broken_rules(schema, value)]
    return wrong


def _wrong_fields(schema: Schema, value: dict[str, Any], where: str) -> list[tuple[str, str]]:
    wrong: list[tuple[str, str]] = []
    properties = schema.get("properties", {})
    here = f"{where}: " if where else ""
    absent = [name for name in schema.get("required", ()) if name not in value]
    wrong.extend((here, f"default lacks the required field {name}") for name in absent)
    for name, item in value.items():
        inner = properties.get(name, schema.get("additionalProperties"))
        path = f"{where}.{name}" if where else name
        if isinstance(inner, dict):
            wrong.extend(_wrong_values(inner, item, path))
        elif not schema.get("x-kubernetes-preserve-unknown-fields"):
            wrong.append((f"{path}: ", "default has a field that the schema does not know"))
    return wrong


def _broken_rules(schema: Schema, value: Any) -> Iterator[str]:
    """As on the API server, a rule about an update compares the default with itself."""
    for one in schema.get("x-kubernetes-validations", ()):
        rule = one["rule"]
        convert = compile_conversion(schema, ordered=False)
        given = convert(value) if convert else value
        try:
            program = compiled(bound(rule, schema, old="oldSelf" in rule, optional=False, to="bool"))
        except ValueError:
            continue  # the rule itself is complained of where it is checked
        try:
            holds = program.run({"newValue": given, "oldValue": given})
        except EvaluationError as error:
            yield f"fails the rule {rule!r}: {error}"
        else:
            if holds is not True:
                yield f"breaks the rule {rule!r}"


def _broken_limits(schema: Schema, value: Any) -> list[str]:
    broken: list[str] = []
    if "enum" in schema and value not in schema["enum"]:
        broken.append(f"is not one of {schema['enum']}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            broken.append(f"is below the minimum {schema['minimum']}")
        if value > schema.get("maximum", value):
            broken.append(f"is above the maximum {schema['maximum']}")
        if schema.get("format") == "int32" and not -(2**31) <= value < 2**31:
            broken.append("is not of format int32")
    if isinstance(value, list | dict):
        least, most = ("minItems", "maxItems") if isinstance(value, list) else ("minProperties", "maxProperties")
        if not schema.get(least, 0) <= len(value) <= schema.get(most, len(value)):
            word = least if len(value) < schema.get(least, 0) else most
            broken.append(f"does not fit {word} {schema[word]}")
    return broken + _broken_text_limits(schema, value) if isinstance(value, str) else broken


def _broken_text_limits(schema: Schema, value: str) -> list[str]:
    broken: list[str] = []
    if len(value) < schema.get("minLength", 0):
        broken.append(f"is shorter than minLength {schema['minLength']}")
    if len(value) > schema.get("maxLength", len(value)):
        broken.append(f"is longer than maxLength {schema['maxLength']}")
    pattern = schema.get("pattern", "")
    if _compiles(pattern) and not compiled_pattern(pattern).search(value):
        broken.append(f"does not match {pattern}")
    if (fits := check_of(schema.get("format", ""))) is not None and not fits(value):
        broken.append(f"is not of format {schema['format']}")
    return broken


def _is_of_type(value: Any, kind: str) -> bool:
    """Whether a YAML value has a type of the schema; true and false are not numbers."""
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _PYTHON_TYPES[kind])


def _compiles(pattern: str) -> bool:
    try:
        compiled_pattern(pattern)
    except PatternError:
        return False
    return True
