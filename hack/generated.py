# SPDX-License-Identifier: Apache-2.0
"""What the programs of this folder that generate files have in common: `--check`, and how files are written."""

import argparse
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from trainwright.codegen import output

ROOT = Path(__file__).resolve().parent.parent

Made = Mapping[Path, str]


def generated(
    module: str,
    description: str,
    make: Callable[[], Made],
    left_over: Callable[[Made], Collection[Path]] = lambda _: (),
) -> int:
    """Write the files that are not up to date and delete those that are left over; with `--check` show them.

    Returns the exit code: 1 with `--check` if there are some.
    """
    command = f"python -m hack.{module}"
    parser = argparse.ArgumentParser(prog=command, description=description)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is not up to date")
    check = parser.parse_args().check
    made = make()
    pending = output.changes(ROOT, {_name(path): text for path, text in made.items()}, ())
    pending += [output.FileChange(_name(path), path.read_text(encoding="utf-8"), None) for path in left_over(made)]
    if check and pending:
        output.report_stale(pending, module, command)
        return 1
    output.write(ROOT, pending, ())
    print(f"{module}: {'all are up to date' if check else f'{len(pending)} changed'}")
    return 0


def lines_of(values: Mapping[str, Any]) -> str:
    """The members of a JSON object, a line each and sorted, so that a difference can be read."""
    encode = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode
    return ",\n".join(f"{json.dumps(name)}:{encode(values[name])}" for name in sorted(values))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
