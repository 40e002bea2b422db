# SPDX-License-Identifier: Apache-2.0
"""Puts the generated files in place: all of them, or none.

Every file is first written under another name in the same folder. When all are written, each is renamed. A run that is
interrupted before that changes no file; the next run removes what it leaves behind.
"""

import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = "Generated from the schemas in api/ by `make generate`."
"""The first line of every generated file whose format has comments."""

_SUFFIX = ".codegen-new"


@dataclass(frozen=True)
class FileChange:
    """One file that is not up to date. `None` means that the file does not exist."""

    path: str
    old: str | None
    new: str | None

    def diff(self) -> str:
        """Unified diff from the existing text to the new one."""
        old = (self.old or "").splitlines(keepends=True)
        new = (self.new or "").splitlines(keepends=True)
        return "".join(difflib.unified_diff(old, new, f"a/{self.path}", f"b/{self.path}", n=2))


def changes(root: Path, files: dict[str, str]) -> list[FileChange]:
    """The changes that `write` would make: files that differ or are missing, and generated files without a schema."""
    found: list[FileChange] = []
    for path, new in sorted(files.items()):
        target = root / path
        old = target.read_text(encoding="utf-8") if target.exists() else None
        if old != new:
            found.append(FileChange(path, old, new))
    stale = [path for path in _generated(root) if path not in files]
    return found + [FileChange(path, (root / path).read_text(encoding="utf-8"), None) for path in stale]


def write(root: Path, pending: list[FileChange]) -> None:
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
    for leftover in _files(root):
        if leftover.name.endswith(_SUFFIX) and leftover not in dict(prepared):
            leftover.unlink()
    for temporary, target in prepared:
        os.replace(temporary, target)  # noqa: PTH105  os.replace is atomic
    for change in pending:
        if change.new is None:
            (root / change.path).unlink()


def _files(root: Path) -> Iterator[Path]:
    for folder in ("api", "config/crd", "docs/api", "controller/cli", "controller/local"):
        yield from (path for path in sorted((root / folder).rglob("*")) if path.is_file())


def _generated(root: Path) -> Iterator[str]:
    """Files that an earlier run generated, by their first line or, without comments in the format, by their name."""
    return (path.relative_to(root).as_posix() for path in _files(root) if _is_generated(root, path))


def _is_generated(root: Path, path: Path) -> bool:
    if path.name.endswith(".schema.json"):
        return path.parent != root / "api" and path.is_relative_to(root / "api")
    if path.name.endswith(".crd.json"):
        return True
    return path.suffix in (".py", ".yaml", ".md") and MARK in path.read_text(encoding="utf-8")[:400]
