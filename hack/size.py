# SPDX-License-Identifier: Apache-2.0
"""Prints how large the house is, room by room.

Counted are the Python files that git knows, with all their lines; those of generated files stand apart, and are in no
other column. "Slivers" are files of fewer than 45 lines, without the `__init__.py` of packages. "Lazy" are imports
within functions. "Past" are imports past a facade: of a module within a package whose own names are meant for others.
"""

import argparse
import ast
import subprocess
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = (
    *("api", "codegen", "plugins", "controller/runtime", "controller/trainer", "controller/initialize"),
    *("controller/cli", "controller/local", "controller/simulation", "hack", "trainwright", "tests"),
)
"""Folders, each a row. What lies in none of them is a row of its own, the last."""
ELSEWHERE = "elsewhere"
FACADES = ("trainwright.controller.runtime", "trainwright.plugins.contract")
"""Packages that others import names from, not modules of. What only tests import is no part of a facade."""
TESTING = ("trainwright.controller.runtime.testing",)
SLIVER = 45
GENERATED = "# Generated from "
COLUMNS = ("files", "lines", "generated", "slivers", "classes", "lazy", "past")


@dataclass(frozen=True, slots=True)
class File:
    """What is counted of one file, whose path is below the root of the repository."""

    path: str
    lines: int
    generated: bool
    classes: tuple[str, ...] = ()
    """Those of the module itself: a class within a class is seen with its owner's name."""
    lazy: int = 0
    past: tuple[str, ...] = ()

    @property
    def sliver(self) -> bool:
        return self.lines < SLIVER and not self.path.endswith("__init__.py")


@dataclass(slots=True)
class Room:
    files: list[File] = field(default_factory=list)

    def row(self, name: str) -> str:
        own = [file for file in self.files if not file.generated]
        figures = (
            *(len(own), sum(file.lines for file in own), sum(file.lines for file in self.files if file.generated)),
            *(sum(file.sliver for file in own), sum(len(file.classes) for file in own)),
            *(sum(file.lazy for file in own), sum(len(file.past) for file in own)),
        )
        return f"{name:20}" + "".join(f"{figure:>11,}" for figure in figures)


def measured(path: str, text: str) -> File:
    """Count what is in one file. Raises SyntaxError."""
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    if any(line.startswith(GENERATED) for line in text.splitlines()[:3]):
        return File(path, lines, generated=True)
    tree = ast.parse(text, path)
    lazy, past = 0, list[str]()
    facades = [
        facade for facade in FACADES if not path.startswith(f"{facade.removeprefix('trainwright.').replace('.', '/')}/")
    ]
    for node, in_function in _imports(tree):
        lazy += in_function
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
        past += [
            name
            for name in names
            for facade in facades
            if name.startswith(f"{facade}.") and not name.startswith(TESTING)
        ]
    classes = tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef))
    return File(path, lines, generated=False, classes=classes, lazy=lazy, past=tuple(past))


def _imports(node: ast.AST, *, in_function: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """The imports below a node, and whether each is in a function. Only statements hold any."""
    for word in ("body", "handlers", "orelse", "finalbody", "cases"):
        inner = getattr(node, word, ())
        for one in inner if isinstance(inner, list) else ():
            if isinstance(one, ast.Import | ast.ImportFrom):
                yield one, in_function
            else:
                yield from _imports(
                    one, in_function=in_function or isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
                )


def room_of(path: str) -> str:
    return next((room for room in ROOMS if path.startswith(f"{room}/")), ELSEWHERE)


def rooms_of(files: Iterable[File]) -> dict[str, Room]:
    """All rooms, in their order; the last one only where there is something in it."""
    rooms = {name: Room() for name in ROOMS}
    for file in files:
        rooms.setdefault(room_of(file.path), Room()).files.append(file)
    return rooms


def twice(files: Iterable[File]) -> dict[str, list[str]]:
    """Public class names that more than one file of the product has, with the files. Tests name theirs as they like."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in files:
        if room_of(file.path) not in {"tests", ELSEWHERE}:
            for name in file.classes:
                if not name.startswith("_"):
                    found[name].append(file.path)
    return {name: sorted(paths) for name, paths in sorted(found.items()) if len(paths) > 1}


def known(*, without: Container[str] = ()) -> Iterator[File]:
    """The files that git knows or would add, but for some rooms.

    Links are passed over: what they name is counted where it lies.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    for name in sorted(set(listed.stdout.split("\0")) - {""}):
        file = ROOT / name
        if room_of(name) not in without and file.is_file() and not file.is_symlink():
            yield measured(name, file.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", action="store_true", help="also print the files that are counted as slivers")
    arguments = parser.parse_args()
    files = list(known())
    print(f"{'':20}" + "".join(f"{word:>11}" for word in COLUMNS))
    for name, room in rooms_of(files).items():
        print(room.row(name))
    product = [file for file in files if room_of(file.path) not in {"tests", ELSEWHERE}]
    print(Room(product).row("product, all rooms"))

    names = twice(files)
    across = {name for name, paths in names.items() if len({room_of(path) for path in paths}) > 1}
    print(f"\nclass names in more than one file: {len(names)}; in more than one room: {len(across)}")
    for name, paths in names.items():
        print(f"  {name}{' (rooms differ)' if name in across else ''}: {', '.join(paths)}")
    if arguments.names:
        print("\nslivers")
        for file in product:
            if file.sliver and not file.generated:
                print(f"  {file.lines:3} {file.path}")


if __name__ == "__main__":
    main()
