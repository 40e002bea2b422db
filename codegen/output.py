# SPDX-License-Identifier: Apache-2.0
"""Puts the generated files in place: all of them, or none.

Every file is first written under another name in the same folder. When all are written, each is renamed. A run that is
interrupted before that changes no file; the next run removes what it leaves behind.
"""

import difflib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MARK = "Generated from the schemas in api/ by `make generate`."
"""The first line of every generated file whose format has comments."""
BANNER = f"# SPDX-License-Identifier: Apache-2.0\n# {MARK} Edit those, not this file.\n"

PROJECT_MARK = "Generated from schemas by `trainwright generate`."
"""The same in other projects."""
RESOURCE_WORD = "x-kubernetes-resource"
"""In a generated JSON Schema: how the kind is served; `plural` is empty when it is not."""
FOLDERS = ("api", "config/crd", "docs/api", "controller/cli", "controller/local")
"""Where files are generated, below the root."""

_SUFFIX = ".codegen-new"


@dataclass(frozen=True)
class FileChange:
    """One file that is not up to date. `None` means that the file does not exist."""

    path: str
    old: str | None
    new: str | None

    def diff(self) -> str:
        old = (self.old or "").splitlines(keepends=True)
        new = (self.new or "").splitlines(keepends=True)
        return "".join(difflib.unified_diff(old, new, f"a/{self.path}", f"b/{self.path}", n=2))


def changes(root: Path, files: dict[str, str], folders: Sequence[str] = FOLDERS) -> list[FileChange]:
    """The changes that `write` would make: files that differ or are missing, and generated files without a schema."""
    found: list[FileChange] = []
    for path, new in sorted(files.items()):
        target = root / path
        old = target.read_text(encoding="utf-8") if target.exists() else None
        if old != new:
            found.append(FileChange(path, old, new))
    there = {path.relative_to(root).as_posix(): path for path in _files(root, folders) if is_generated(path)}
    stale = {name: path for name, path in there.items() if name not in files}
    return found + [FileChange(name, path.read_text(encoding="utf-8"), None) for name, path in stale.items()]


def write(root: Path, pending: list[FileChange], folders: Sequence[str] = FOLDERS) -> None:
    """Make the changes, or none of them if one cannot be prepared."""
    prepared: list[tuple[Path, Path]] = []
    try:
        for change in pending:
            if change.new is not None:
                target = root / change.path
                target.parent.mkdir(parents=True, exist_ok=True)
                temporary = target.with_name(target.name + _SUFFIX)
                prepared.append((temporary, target))
                temporary.write_text(change.new, encoding="utf-8")
    except BaseException:
        for temporary, _ in prepared:
            if temporary.is_file():
                temporary.unlink()
        raise
    for leftover in _files(root, folders):
        if leftover.name.endswith(_SUFFIX) and leftover not in dict(prepared):
            leftover.unlink()
    for temporary, target in prepared:
        os.replace(temporary, target)  # noqa: PTH105  os.replace is atomic
    for change in pending:
        if change.new is None:
            (root / change.path).unlink()


def report_stale(pending: list[FileChange], program: str, command: str) -> None:
    """Print the changes that `write` would make, and what to run."""
    for change in pending:
        print(change.diff(), end="")
    if pending:
        names = ", ".join(change.path for change in pending)
        print(f"{program}: not up to date, run `{command}`: {names}", file=sys.stderr)


def _files(root: Path, folders: Sequence[str]) -> Iterator[Path]:
    for folder in folders:
        yield from (path for path in sorted((root / folder).rglob("*")) if path.is_file())


def is_generated(path: Path) -> bool:
    """Whether an earlier run generated a file: by its first lines or, without comments in the format, by its words."""
    if path.name.endswith(".schema.json"):
        return f'"{RESOURCE_WORD}"' in path.read_text(encoding="utf-8")
    if path.name.endswith(".crd.json"):
        return True
    if path.suffix not in (".py", ".yaml", ".md"):
        return False
    with path.open(encoding="utf-8") as file:
        head = file.read(400)
    return MARK in head or PROJECT_MARK in head
