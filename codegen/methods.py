# SPDX-License-Identifier: Apache-2.0
"""Writes what a struct has beside its fields.

- `MERGE`, a table: how several writers share its fields.
- `<field>_or_empty` for each field that is a struct and may be absent: the struct, or an empty one to read from.
- `DEFAULTS`, a table: the defaults that the API server would set. One that a schema cannot express is a function
  `default_<Struct>` in the hand-written module `defaulting.py` of the package, which `set_defaults` calls last.
"""

import ast
from pathlib import Path

from trainwright.codegen.catalog import Catalog
from trainwright.codegen.definition import Definition, Package, Schema
from trainwright.codegen.structs import Class

_PLAIN = frozenset({"str", "int", "float", "bool", "Any"})


def _is_struct(annotation: ast.expr) -> bool:
    """Whether values are structs, or absent."""
    options = {ast.unparse(option) for option in _union(annotation)} - {"None"}
    return len(options) == 1 and "[" not in (text := options.pop()) and text not in _PLAIN


def _union(annotation: ast.expr) -> list[ast.expr]:
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return [*_union(annotation.left), *_union(annotation.right)]
    return [annotation]


def accessors(made: Class, annotations: dict[str, str]) -> str:
    """Text of the attributes. Reading through them needs no check for None; `annotations` are texts by attribute."""
    rows: list[str] = []
    for item in made.fields:
        if item.required or not _is_struct(item.annotation):
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
    """Knows the hand-written functions for defaults."""

    def __init__(self, catalog: Catalog, api: Path) -> None:
        self._catalog = catalog
        self._hooks = {
            f"{package.key}/{name.removeprefix('default_')}"
            for package in catalog.packages()
            for name in _functions(api / package.folder / _HOOKS)
        }

    def table(self, made: Class, definition: Definition) -> str:
        """Text of the class variable; empty for a struct without defaults."""
        properties = definition.schema.get("properties", {})
        found = {item.attribute: self._catalog.resolve(properties[item.wire]).get("default") for item in made.fields}
        values = ((name, _literal(one) if isinstance(one, str) else repr(one)) for name, one in found.items())
        rows = "".join(f'        "{name}": {value},\n' for name, value in values if value != "None")
        return f"    DEFAULTS: ClassVar[Mapping[str, Any]] = {{\n{rows}    }}\n" if rows else ""

    def method(self, definition: Definition) -> str:
        """Text of the method that calls the hand-written function; empty for a struct without one."""
        if definition.key not in self._hooks:
            return ""
        call = _call(definition.package, definition.name)
        return f"    def set_defaults(self) -> None:\n        Struct.set_defaults(self)\n{call}"


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
