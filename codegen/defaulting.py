# SPDX-License-Identifier: Apache-2.0
"""Writes the method `set_defaults` of a struct, which sets the defaults that the API server would set.

Like the server it sets the defaults of a struct before those of the values inside it, and creates no absent objects. A
default that a schema cannot express is a function `default_<Struct>` in the hand-written module `defaulting.py` of the
package, which is called last.
"""

import ast
from pathlib import Path
from typing import Any

from trainwright.codegen.catalog import Catalog
from trainwright.codegen.definition import Definition, Package, Schema
from trainwright.codegen.shape import FieldShape, Form, shape_of
from trainwright.codegen.structs import Class, StructField
from trainwright.codegen.text import literal

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
        return literal(value)
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
