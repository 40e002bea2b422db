# SPDX-License-Identifier: Apache-2.0
"""From the authored schemas to the text of every generated file. Reads below one root, writes nothing."""

from collections.abc import Callable
from pathlib import Path

from trainwright.codegen import catalog, crd, json_schema, python, reference, structs, structural
from trainwright.codegen.problems import Problems


def compile_all(root: Path, progress: Callable[[str], None] = lambda _: None) -> dict[str, str]:
    """Every generated file by its path below `root`. Raises `CompileError` with all that is wrong."""
    api = root / "api"
    problems = Problems()
    progress("reading the schemas")
    known = catalog.read(api, problems)
    structural.check(known, problems)
    problems.stop_if_any()
    progress(f"making structs of {len(known.definitions)} definitions")
    modules = structs.generate(known)
    files = {f"api/{path}": text for path, text in python.packages(known, modules, api).items()}
    progress("expanding CustomResourceDefinitions")
    files.update({f"config/crd/{path}": text for path, text in crd.files(known).items()})
    progress("writing JSON Schemas and reference pages")
    files.update({f"api/{path}": text for path, text in json_schema.files(known).items()})
    files.update({f"docs/api/{path}": text for path, text in reference.files(known).items()})
    return files
