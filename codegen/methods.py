# SPDX-License-Identifier: Apache-2.0
"""Writes what a struct has beside its fields.

- `MERGE`, a table: how several writers share its fields.
- `<field>_or_empty` for each field that is a struct and may be absent: the struct, or an empty one to read from.
- `set_defaults`, which sets the defaults that the API server would set. Like the server it sets the defaults of a
  struct before those of the values inside it, and creates no absent objects. A default that a schema cannot express is
  a function `default_<Struct>` in the hand-written module `defaulting.py` of the package, which is called last.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from trainwright.codegen.catalog import Catalog
from trainwright.codegen.definition import Definition, Package, Schema
from trainwright.codegen.structs import Class, StructField

_PLAIN = frozenset({"str", "int", "float", "bool"})


class Form(Enum):
    PLAIN = "plain"
    """Immutable: text, numbers, truth values, and unions of them."""
    STRUCT = "struct"
    LIST = "list"
    MAP = "map"
    OPEN = "open"
    """Any JSON."""


@dataclass(frozen=True)
class FieldShape:
    form: Form
    inner: "FieldShape | None" = None
    """The shape of items of a list or of values of a map."""

    def nested(self) -> "Iterator[FieldShape]":
        """The lists and maps from the outermost one on, followed by what they hold."""
        shape: FieldShape | None = self
        while shape is not None:
            yield shape
            shape = shape.inner


def shape_of(annotation: ast.expr) -> FieldShape:
    """The shape that an annotation describes, without `None`."""
    options = [option for option in _union(annotation) if ast.unparse(option) != "None"]
    if len(options) != 1:
        return FieldShape(Form.PLAIN)
    (option,) = options
    if isinstance(option, ast.Subscript):
        return _container(option)
    text = ast.unparse(option)
    if text == "Any":
        return FieldShape(Form.OPEN)
    return FieldShape(Form.PLAIN if text in _PLAIN else Form.STRUCT)


def _container(annotation: ast.Subscript) -> FieldShape:
    outer = ast.unparse(annotation.value)
    if outer == "list":
        return FieldShape(Form.LIST, shape_of(annotation.slice))
    if outer == "dict" and isinstance(annotation.slice, ast.Tuple):
        value = annotation.slice.elts[1]
        return FieldShape(Form.OPEN) if ast.unparse(value) == "Any" else FieldShape(Form.MAP, shape_of(value))
    return FieldShape(Form.PLAIN)  # Literal


def _union(annotation: ast.expr) -> list[ast.expr]:
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return [*_union(annotation.left), *_union(annotation.right)]
    return [annotation]


def accessors(made: Class, annotations: dict[str, str]) -> str:
    """Text of the attributes. Reading through them needs no check for None; `annotations` are texts by attribute."""
    rows: list[str] = []
    for item in made.fields:
        if item.required or shape_of(item.annotation).form is not Form.STRUCT:
            continue
        kind = annotations[item.attribute].strip('"').removesuffix(" | None")
        if item.forward:  # its class is not defined yet
            rows.append(
                f'\n    @property\n    def {item.attribute}_or_empty(self) -> "{kind}":\n'
                f"        return self.{item.attribute} or empty({kind})\n"
            )
        else:
            rows.append(f"    {item.attribute}_or_empty = OrEmpty({kind})\n")
    return "".join(rows)


def merges(catalog: Catalog, definition: Definition) -> str:
    """Text of the class variable; empty if the schema declares nothing but the default behaviour."""
    rows: list[str] = []
    for wire, child in definition.schema.get("properties", {}).items():
        merge = _merge(catalog.resolve(child))
        if merge:
            rows.append(f"        {_literal(wire)}: {merge},\n")
    return f"    MERGE: ClassVar[Mapping[str, Merge]] = {{\n{''.join(rows)}    }}\n" if rows else ""


def _merge(schema: Schema) -> str:
    usual, word = ("atomic", "list") if schema.get("type") == "array" else ("granular", "map")
    kind = schema.get(f"x-kubernetes-{word}-type", usual)
    keys = schema.get("x-kubernetes-list-map-keys", ())
    patch = [strategy for strategy in schema.get("x-kubernetes-patch-strategy", "").split(",") if strategy]
    patch_key = schema.get("x-kubernetes-patch-merge-key", "")
    arguments = [_literal(kind)]
    arguments += [f"keys={_tuple(keys)}"] if keys else []
    arguments += [f"patch={_tuple(patch)}"] if patch else []
    arguments += [f"patch_key={_literal(patch_key)}"] if patch_key else []
    if len(arguments) == 1 and kind == usual:
        return ""
    return f"Merge({', '.join(arguments)})"


def _tuple(words: list[str]) -> str:
    inner = ", ".join(_literal(word) for word in words)
    return f"({inner},)" if len(words) == 1 else f"({inner})"


_HOOKS = "defaulting.py"


class DefaultsWriter:
    """Finds the definitions that have defaults in or below them."""

    def __init__(self, catalog: Catalog, api: Path) -> None:
        self._catalog = catalog
        self._known: dict[str, bool] = {}
        self._hooks = {
            f"{package.key}/{name.removeprefix('default_')}"
            for package in catalog.packages()
            for name in _functions(api / package.folder / _HOOKS)
        }

    def method(self, made: Class, definition: Definition, annotations: dict[str, str]) -> str:
        """Text of the method; empty for a struct without defaults. `annotations` are texts by attribute."""
        rows: list[str] = []
        properties = definition.schema.get("properties", {})
        for item in made.fields:
            resolved = self._catalog.resolve(properties[item.wire])
            if "default" in resolved:
                value = _value(item, resolved["default"], annotations[item.attribute])
                rows.append(f"        if self.{item.attribute} is None:\n            self.{item.attribute} = {value}\n")
        rows.extend(self._inside(item, properties[item.wire]) for item in made.fields)
        if definition.key in self._hooks:
            rows.append(_call(definition.package, definition.name))
        text = "".join(rows)
        return f"    def set_defaults(self) -> None:\n{text}" if text else ""

    def _inside(self, item: StructField, schema: Schema) -> str:
        *containers, last = shape_of(item.annotation).nested()
        part = schema
        for container in containers:
            part = self._catalog.resolve(part)
            part = part["items"] if container.form is Form.LIST else part["additionalProperties"]
        if last.form is not Form.STRUCT or not self._below(part):
            return ""
        name = f"self.{item.attribute}"
        if containers:
            return _loops(item, containers)
        if item.required:
            return f"        {name}.set_defaults()\n"
        return f"        if {name} is not None:\n            {name}.set_defaults()\n"

    def _below(self, schema: Schema) -> bool:
        if "$ref" in schema:
            target = self._catalog.definitions[schema["$ref"]]
            return self._has(target)
        inner = [schema.get("items"), schema.get("additionalProperties")]
        return any(self._below(part) for part in inner if isinstance(part, dict))

    def _has(self, definition: Definition) -> bool:
        known = self._known.get(definition.key)
        if known is None:
            self._known[definition.key] = False  # a reference to itself adds no defaults
            known = definition.key in self._hooks or any(
                "default" in self._catalog.resolve(child) or self._below(child)
                for child in definition.schema.get("properties", {}).values()
            )
            self._known[definition.key] = known
        return known


def _loops(item: StructField, containers: list[FieldShape]) -> str:
    empty = "()" if containers[0].form is Form.LIST else "{}"
    source = f"self.{item.attribute}" if item.required else f"self.{item.attribute} or {empty}"
    rows: list[str] = []
    for depth, container in enumerate(containers):
        variable = f"each_{item.attribute}{depth or ''}"
        if container.form is Form.MAP:
            source = f"({source}).values()" if " " in source else f"{source}.values()"
        rows.append(f"{'    ' * (depth + 2)}for {variable} in {source}:\n")
        source = variable
    return f"{''.join(rows)}{'    ' * (len(containers) + 2)}{source}.set_defaults()\n"


def _value(item: StructField, value: Any, annotation: str) -> str:
    if isinstance(value, str | int | float | bool):
        return _literal(value)
    shape = shape_of(item.annotation)
    kind = annotation.removesuffix(" | None")
    if shape.form is Form.STRUCT and value == {}:
        return f"{kind}()"
    plain = shape.form is Form.OPEN or (shape.inner is not None and shape.inner.form is Form.PLAIN)
    return repr(value) if plain else f"convert({value!r}, {kind})"


def _call(package: Package, name: str) -> str:
    hook = f"{package.root}.{package.module}.defaulting"
    return f"        from {hook} import default_{name}\n\n        default_{name}(self)\n"


def _functions(path: Path) -> set[str]:
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return {name for name in functions if name.startswith("default_")}


def _literal(value: str | float | bool) -> str:
    """A value as Python writes it, text in double quotes."""
    text = repr(value)
    return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in text else text
