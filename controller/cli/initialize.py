# SPDX-License-Identifier: Apache-2.0
"""`trainwright initialize`: fetches a model or a data set into a folder."""

import argparse
import os


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the sub-command."""
    parser = subparsers.add_parser(
        "initialize",
        help="fetch a model or a data set into a folder",
        description="Fetch a model or a data set into a folder, whole or not at all: an interrupted download goes on "
        "where it ended, every file is checked against its hash, and a folder that is complete is not fetched again.",
    )
    kinds = parser.add_subparsers(title="kinds", metavar="KIND", dest="kind", required=True)
    for kind, noun in (("dataset", "data set"), ("model", "model")):
        one = kinds.add_parser(
            kind,
            help=f"fetch a {noun}",
            description=f"Fetch a {noun} from hf://owner/name[@revision], https://host/file#sha256=HEX, file:///path, "
            "or from a scheme that a distribution adds. Options win over variables (STORAGE_URI, OUTPUT_PATH). "
            "ALLOW_PATTERNS and IGNORE_PATTERNS choose files; tokens come in variables only (HF_TOKEN, ACCESS_TOKEN). "
            "Exit code 0 if the files are there, 1 if not, 2 for a wrong command line, 143 after SIGTERM.",
        )
        one.add_argument("--storage-uri", metavar="URI", help="where from (default: the variable STORAGE_URI)")
        one.add_argument(
            "--output",
            metavar="FOLDER",
            help=f"where to (default: the variable OUTPUT_PATH, or /workspace/{kind})",
        )
        do = one.add_mutually_exclusive_group()
        do.add_argument("--dry-run", action="store_true", help="list files, sizes and free space, and write nothing")
        do.add_argument(
            "--verify",
            action="store_true",
            help="hash the files that are there, and say which are damaged; nothing is fetched",
        )
        one.set_defaults(run=run, takes_signals=True)


def run(arguments: argparse.Namespace) -> int:
    """Fetch; returns the exit code."""
    # Imported here: the help does not need it.
    from trainwright.controller.initialize.run import run as initialize  # noqa: PLC0415

    return initialize(
        arguments.kind,
        os.environ,
        address=arguments.storage_uri,
        target=arguments.output,
        dry_run=arguments.dry_run,
        verify=arguments.verify,
    )
