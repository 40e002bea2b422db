# SPDX-License-Identifier: Apache-2.0
"""Writes the Python packages: structs with copies, defaults and merge words, and the front of each package.

What a field's type is comes from `codegen.structs`; what the schema says of it beyond its type comes from the catalog.
"""

import ast
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.codegen.catalog import Catalog
from trainwright.codegen.definition import Definition, Kind, Package, Schema
from trainwright.codegen.openapi import MODULE
from trainwright.codegen.output import MARK
from trainwright.codegen.structs import Class, Field, Module

BANNER = f"# SPDX-License-Identifier: Apache-2.0\n# {MARK} Edit those, not this file.\n"
_QUIET = "# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105\n# fmt: off\n"
_ROOT = "trainwright.api"
_WIDTH = 120
_HOOKS = "defaulting.py"
"""A hand-written module of this name, beside the generated one, may complete the defaults of a struct."""


def packages(catalog: Catalog, modules: dict[str, Module], api: Path) -> dict[str, str]:
    """Text of every generated Python file, by its path below api/."""
    files: dict[str, str] = {}
    for package in catalog.packages():
        writer = _Writer(catalog, package, modules[package.module], _hooks(api / package.folder / _HOOKS))
        files[f"{package.folder}/{MODULE}.py"] = writer.module()
        files[f"{package.folder}/__init__.py"] = _front(package, modules[package.module])
        for parent in Path(package.folder).parents:
            if parent.name:
                files.setdefault(f"{parent.as_posix()}/__init__.py", _folder(parent.name))
    return files


def _hooks(path: Path) -> set[str]:
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def _folder(name: str) -> str:
    return f'{BANNER}"""API groups below `{name}`, one package each."""\n'


def _front(package: Package, module: Module) -> str:
    names = sorted((made.name for made in module.classes), key=str.casefold)
    source = f"{_ROOT}.{package.module}.{MODULE}"
    imports = "".join(f"    {name},\n" for name in names)
    exported = "".join(f'    "{name}",\n' for name in sorted(names))
    return (
        f'{BANNER}"""The types of {_spoken(package)}."""\n\n'
        f"from {source} import (\n{imports})\n\n__all__ = [\n{exported}]\n"
    )


def _spoken(package: Package) -> str:
    return f"{package.group}/{package.version}" if package.group else package.key


@dataclass(frozen=True)
class _Shape:
    """What has to be copied or defaulted: a struct, a list or map of something, open JSON, or a plain value."""

    word: str
    inner: "_Shape | None" = None
    name: str = ""
    """Python text of a struct's class."""


