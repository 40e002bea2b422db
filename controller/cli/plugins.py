# SPDX-License-Identifier: Apache-2.0
"""`trainwright plugins`: lists the plugins that the manager loads, in order, with their rights."""

import argparse
import json
import sys
from typing import Any

from trainwright.api.manifest import dump
from trainwright.controller.cli.commands import refused
from trainwright.controller.cli.configuration import load_registry
from trainwright.controller.views.text import aligned
from trainwright.plugins.contract.errors import RegistryError
from trainwright.plugins.registry import Registry

COLUMNS = ("name", "version", "distribution", "phases", "before", "after", "rules")


def run(arguments: argparse.Namespace) -> int:
    try:
        rows = _rows(load_registry(arguments.config))
    except RegistryError as error:
        return refused(error.problems)
    sys.stdout.write(_formatted(rows, arguments.output))
    return 0


def _rows(registry: Registry) -> list[dict[str, Any]]:
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
        return dump(rows, sort_keys=False)
    table = [[name.upper() for name in COLUMNS], *([_cell(row[name]) for name in COLUMNS] for row in rows)]
    return "".join(f"{line}\n" for line in aligned(table, gap=2))


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
