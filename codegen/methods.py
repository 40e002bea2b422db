# SPDX-License-Identifier: Apache-2.0
"""Writes what a struct has beside its fields and its defaults.

- `MERGE`, a table: how several writers share its fields.
- `<field>_or_empty` for each field that is a struct and may be absent: the struct, or an empty one to read from.
- `deepcopy`: a shallow copy in C, followed by copies of the mutable parts.
"""

from trainwright.codegen.catalog import Catalog
from trainwright.codegen.definition import Definition, Schema
from trainwright.codegen.shape import FieldShape, Form, shape_of
from trainwright.codegen.structs import Class
from trainwright.codegen.text import literal


def accessors(made: Class, annotations: dict[str, str]) -> str:
    """Text of the properties. Reading through them needs no check for None; `annotations` are texts by attribute."""
    rows: list[str] = []
    for item in made.fields:
        if item.required or shape_of(item.annotation).form is not Form.STRUCT:
            continue
        kind = annotations[item.attribute].strip('"').removesuffix(" | None")
        told = f'"{kind}"' if item.forward else kind
        rows.append(
            f"    @property\n    def {item.attribute}_or_empty(self) -> {told}:\n"
            f"        return self.{item.attribute} or empty({kind})\n"
        )
    return "\n".join(rows)


def deepcopy(made: Class) -> str:
    """Text of the method; empty for a struct without mutable parts, which inherits it."""
    rows: list[str] = []
    for item in made.fields:
        shape = shape_of(item.annotation)
        if shape.form is Form.PLAIN:
            continue
        name = f"n.{item.attribute}"
        if item.required:
            rows.append(f"        {name} = {_copied(shape, name)}\n")
        else:
            rows.append(f"        if {name} is not None:\n            {name} = {_copied(shape, name)}\n")
    if not rows:
        return ""
    return f"    def deepcopy(self) -> Self:\n        n = self.__copy__()\n{''.join(rows)}        return n\n"


def _copied(shape: FieldShape, value: str, depth: int = 0) -> str:
    if shape.form is Form.STRUCT:
        return f"{value}.deepcopy()"
    if shape.form is Form.OPEN:
        return f"copy_open({value})"
    if shape.inner is None or shape.inner.form is Form.PLAIN:
        return f"{value}.copy()"
    item = f"x{depth or ''}"
    inner = _copied(shape.inner, item, depth + 1)
    if shape.form is Form.LIST:
        return f"[{inner} for {item} in {value}]"
    return f"{{k{depth or ''}: {inner} for k{depth or ''}, {item} in {value}.items()}}"


def merges(catalog: Catalog, definition: Definition) -> str:
    """Text of the class variable; empty if the schema declares nothing but the default behaviour."""
    rows: list[str] = []
    for wire, child in definition.schema.get("properties", {}).items():
        merge = _merge(catalog.resolve(child))
        if merge:
            rows.append(f"        {literal(wire)}: {merge},\n")
    return f"    MERGE: ClassVar[Mapping[str, Merge]] = {{\n{''.join(rows)}    }}\n" if rows else ""


def _merge(schema: Schema) -> str:
    usual, word = ("atomic", "list") if schema.get("type") == "array" else ("granular", "map")
    kind = schema.get(f"x-kubernetes-{word}-type", usual)
    keys = schema.get("x-kubernetes-list-map-keys", ())
    patch = [strategy for strategy in schema.get("x-kubernetes-patch-strategy", "").split(",") if strategy]
    patch_key = schema.get("x-kubernetes-patch-merge-key", "")
    arguments = [literal(kind)]
    arguments += [f"keys={_tuple(keys)}"] if keys else []
    arguments += [f"patch={_tuple(patch)}"] if patch else []
    arguments += [f"patch_key={literal(patch_key)}"] if patch_key else []
    if len(arguments) == 1 and kind == usual:
        return ""
    return f"Merge({', '.join(arguments)})"


def _tuple(words: list[str]) -> str:
    inner = ", ".join(literal(word) for word in words)
    return f"({inner},)" if len(words) == 1 else f"({inner})"