class _Writer:
    """Writes one module."""

    def __init__(self, catalog: Catalog, package: Package, module: Module, hooks: set[str]) -> None:
        self._catalog = catalog
        self._package = package
        self._module = module
        self._hooks = hooks
        self._base: set[str] = set()
        self._needs: set[str] = set()
        self._aliases = {alias: _alias(target) for alias, target in module.imports.items()}
        self._defaulted: dict[str, bool] = {}

    def module(self) -> str:
        """The whole text."""
        body = "".join(f"\n\n{self._struct(made)}" for made in self._module.classes)
        about = f'"""The structs of {_spoken(self._package)}; import them from the package."""\n'
        return f"{BANNER}{_QUIET}{about}\n{self._imports(body)}{body}"

    def _imports(self, body: str) -> str:
        lines: list[str] = []
        if "Mapping[" in body:
            lines.append("from collections.abc import Mapping")
        typing = [name for name in ("Any", "ClassVar", "Literal", "Self") if re.search(rf"\b{name}\b", body)]
        if typing:
            lines.append(f"from typing import {', '.join(typing)}")
        third = [name for name in ("convert", "field") if re.search(rf"\b{name}\(", body)]
        third_line = [f"from msgspec import {', '.join(third)}"] if third else []
        own = [f"from {_ROOT}.base import {', '.join(sorted(self._base))}"]
        for alias, target in sorted(self._module.imports.items(), key=lambda item: item[1]):
            parent, _, last = f"{_ROOT}.{target}".rpartition(".")
            own.append(f"from {parent}.{last} import {MODULE} as {self._aliases[alias]}")
        blocks = ["\n".join(block) for block in (lines, third_line, own) if block]
        return "\n\n".join(blocks) + "\n"

    def _struct(self, made: Class) -> str:
        definition = self._catalog.definitions[f"{self._package.key}/{made.name}"]
        kind = self._catalog.kinds.get(definition.key)
        stored = kind is not None and bool(kind.plural)
        base = "Object" if stored else "Struct"
        self._base.add(base)
        parts = [self._head(made, base, definition)]
        if stored and kind is not None:
            parts.append(self._resource(kind))
        parts.append(self._merge(definition))
        parts.append("".join(self._field(item, definition) for item in made.fields))
        parts.append(self._deepcopy(made))
        parts.append(self._set_defaults(made, definition))
        text = "\n".join(part for part in parts if part)
        return text if len([part for part in parts if part]) > 1 or '"""' in text else f"{text}    pass\n"

    def _head(self, made: Class, base: str, definition: Definition) -> str:
        about = definition.schema.get("description") or _default_docstring(definition)
        return f"class {made.name}({base}, kw_only=True):\n{_docstring(about)}"

    def _resource(self, kind: Kind) -> str:
        self._base.add("Resource")
        package = kind.definition.package
        return (
            "    RESOURCE: ClassVar[Resource] = Resource(\n"
            f'        group="{package.group}",\n        version="{package.version}",\n        kind="{kind.name}",\n'
            f'        plural="{kind.plural}",\n        namespaced={kind.namespaced},\n    )\n'
        )

    def _merge(self, definition: Definition) -> str:
        rows: list[str] = []
        for wire, child in definition.schema.get("properties", {}).items():
            text = _merge_text(self._catalog.resolve(child))
            if text:
                rows.append(f"        {wire!r}: {text},\n".replace("'", '"'))
        if not rows:
            return ""
        self._base.add("Merge")
        return f"    MERGE: ClassVar[Mapping[str, Merge]] = {{\n{''.join(rows)}    }}\n"

    def _field(self, item: Field, definition: Definition) -> str:
        arguments = [f'name="{item.wire}"'] if item.wire != item.attribute else []
        if not item.required:
            arguments.append("default=None")
        if item.wire != item.attribute:
            value = f" = field({', '.join(arguments)})"
        else:
            value = "" if item.required else " = None"
        line = f"    {item.attribute}: {self._annotation(item)}{value}\n"
        about = definition.schema["properties"][item.wire].get("description")
        return line + (_docstring(about) if about else "")

    def _annotation(self, item: Field) -> str:
        text = item.text().replace("'", '"')
        for alias, name in sorted(self._aliases.items(), reverse=True):
            text = re.sub(rf"(?<![\w.]){alias}\.", f"@{name}.", text)
        return text.replace("@", "")

    def _deepcopy(self, made: Class) -> str:
        rows: list[str] = []
        for item in made.fields:
            shape = self._shape(item.annotation)
            if shape.word == "plain":
                continue
            copied = self._copied(shape, f"n.{item.attribute}")
            if item.required:
                rows.append(f"        n.{item.attribute} = {copied}\n")
            else:
                rows.append(f"        if n.{item.attribute} is not None:\n            n.{item.attribute} = {copied}\n")
        if not rows:
            return ""
        return f"    def deepcopy(self) -> Self:\n        n = self.__copy__()\n{''.join(rows)}        return n\n"

    def _copied(self, shape: _Shape, value: str, depth: int = 0) -> str:
        if shape.word == "struct":
            return f"{value}.deepcopy()"
        if shape.word == "open":
            self._base.add("copy_open")
            return f"copy_open({value})"
        if shape.inner is None or shape.inner.word == "plain":
            return f"{value}.copy()"
        item = "xyzabc"[depth]
        inner = self._copied(shape.inner, item, depth + 1)
        if shape.word == "list":
            return f"[{inner} for {item} in {value}]"
        return f"{{k{depth}: {inner} for k{depth}, {item} in {value}.items()}}"

    def _shape(self, annotation: ast.expr) -> _Shape:
        options = [option for option in _union(annotation) if ast.unparse(option) != "None"]
        if len(options) != 1:
            return _Shape("plain")
        option = options[0]
        if isinstance(option, ast.Subscript):
            outer = ast.unparse(option.value)
            if outer == "list":
                return _Shape("list", self._shape(option.slice))
            if outer == "dict" and isinstance(option.slice, ast.Tuple):
                value = option.slice.elts[1]
                return _Shape("open") if ast.unparse(value) == "Any" else _Shape("map", self._shape(value))
            return _Shape("plain")
        text = ast.unparse(option)
        if text in ("str", "int", "float", "bool"):
            return _Shape("plain")
        return _Shape("struct", name=self._annotation(Field("", "", option, required=True)))

    def _set_defaults(self, made: Class, definition: Definition) -> str:
        rows: list[str] = []
        for item in made.fields:
            child = definition.schema["properties"][item.wire]
            if "default" in self._catalog.resolve(child):
                value = self._catalog.resolve(child)["default"]
                rows.append(f"        if self.{item.attribute} is None:\n")
                rows.append(f"            self.{item.attribute} = {self._default(item, value)}\n")
        for item in made.fields:
            rows.extend(self._descend(item, definition.schema["properties"][item.wire]))
        hook = f"default_{made.name}"
        if hook in self._hooks:
            rows.append(f"        from {_ROOT}.{self._package.module}.defaulting import {hook}\n\n")
            rows.append(f"        {hook}(self)\n")
        return f"    def set_defaults(self) -> None:\n{''.join(rows)}" if rows else ""

    def _default(self, item: Field, value: Any) -> str:
        if isinstance(value, str | int | float | bool):
            return _literal(value)
        shape = self._shape(item.annotation)
        if shape.word == "struct":
            return f"{shape.name}()" if value == {} else f"convert({value!r}, {shape.name})"
        if shape.word in ("list", "map") and shape.inner is not None and shape.inner.word != "plain":
            return f"convert({value!r}, {self._annotation(item)})"
        return repr(value)

    def _descend(self, item: Field, schema: Schema) -> list[str]:
        shape = self._shape(item.annotation)
        steps: list[_Shape] = []
        part = schema
        while shape.word in ("list", "map") and shape.inner is not None:
            part = self._catalog.resolve(part)
            part = part["items"] if shape.word == "list" else part["additionalProperties"]
            steps.append(shape)
            shape = shape.inner
        if shape.word != "struct" or not self._has_defaults(part["$ref"]):
            return []
        name = f"self.{item.attribute}"
        if not steps:
            if item.required:
                return [f"        {name}.set_defaults()\n"]
            return [f"        if {name} is not None:\n            {name}.set_defaults()\n"]
        rows: list[str] = []
        indent = "        "
        empty = "()" if steps[0].word == "list" else "{}"
        source = name if item.required else f"{name} or {empty}"
        source = f"({source})" if steps[0].word == "map" and not item.required else source
        for depth, step in enumerate(steps):
            variable = f"{item.attribute}_{depth}" if depth else f"each_{item.attribute}"
            rows.append(f"{indent}for {variable} in {source}{'' if step.word == 'list' else '.values()'}:\n")
            indent += "    "
            source = variable
        rows.append(f"{indent}{source}.set_defaults()\n")
        return rows

    def _has_defaults(self, key: str) -> bool:
        known = self._defaulted.get(key)
        if known is not None:
            return known
        self._defaulted[key] = False
        definition = self._catalog.definitions[key]
        found = f"default_{definition.name}" in self._hooks and definition.package == self._package
        for child in definition.schema.get("properties", {}).values():
            found = found or self._below(child)
        self._defaulted[key] = found
        return found

    def _below(self, schema: Schema) -> bool:
        if "default" in schema:
            return True
        if "$ref" in schema:
            target = self._catalog.definitions[schema["$ref"]]
            return "default" in target.schema or self._has_defaults(target.key)
        values = schema.get("additionalProperties")
        return any(self._below(inner) for inner in (schema.get("items"), values) if isinstance(inner, dict))


