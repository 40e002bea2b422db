# SPDX-License-Identifier: Apache-2.0
"""Writes generated files, or compares them with what is there."""

import argparse
import difflib
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def is_check(module: str, description: str) -> bool:
    """Whether a program that generates files is to compare only: its one argument, `--check`."""
    parser = argparse.ArgumentParser(prog=f"python -m hack.{module}", description=description)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is not up to date")
    check: bool = parser.parse_args().check
    return check


def update(files: Mapping[Path, str], *, check: bool) -> list[Path]:
    """Write the files that differ, or with `check` print how they differ; returns them."""
    stale = []
    for path, text in files.items():
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if old == text:
            continue
        stale.append(path)
        if check:
            name = path.relative_to(ROOT)
            lines = difflib.unified_diff(old.splitlines(True), text.splitlines(True), f"a/{name}", f"b/{name}", n=2)
            sys.stdout.writelines(lines)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return stale


def written(what: str, made: Mapping[Path, str], left_over: Collection[Path], *, check: bool) -> int:
    """Write the files that are not up to date and delete those that are left over, or show them. An exit code."""
    stale = list(left_over)
    for path in () if check else stale:
        path.unlink()
    stale += update(made, check=check)
    if check and stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        print(f"{what}: not up to date, run `make generate`: {names}", file=sys.stderr)
        return 1
    print(f"{what}: {'all are up to date' if check else f'{len(stale)} changed'}")
    return 0
