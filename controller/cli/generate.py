# SPDX-License-Identifier: Apache-2.0
"""`trainwright generate`: models and definitions from the schemas of another project's kinds."""

import argparse
import sys
from pathlib import Path
from typing import Any

from trainwright.api import extras

EXIT_CHECK_FAILED, EXIT_WRONG_SCHEMA, EXIT_CANNOT_WRITE = 1, 2, 3

_DESCRIPTION = """\
Compile the schemas of your own kinds into typed models with copies and defaults, CustomResourceDefinitions, and JSON
Schemas for editors. A schema is a CustomResourceDefinition whose parts may be references: to definitions in the same
file, or to types of Kubernetes, such as $ref: core/v1/PodSpec. Each group and version has a folder below DIR:

  boats/api/sea/v1/boat.yaml    the schema
  boats/api/sea/v1/             gets models, and a JSON Schema for each kind
  boats/crds/                   gets the CustomResourceDefinitions

exit codes:
  0  done, or nothing to do
  1  --check: a file is not up to date
  2  the schemas are invalid; nothing was written
  3  a file could not be written; no file was changed
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `generate`."""
    parser = subparsers.add_parser(
        "generate",
        help="compile schemas of your own kinds into models and definitions",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    parser.set_defaults(run=run)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of the schemas")
    parser.add_argument(
        "--package", default="", help="name under which Python imports DIR (default: from the packages around it)"
    )
    parser.add_argument(
        "--crds", type=Path, metavar="FOLDER", help="where the CustomResourceDefinitions go (default: crds beside DIR)"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; show the files that are not up to date")


def run(arguments: argparse.Namespace) -> int:
    """Write the files, or check them."""
    try:
        extras.require("generate", "the compiler of schemas")
    except extras.MissingExtraError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_CANNOT_WRITE
    # It and its libraries are loaded for this command alone.
    from trainwright.codegen import output  # noqa: PLC0415
    from trainwright.codegen.problems import CompileError  # noqa: PLC0415
    from trainwright.codegen.project import Project  # noqa: PLC0415

    project = Project(arguments.folder, package=arguments.package, crds=arguments.crds)
    try:
        files = project.compile()
        pending = output.changes(project.root, files, project.folders)
        if arguments.check:
            return _check(arguments.folder, len(files), pending)
        output.write(project.root, pending, project.folders)
    except CompileError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        print(f"generate: {len(error.problems)} problem(s); nothing was written", file=sys.stderr)
        return EXIT_WRONG_SCHEMA
    except OSError as error:
        print(f"generate: {error}; no file was changed", file=sys.stderr)
        return EXIT_CANNOT_WRITE
    print(f"generate: {len(files)} files, {len(pending)} changed")
    return 0


def _check(folder: Path, count: int, pending: list[Any]) -> int:
    for change in pending:
        print(change.diff(), end="")
    if pending:
        names = ", ".join(change.path for change in pending)
        print(f"generate: not up to date, run `trainwright generate {folder}`: {names}", file=sys.stderr)
        return EXIT_CHECK_FAILED
    print(f"generate: {count} files are up to date")
    return 0