def _alias(target: str) -> str:
    return "_".join(target.split(".")[-2:])


def _union(annotation: ast.expr) -> list[ast.expr]:
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return [*_union(annotation.left), *_union(annotation.right)]
    return [annotation]


def _default_docstring(definition: Definition) -> str:
    return f"{definition.name} of {_spoken(definition.package)}."


def _docstring(text: str) -> str:
    safe = " ".join(text.split()).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    line = f'    """{safe}"""\n'
    if len(line) <= _WIDTH + 1:
        return line
    wrapped = textwrap.wrap(safe, _WIDTH - 4, initial_indent='    """', subsequent_indent="    ")
    return "\n".join(wrapped) + '\n    """\n'


def _literal(value: str | float | bool) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)


def _merge_text(schema: Schema) -> str:
    """The constructor of what a schema says of merging; empty when that is what holds anyway."""
    usual, word = ("atomic", "list") if schema.get("type") == "array" else ("granular", "map")
    kind = schema.get(f"x-kubernetes-{word}-type", usual)
    keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    patch = tuple(word for word in schema.get("x-kubernetes-patch-strategy", "").split(",") if word)
    patch_key = schema.get("x-kubernetes-patch-merge-key", "")
    if not (keys or patch or patch_key) and kind == usual:
        return ""
    arguments = [repr(kind)]
    arguments += [f"keys={keys!r}"] if keys else []
    arguments += [f"patch={patch!r}"] if patch else []
    arguments += [f"patch_key={patch_key!r}"] if patch_key else []
    return f"Merge({', '.join(arguments)})"
