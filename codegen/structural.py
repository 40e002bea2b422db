# SPDX-License-Identifier: Apache-2.0
"""Checks authored schemas: those of the API server, with the line of each mistake, and those of the generated code.

Whether a schema is structural, and its rules and defaults are good, is judged by the code of the local API server, on
the schema without references. A server would also refuse such a definition, but only when it is installed, and with a
path through expanded types. The types of Kubernetes are not checked.
"""

import re
from collections.abc import Callable

from trainwright.api.manifest import Path
from trainwright.codegen.catalog import NOWHERE, Catalog
from trainwright.codegen.crd import expand
from trainwright.codegen.definition import Definition, Kind, Problems, Schema, subschemas
from trainwright.codegen.structs import MEMBERS_OF_KINDS, USED_NAMES, attribute, is_struct
from trainwright.controller.local.apiserver.kinds.structural import SchemaReview

_WORDS_OF = {
    "string": ("pattern", "minLength", "maxLength"),
    "array": ("items", "minItems", "maxItems", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
    "object": (
        *("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
        *("x-kubernetes-map-type", "x-kubernetes-preserve-unknown-fields"),
    ),
}
"""Keywords that apply to one type only."""
_OF_NUMBERS = ("minimum", "maximum")
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
    _review_all(catalog, problems)
    _check_versions(catalog, problems)


def _check_versions(catalog: Catalog, problems: Problems) -> None:
    """The versions of one kind, each in a file of its own, become one definition."""
    kinds: dict[tuple[str, str], list[Kind]] = {}
    for kind in catalog.kinds.values():
        if kind.crd is not None:
            kinds.setdefault((kind.definition.package.group, kind.plural), []).append(kind)
    for versions in kinds.values():
        specs = [kind.crd["spec"] for kind in versions if kind.crd is not None]
        first = versions[0].definition
        for kind, spec in zip(versions[1:], specs[1:], strict=True):
            for word in ("scope", "names"):
                if spec[word] != specs[0][word]:
                    kind.definition.complain(problems, (), f"spec.{word} must be as in {first.file}")
        stored = [kind for kind, spec in zip(versions, specs, strict=True) if spec["versions"][0]["storage"]]
        if len(stored) != 1:
            where = ", ".join(kind.definition.file for kind in stored) or "none"
            first.complain(problems, (), f"exactly one version must have storage: true; here it is {where}")


def _check_definition(catalog: Catalog, definition: Definition, problems: Problems) -> None:
    def complain(path: Path, message: str) -> None:
        definition.complain(problems, path, message)

    if definition.name in USED_NAMES:
        complain((), "is a name that generated code uses for something else: rename the definition")
    if definition.schema.get("type") != "object":
        complain((), "a definition must be of type object; write other types where they are used")
    for path, schema in subschemas(definition.schema):
        _check_shape(schema, path, complain)
        _check_words(catalog.resolve(schema), path, complain)
        if "properties" in schema:
            _check_names(catalog, definition, schema, path, complain)


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
    if path and "properties" in schema:
        complain(path, "an object with fields needs a name: move it to definitions and refer to it with $ref")


def _check_words(schema: Schema, path: Path, complain: Complain) -> None:
    kind = schema.get("type")
    foreign = [word for other, words in _WORDS_OF.items() if other != kind for word in words]
    foreign += () if kind in ("integer", "number") else _OF_NUMBERS
    for word in foreign if kind is not None else ():
        if word in schema:
            complain(path, f"{word} has no meaning for type {kind}")
    for least, most in _PAIRS:
        if least in schema and most in schema and schema[least] > schema[most]:
            complain(path, f"{least} {schema[least]} is greater than {most} {schema[most]}")
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in properties:
            complain((*path, "required"), f"{name} is required but is not a field")


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


_STEP = re.compile(r"\.(?:properties\[([^]]*)\]|(items|additionalProperties)(?![\w-])|([\w-]+)(?:\[(\d+)\])?)")
_RULES = "x-kubernetes-validations"


def _review_all(catalog: Catalog, problems: Problems) -> None:
    """What an API server says of the kinds, and of definitions that no kind refers to."""
    stored = {kind.definition.key for kind in catalog.kinds.values() if kind.crd is not None}
    reached: set[str] = set()
    for definition in sorted(catalog.definitions.values(), key=lambda one: one.key not in catalog.kinds):
        if definition.document is None or definition.key in reached:
            continue
        reached |= _reached(catalog, definition.key)
        whole = expand(catalog, definition.schema, root=definition.key in stored)
        review = SchemaReview(whole, "")
        for error in review.errors:
            _complain(catalog, definition, whole, error.field, error.message, problems)
        for path, form in review.formats:
            _complain(catalog, definition, whole, f"{path}.format", f"unrecognized format {form}", problems)


def _reached(catalog: Catalog, key: str) -> set[str]:
    found = {key}
    for _, part in subschemas(catalog.definitions[key].schema):
        if "$ref" in part:
            found |= _reached(catalog, part["$ref"])
    return found


def _complain(
    catalog: Catalog, definition: Definition, whole: Schema, field: str, message: str, problems: Problems
) -> None:
    """Complain of a field of an expanded schema, in the definition that it comes from."""
    schema = definition.schema
    inside: Path = ()
    for step in _STEP.finditer(field):
        name, part, word, index = step.groups()
        number = int(index or 0)
        follows = "$ref" in schema and word not in schema  # words beside a reference take precedence
        if "$ref" in schema and word == _RULES:
            inherited = len(catalog.resolve({"$ref": schema["$ref"]}).get(_RULES, ()))
            follows, number = number < inherited, number if number < inherited else number - inherited
        if follows:
            target = catalog.definitions[schema["$ref"]]
            if target.document is None:  # a type of Kubernetes: complain of the reference
                message = f"{field[step.start() + 1 :]}: {message}"
                break
            definition = target
            schema, inside = definition.schema, ()
        if name is not None:
            schema, whole, inside = schema["properties"][name], whole["properties"][name], (*inside, "properties", name)
        elif part in schema:
            schema, whole, inside = schema[part], whole[part], (*inside, part)
        else:
            if word in schema:
                inside = (*inside, word, number) if index else (*inside, word)
            message = f"{field[step.start() + 1 :]}: {message}"
            break
    if NOWHERE not in repr(whole):
        definition.complain(problems, inside, message.splitlines()[0])
