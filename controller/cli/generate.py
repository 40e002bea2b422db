# SPDX-License-Identifier: Apache-2.0
"""`trainwright generate`: models and definitions from the schemas of another project's kinds."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from trainwright.api import extras

EXIT_CHECK_FAILED, EXIT_WRONG_SCHEMA, EXIT_CANNOT_WRITE = 1, 2, 3


def run(arguments: argparse.Namespace) -> int:
    extras.require("generate", "the compiler of schemas")
    # It and its libraries are loaded for this command alone.
    from trainwright.codegen import output  # noqa: PLC0415
    from trainwright.codegen.compiler import Project  # noqa: PLC0415
    from trainwright.codegen.definition import CompileError  # noqa: PLC0415
    from trainwright.codegen.imports import imported  # noqa: PLC0415

    project = Project(arguments.folder, package=arguments.package, crds=arguments.crds)
    try:
        for file in arguments.imported:
            _write(arguments.folder, imported(file))
        files = project.compile()
        pending = output.changes(project.root, files, project.folders)
        if arguments.check:
            output.report_stale(pending, "generate", f"trainwright generate {arguments.folder}")
            if not pending:
                print(f"generate: {len(files)} files are up to date")
            return EXIT_CHECK_FAILED if pending else 0
        output.write(project.root, pending, project.folders)
    except CompileError as error:
        error.report("generate")
        return EXIT_WRONG_SCHEMA
    except OSError as error:
        print(f"generate: {error}; no file was changed", file=sys.stderr)
        return EXIT_CANNOT_WRITE
    print(f"generate: {len(files)} files, {len(pending)} changed")
    return 0


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(f"generate: imported {path}")
