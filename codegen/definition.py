# SPDX-License-Identifier: Apache-2.0
"""The terms of the compiler: a package of types, a named schema in it, a kind that the API server stores, and mistakes.

Every check adds to one `Problems`, so that one run reports all of them; if there are any, no file is written.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from trainwright.api.manifest import Document, Path


@dataclass(frozen=True, order=True)
class SchemaMistake:
    file: str
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else f"{self.file}: "
        return f"{where}{self.path}: {self.message}" if self.path else f"{where}{self.message}"


class CompileError(Exception):
    """The schemas cannot be compiled. It has all problems, in the order of the files."""

    def __init__(self, problems: list[SchemaMistake]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))

    def report(self, program: str) -> None:
        print(f"{self}\n{program}: {len(self.problems)} problem(s); nothing was written", file=sys.stderr)


@dataclass
class Problems:
    found: list[SchemaMistake] = field(default_factory=list)

    def add(self, file: str, line: int, path: str, message: str) -> None:
        """Add one problem, unless it was added before."""
        problem = SchemaMistake(file, line, path, message)
        if problem not in self.found:
            self.found.append(problem)

    def stop_if_any(self) -> None:
        """Raise `CompileError` with everything found so far."""
        if self.found:
            raise CompileError(sorted(self.found))


Schema = dict[str, Any]
API = "trainwright.api"
"""Where the types of Kubernetes are, for every project."""


@dataclass(frozen=True)
class Package:
    """The types of one API group and version, which become one Python package."""

    key: str
    """Its name in references: `trainer.kubeflow.org/v1alpha1`; for types of Kubernetes short, such as `core/v1`."""
    folder: str
    """The folder below api/ or that of another project, with slashes: `trainer/v1alpha1`, `kubernetes/core/v1`."""
    group: str
    """The API group; empty for core."""
    version: str
    foreign: bool
    """It belongs to another project, whose servers may use values and fields that its schema here does not have."""
    root: str = "trainwright.api"
    """The Python package that `folder` lies below."""

    @property
    def module(self) -> str:
        """The dotted name below `root`."""
        return self.folder.replace("/", ".")


@dataclass(frozen=True)
class Definition:
    """One named schema. References in it are full: `core/v1/PodSpec`."""

    package: Package
    name: str
    schema: Schema
    document: Document | None = field(default=None, compare=False, repr=False)
    """The authored document; None for types of Kubernetes."""
    file: str = ""
    path: Path = ()

    @property
    def key(self) -> str:
        """The full reference to it."""
        return f"{self.package.key}/{self.name}"

    def complain(self, problems: Problems, inside: Path, message: str) -> None:
        line = self.document.line((*self.path, *inside)) if self.document else 0
        problems.add(self.file or self.package.key, line, ".".join((self.name, *spoken(inside))), message)


@dataclass(frozen=True)
class Kind:
    """A definition with apiVersion and kind, which the API server stores or which is used in files."""

    definition: Definition
    plural: str
    """Empty for kinds that are used in files only."""
    namespaced: bool
    crd: Schema | None = None
    """The authored CustomResourceDefinition, with references; `None` for kinds of Kubernetes."""
    installed: bool = False
    """Whether config/crd holds it: true for kinds of this project."""

    @property
    def name(self) -> str:
        """The value of the field `kind`."""
        return self.definition.name


def spoken(path: Path) -> list[str]:
    """A path inside a schema for messages: fields, `[]` for items of a list and `{}` for values of a map."""
    words: list[str] = []
    steps = iter(path)
    for step in steps:
        if step == "properties":
            words.append(str(next(steps, "properties")))
        elif step == "items" and words:
            words[-1] += "[]"
        elif step == "additionalProperties" and words:
            words[-1] += "{}"
        elif step in ("items", "additionalProperties"):
            words.append("[]")
    return words


def subschemas(schema: Schema, path: Path = ()) -> Iterator[tuple[Path, Schema]]:
    """The schema and every schema inside it, outermost first, without following references."""
    yield path, schema
    for name, child in (schema.get("properties") or {}).items():
        if isinstance(child, dict):
            yield from subschemas(child, (*path, "properties", name))
    for word in ("items", "additionalProperties"):
        child = schema.get(word)
        if isinstance(child, dict):
            yield from subschemas(child, (*path, word))
