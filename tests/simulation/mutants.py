# SPDX-License-Identifier: Apache-2.0
"""Planted defects: each is a change of the product, and the simulation must find it.

A change is named by the function that it is in, wherever that is, and by what becomes of an expression or of statements
there. So it stays when code moves or is laid out in another way. A mutant runs in a process of its own, in which the
changed modules are compiled from their changed syntax trees; no file changes. What follows the name is for
tests.simulation; `make soak SOAK_ARGS=mutants` runs all.

The defects are data: `mutants.json`, whose fields `Mutant` describes.

python -m tests.simulation.mutants two-ends --seeds 0-249 --until-found
"""

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

import msgspec

ROOT = Path(__file__).parents[2]
FOLDERS = ("controller/runtime", "controller/trainer")
"""What is changed, and where functions are looked for."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What becomes of code that occurs once in the functions of a name."""

    function: str
    """`Class.method` or the name of a function."""
    old: str
    """An expression, or statements that follow each other; `_` is any expression. Empty: the beginning of the function.
    """
    new: str
    """What takes its place. Nothing takes the place of statements if it is empty."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One defect."""

    name: str
    says: str
    edits: Sequence[Edit]
    kind: str = ""
    """Which worlds are to find it: `recovering`, or `queued`; empty: any."""

    def patched(self) -> Mapping[str, ast.Module]:
        """The changed modules by file. Raises ValueError for an edit that does not fit the code any more."""
        trees: dict[str, ast.Module] = {}
        for edit in self.edits:
            places = []
            for file in _files_with(edit.function):
                tree = trees.get(file) or ast.parse((ROOT / file).read_text(encoding="utf-8"))
                replacing = _Replacing(edit)
                replacing.visit(tree)
                places += [(file, tree)] * replacing.number
            if len(places) != 1:
                where = f"{edit.function} has {edit.old or 'its beginning'!r}"
                raise ValueError(f"mutant {self.name}: {where} {len(places)} times, not once")
            trees.update(places)
        return {file: ast.fix_missing_locations(tree) for file, tree in trees.items()}


def _files_with(function: str) -> Iterator[str]:
    name = f"def {function.rpartition('.')[2]}("
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if name in path.read_text(encoding="utf-8"):
                yield str(path.relative_to(ROOT))


class _Replacing(ast.NodeTransformer):
    """Makes an edit wherever it fits, and counts."""

    def __init__(self, edit: Edit) -> None:
        self.number = 0
        self._function, self._old, self._new = edit.function, ast.parse(edit.old).body, ast.parse(edit.new).body
        self._path: tuple[str, ...] = ()

    def visit(self, node: ast.AST) -> ast.AST:
        outer = self._path
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self._path = (*outer, node.name)
        is_inside = ".".join(self._path) == self._function
        if is_inside and len(self._old) == 1 and isinstance(old := self._old[0], ast.Expr) and _same(node, old.value):
            self.number += 1
            [new] = self._new
            assert isinstance(new, ast.Expr)
            return ast.copy_location(new.value, node)
        self.generic_visit(node)
        if is_inside:
            for name in ("body", "orelse", "finalbody"):
                if isinstance(block := getattr(node, name, None), list):
                    self._replace_in(block, is_function=self._path != outer)
        self._path = outer
        return node

    def _replace_in(self, block: list[ast.stmt], *, is_function: bool) -> None:
        size = len(self._old)
        for at in range(len(block) - size + 1):
            fits = all(map(_same, block[at : at + size], self._old)) if size else is_function and at == 0
            if fits:
                self.number += 1
                block[at : at + size] = self._new or [ast.Pass()]
                return


def _same(one: object, old: object) -> bool:
    """Whether the code is as the edit says, wherever it stands."""
    if isinstance(old, ast.Name) and old.id == "_":
        return isinstance(one, ast.expr)
    if isinstance(old, list):
        return isinstance(one, list) and len(one) == len(old) and all(map(_same, one, old))
    if not isinstance(old, ast.AST):
        return one == old
    return type(one) is type(old) and all(_same(getattr(one, name), getattr(old, name)) for name in old._fields)


MUTANTS: tuple[Mutant, ...] = msgspec.json.decode(
    (Path(__file__).parent / "mutants.json").read_bytes(), type=tuple[Mutant, ...]
)


def installed(name: str) -> Mutant:
    """Change the product in this process, which must not have imported the changed modules yet.

    Raises ValueError for a name that no mutant has, and for an edit that does not fit.
    """
    mutant = next((one for one in MUTANTS if one.name == name), None)
    if mutant is None:
        raise ValueError(f"no such mutant: {name}; known are {', '.join(one.name for one in MUTANTS)}")
    trees = {_module(file): tree for file, tree in mutant.patched().items()}
    if early := sorted(trees.keys() & sys.modules.keys()):
        raise ValueError(f"imported before it was changed: {', '.join(early)}")
    sys.meta_path.insert(0, _Finder(trees))
    return mutant


def _module(file: str) -> str:
    return "trainwright." + file.removesuffix(".py").replace("/", ".")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds changed modules where they are, and gives them a loader that compiles their changed trees."""

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self._trees = trees

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Only of modules that are changed."""
        if fullname not in self._trees:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin, self._trees[fullname])
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a tree in place of the file's text."""

    def __init__(self, fullname: str, path: str, tree: ast.Module) -> None:
        super().__init__(fullname, path)
        self._tree = tree

    def get_code(self, fullname: str) -> CodeType:
        """Without the bytecode of the file, and without leaving any."""
        code: CodeType = compile(self._tree, self.get_filename(fullname), "exec", dont_inherit=True)
        return code


def main() -> int:
    """Change the product, and live worlds as `python -m tests.simulation` does."""
    if len(sys.argv) < 2:
        print(*(f"{one.name:24} {one.says}" for one in MUTANTS), sep="\n")
        return 0
    try:
        mutant = installed(sys.argv[1])
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{mutant.name}: {mutant.says}", flush=True)
    from tests.simulation.__main__ import main as simulated  # noqa: PLC0415 - it imports what is changed

    return simulated([*sys.argv[2:], *((f"--{mutant.kind}",) if mutant.kind else ())])


if __name__ == "__main__":
    raise SystemExit(main())
