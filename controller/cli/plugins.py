# SPDX-License-Identifier: Apache-2.0
"""`trainwright plugins`: lists the plugins that the manager loads, in order, with their rights."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwright.plugins.registry import Registry

COLUMNS = ("name", "version", "distribution", "phases", "before", "after", "rules")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the sub-command."""
    parser = subparsers.add_parser(
        "plugins",
        help="list the plugins in the order in which they run",
        description="List the plugins that the manager loads, in the order in which they run in every phase. Exit code "
        "1 with every reason if they cannot be loaded together.",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="file with the Configuration of the manager, whose section plugins is used",
    )
    parser.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """List the plugins; returns the exit code."""
    # Imported here: the help does not need it.
    from trainwright.controller.cli.configuration import load_registry  # noqa: PLC0415
    from trainwright.controller.runtime import ConfigurationError  # noqa: PLC0415
    from trainwright.plugins.contract import RegistryError  # noqa: PLC0415

    try:
        rows = _rows(load_registry(arguments.config))
    except ConfigurationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except RegistryError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        return 1
    sys.stdout.write(_formatted(rows, arguments.output))
    return 0


def _rows(registry: "Registry") -> list[dict[str, Any]]:
    return [
        {
            "name": entry.name,
            "version": entry.candidate.version,
            "distribution": entry.candidate.distribution,
            "phases": list(entry.hooks),
            "before": sorted(entry.before),
            "after": sorted(entry.after),
            "rules": [
                {"group": rule.group, "resource": rule.resource, "verbs": list(rule.verbs)} for rule in entry.rules
            ],
        }
        for entry in registry
    ]


def _formatted(rows: list[dict[str, Any]], form: str) -> str:
    if form == "json":
        return json.dumps(rows, indent=2) + "\n"
    if form == "yaml":
        from trainwright.api.manifest import dump  # noqa: PLC0415

        return dump(rows, sort_keys=False)
    return _table([[name.upper() for name in COLUMNS], *([_cell(row[name]) for name in COLUMNS] for row in rows)])


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    texts = [
        f"{item['resource']}{'.' if item['group'] else ''}{item['group']}:{'/'.join(item['verbs'])}"
        if isinstance(item, dict)
        else item
        for item in value
    ]
    return ",".join(texts) or "-"


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)
