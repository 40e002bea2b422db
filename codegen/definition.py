# SPDX-License-Identifier: Apache-2.0
"""The terms of the compiler: a package of types, a named schema in it, and a kind that the API server stores."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from trainwright.api.manifest import Document, Path
from trainwright.codegen.problems import Problems

Schema = dict[str, Any]


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
        """Report a mistake at a path inside this schema."""
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
