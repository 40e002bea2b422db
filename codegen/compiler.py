# SPDX-License-Identifier: Apache-2.0
"""Compiles authored schemas into the text of every generated file: ours, or those of another project. Writes nothing.

`trainwright generate DIR` compiles the schemas of another project. They are authored as those in api/ are, and may
refer to types of Kubernetes. These are not made again: the models import them from `trainwright.api.kubernetes`. There
is no last release to compare with, and no reference page.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import trainwright.api
from trainwright.codegen import catalog, crd, output, python, reference, released, structs, structural
from trainwright.codegen.definition import API, Problems
from trainwright.codegen.released import SchemaChange
from trainwright.codegen.structs import is_struct


@dataclass(frozen=True)
class Compiled:
    files: dict[str, str]
    """Text of every generated file, by its path below the root."""
    changes: list[SchemaChange]
    """Differences from the last release."""
    unacknowledged: list[SchemaChange]
    """The breaking ones that are not acknowledged."""
    release: dict[str, str]
    """The files that would make the current schemas the released ones."""


def compile_all(root: Path, progress: Callable[[str], None] = lambda _: None) -> Compiled:
    """Compile everything below `root`. Raises `CompileError` with all problems."""
    api = root / "api"
    problems = Problems()
    progress("reading the schemas")
    known = catalog.read(api, problems)
    structural.check(known, problems)
    problems.stop_if_any()
    changes = released.changes(known, root)
    open_changes = released.unacknowledged(changes, root, problems)
    problems.stop_if_any()
    progress(f"making structs of {len(known.definitions)} definitions")
    modules = structs.generate(known)
    files = {f"api/{path}": text for path, text in python.packages(known, modules, api).items()}
    progress("expanding CustomResourceDefinitions")
    files.update({f"config/crd/{path}": text for path, text in crd.files(known).items()})
    files.update(crd.shipped(known))
    progress("writing JSON Schemas and reference pages")
    files.update({f"api/{path}": text for path, text in crd.json_schemas(known).items()})
    files.update({f"docs/api/{path}": text for path, text in reference.files(known).items()})
    return Compiled(files, changes, open_changes, released.snapshot(known))


class Project:
    """A folder of schemas, and where what is made of them goes."""

    def __init__(self, folder: Path, *, package: str = "", crds: Path | None = None) -> None:
        """Args:
        folder: its schemas lie in folders below it, one for each group and version, such as `boats/v1/boat.yaml`.
        package: dotted name under which Python imports the folder; empty: its name, and those of the packages above.
        crds: folder of the CustomResourceDefinitions; None: `crds` beside the folder.
        """
        self._folder = folder.resolve()
        self._package = package or _package_of(self._folder)
        self._crds = (crds or self._folder.parent / "crds").resolve()
        self.root = Path(os.path.commonpath([self._folder, self._crds]))
        self.folders = tuple(path.relative_to(self.root).as_posix() for path in (self._folder, self._crds))

    def compile(self) -> dict[str, str]:
        """Text of every generated file, by path below `root`. Raises `CompileError` with all problems."""
        problems = Problems()
        if not self._folder.is_dir():
            problems.add(str(self._folder), 0, "", "is not a folder")
        if not all(part.isidentifier() for part in self._package.split(".")):
            problems.add(str(self._folder), 0, "", f"{self._package!r} is no name of a package: pass --package")
        problems.stop_if_any()
        ours = Path(next(iter(trainwright.api.__path__)))
        known = catalog.read_project(self._folder, ours, self._package, problems)
        structural.check(known, problems)
        problems.stop_if_any()
        for definition in known.definitions.values():
            if definition.package.root == API and is_struct(definition.schema):
                _check_shipped(f"{API}.{definition.package.module}", definition.name, problems)
        problems.stop_if_any()
        made = {
            **python.packages(known, structs.generate(known), self._folder),
            **crd.json_schemas(known),
        }
        front = self._folder / "__init__.py"
        if not front.exists() or output.is_generated(front):
            made["__init__.py"] = python.front_of_folder(self._folder.name)
        here, there = self.folders
        files = {f"{here}/{path}": text for path, text in made.items()}
        files.update({f"{there}/{path}": text for path, text in crd.files(known).items()})
        return {os.path.normpath(path): text.replace(output.MARK, output.PROJECT_MARK) for path, text in files.items()}


def _package_of(folder: Path) -> str:
    names = [folder.name]
    while (folder := folder.parent) != folder.parent and (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
    return ".".join(names)


def _check_shipped(module: str, name: str, problems: Problems) -> None:
    try:
        shipped = hasattr(import_module(module), name)
    except ModuleNotFoundError:
        shipped = False
    if not shipped:
        problems.add(module, 0, "", f"has no {name}; write its fields, or x-kubernetes-preserve-unknown-fields: true")
