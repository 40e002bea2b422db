# SPDX-License-Identifier: Apache-2.0
"""Writes the Python packages: in each the module of structs, and the file that exports them.

The types of fields come from `codegen.structs`; everything else about fields comes from the catalog.
"""

import ast
import re
import textwrap
from pathlib import Path

from trainwright.codegen import methods
from trainwright.codegen.catalog import Catalog
from trainwright.codegen.definition import API, Definition, Kind, Package
from trainwright.codegen.methods import DefaultsWriter
from trainwright.codegen.output import BANNER
from trainwright.codegen.structs import MODULE, Class, StructField, StructModule

_QUIET = "# ruff: noqa: RUF100, C901, E501, PLC0415, PLR0912, PLR0915, S105\n# fmt: off\n"
_FROM = {
    "collections.abc": ("Mapping",),
    "typing": ("Any", "ClassVar", "Literal"),
    "msgspec": ("field",),
    f"{API}.base": ("Merge", "Object", "OrEmpty", "Resource", "Struct", "empty"),
}
"""The imports that generated code may need; each line imports the names that are used."""
_WIDTH = 120


def packages(catalog: Catalog, modules: dict[str, StructModule], api: Path) -> dict[str, str]:
    """Text of every generated Python file, by its path below api/."""
    files: dict[str, str] = {}
    defaulting = DefaultsWriter(catalog, api)
    for package in catalog.packages():
        if package.root != catalog.root:
            continue  # Kubernetes' own, for another project
        module = modules[package.module]
        files[f"{package.folder}/{MODULE}.py"] = _Writer(catalog, package, module, defaulting).text()
        files[f"{package.folder}/__init__.py"] = _front(package, module)
        for parent in Path(package.folder).parents:
            if parent.name:
                files.setdefault(f"{parent.as_posix()}/__init__.py", front_of_folder(parent.name))
    return files


def front_of_folder(name: str) -> str:
    """The `__init__.py` of a folder of packages."""
    return f'{BANNER}"""API groups below `{name}`, one package each."""\n'


def _front(package: Package, module: StructModule) -> str:
    names = [made.name for made in module.classes]
    imports = "".join(f"    {name},\n" for name in sorted(names, key=str.casefold))
    exported = "".join(f'    "{name}",\n' for name in sorted(names))
    return (
        f'{BANNER}"""The types of {_spoken(package)}."""\n\n'
        f"from {package.root}.{package.module}.{MODULE} import (\n{imports})\n\n__all__ = [\n{exported}]\n"
    )


def _spoken(package: Package) -> str:
    return f"{package.group}/{package.version}" if package.group else package.key


class _Writer:
    def __init__(self, catalog: Catalog, package: Package, module: StructModule, defaulting: DefaultsWriter) -> None:
        self._catalog = catalog
        self._package = package
        self._module = module
        self._defaulting = defaulting
        self._aliases = {alias: "_".join(target.split(".")[-2:]) for alias, target in module.imports.items()}

    def text(self) -> str:
        body = "".join(f"\n\n{self._struct(made)}" for made in self._module.classes)
        about = f'"""The structs of {_spoken(self._package)}; import them from the package."""\n'
        return f"{BANNER}{_QUIET}{about}\n{self._imports(body)}{body}"

    def _imports(self, body: str) -> str:
        spoken = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
        lines: dict[str, list[str]] = {}
        for source, names in _FROM.items():
            used = [name for name in names if name in spoken]
            if used:
                block = "ours" if source.startswith(API) else "msgspec" if source == "msgspec" else "python"
                lines.setdefault(block, []).append(f"from {source} import {', '.join(used)}")
        for alias, target in sorted(self._module.imports.items(), key=lambda item: item[1]):
            root = API if target.startswith("kubernetes.") else self._package.root
            block = "ours" if root.partition(".")[0] == "trainwright" else "theirs"
            lines.setdefault(block, []).append(f"from {root}.{target} import {MODULE} as {self._aliases[alias]}")
        return "\n\n".join("\n".join(block) for block in lines.values()) + "\n"

    def _struct(self, made: Class) -> str:
        definition = self._catalog.definitions[f"{self._package.key}/{made.name}"]
        kind = self._catalog.kinds.get(definition.key)
        stored = kind if kind is not None and kind.plural else None
        annotations = {item.attribute: self._annotation(item) for item in made.fields}
        about = definition.schema.get("description") or f"{made.name} of {_spoken(self._package)}."
        parts = [
            f"class {made.name}({'Object' if stored else 'Struct'}, kw_only=True):\n{_docstring(about)}",
            _resource(stored) if stored else "",
            methods.merges(self._catalog, definition),
            self._defaulting.table(made, definition),
            "".join(_field(item, annotations[item.attribute], definition) for item in made.fields),
            methods.accessors(made, annotations),
            self._defaulting.method(definition),
        ]
        return "\n".join(part for part in parts if part)

    def _annotation(self, item: StructField) -> str:
        text = item.text().replace("'", '"')
        for alias, name in sorted(self._aliases.items(), reverse=True):
            text = re.sub(rf"(?<![\w.@]){alias}\.", f"@{name}.", text)
        return text.replace("@", "")


def _resource(kind: Kind) -> str:
    package = kind.definition.package
    words = {
        "group": f'"{package.group}"',
        "version": f'"{package.version}"',
        "kind": f'"{kind.name}"',
        "plural": f'"{kind.plural}"',
        "namespaced": kind.namespaced,
    }
    rows = "".join(f"        {word}={value},\n" for word, value in words.items())
    return f"    RESOURCE: ClassVar[Resource] = Resource(\n{rows}    )\n"


def _field(item: StructField, annotation: str, definition: Definition) -> str:
    if item.wire != item.attribute:
        default = "" if item.required else ", default=None"
        value = f' = field(name="{item.wire}"{default})'
    else:
        value = "" if item.required else " = None"
    about = definition.schema["properties"][item.wire].get("description")
    return f"    {item.attribute}: {annotation}{value}\n{_docstring(about) if about else ''}"


def _docstring(text: str) -> str:
    safe = " ".join(text.split()).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if safe.endswith('"'):
        safe += " "
    line = f'    """{safe}"""\n'
    if len(line) <= _WIDTH + 1:
        return line
    wrapped = textwrap.wrap(safe, _WIDTH - 4, initial_indent='    """', subsequent_indent="    ")
    return "\n".join(wrapped) + '\n    """\n'
