# SPDX-License-Identifier: Apache-2.0
"""The nouns of the compiler: a package of types, a named schema in it, and a kind that the API server stores."""

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
    """How references name it: `trainer.kubeflow.org/v1alpha1`; Kubernetes' own are short, such as `core/v1`."""
    folder: str
    """Below api/, with slashes: `trainer/v1alpha1`, `kubernetes/core/v1`."""
    group: str
    """On the wire; empty for core."""
    version: str
    foreign: bool
    """Authored by another project, so that its servers may know values and fields that we do not."""

    @property
    def module(self) -> str:
        """The dotted name below `trainwright.api`."""
        return self.folder.replace("/", ".")


@dataclass(frozen=True)
class Definition:
    """One named schema. References in it are full: `core/v1/PodSpec`."""

    package: Package
    name: str
    schema: Schema
    document: Document | None = field(default=None, compare=False, repr=False)
    """Where it was authored; Kubernetes' own types have no place in our files."""
    file: str = ""
    path: Path = ()

    @property
    def key(self) -> str:
        """What references to it say."""
        return f"{self.package.key}/{self.name}"

    def complain(self, problems: Problems, inside: Path, message: str) -> None:
        """Report a mistake at a path inside this schema."""
        line = self.document.line((*self.path, *inside)) if self.document else 0
        problems.add(self.file or self.package.key, line, ".".join((self.name, *spoken(inside))), message)


@dataclass(frozen=True)
class Kind:
    """A definition that the API server stores under a name, or that files hold with apiVersion and kind."""

    definition: Definition
    plural: str
    """Empty for kinds that only files hold."""
    namespaced: bool
    crd: Schema | None = None
    """The authored CustomResourceDefinition, references and all; `None` for Kubernetes' own kinds."""
    installed: bool = False
    """Whether config/crd holds it: true for kinds of this project."""

    @property
    def name(self) -> str:
        """As in the field `kind`."""
        return self.definition.name


def spoken(path: Path) -> list[str]:
    """A path inside a schema as a reader of the API says it: fields, `[]` for items and `{}` for values of a map."""
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
