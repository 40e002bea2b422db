# SPDX-License-Identifier: Apache-2.0
"""Writes the table `MERGE` of a struct: how several writers share its fields."""

from trainwright.codegen.catalog import Catalog
from trainwright.codegen.definition import Definition, Schema
from trainwright.codegen.text import literal


def table(catalog: Catalog, definition: Definition) -> str:
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
