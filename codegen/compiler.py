# SPDX-License-Identifier: Apache-2.0
"""Compiles the authored schemas into the text of every generated file. It reads below one root and writes nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainwright.codegen import catalog, crd, json_schema, python, reference, released, structs, structural
from trainwright.codegen.compatibility import SchemaChange
from trainwright.codegen.problems import Problems


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
    files.update({f"api/{path}": text for path, text in json_schema.files(known).items()})
    files.update({f"docs/api/{path}": text for path, text in reference.files(known).items()})
    return Compiled(files, changes, open_changes, released.snapshot(known))
