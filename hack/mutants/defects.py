# SPDX-License-Identifier: Apache-2.0
"""The defects that a module can have, from its syntax tree.

A defect is named by module (its path), function and what it does, and by a number where a function has several of a
kind. So its name stays when code moves. It replaces the text of a node.
"""

import ast
import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

Table = Mapping[type[ast.cmpop], type[ast.cmpop]]
_OPPOSITE = ((ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn), (ast.Lt, ast.GtE), (ast.LtE, ast.Gt))
_TURNED: Table = {one: other for pair in _OPPOSITE for one, other in (pair, pair[::-1])}
_MOVED: Table = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_SAID = ("log.", "print", "warnings.", "sys.stdout.", "sys.stderr.")
"""Calls whose loss no test is to notice."""
_WIDEST = ("Exception", "BaseException")


@dataclass(frozen=True, slots=True)
class Defect:
    module: str
    function: str
    """Dotted, from the module; empty for the module itself."""
    what: str
    number: int
    """Among those of the same kind in the function, from 1."""
    line: int
    """The first one of the statement, which is among those of a function, a class or the module:"""
    within: range
    replaced: slice
    """Bytes of the source."""
    text: str

    @property
    def name(self) -> str:
        return f"{self.module}:{self.function or '<module>'}: {self.what} #{self.number}"

    def planted(self, source: bytes) -> bytes:
        return source[: self.replaced.start] + self.text.encode() + source[self.replaced.stop :]


def defects_of(module: str, source: bytes) -> list[Defect]:
    """All of them, in the order of the text. None for a generated module."""
    finder = _Finder(module, source)
    finder.walk(ast.parse(source if b"# Generated " not in source[:400] else b""))
    return finder.found


class _Finder:
    def __init__(self, module: str, source: bytes) -> None:
        self.found: list[Defect] = []
        self._module = module
        self._starts = [0, *itertools.accumulate(len(line) + 1 for line in source.split(b"\n"))]
        self._path: tuple[str, ...] = ()
        self._line, self._within = 1, range(1, len(self._starts))
        self._numbers: Counter[tuple[str, str]] = Counter()

    def walk(self, node: ast.AST) -> None:
        before = self._path, self._line, self._within
        if isinstance(node, ast.stmt):
            self._line = node.lineno
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self._path = (*self._path, node.name)
            self._within = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        self._look(node)
        self._ordered(node)
        for child in _children(node):
            self.walk(child)
        self._path, self._line, self._within = before

    def _look(self, node: ast.AST) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for default in (*node.args.defaults, *node.args.kw_defaults):
                    self._constant(default, "default changed")
            case ast.If() | ast.While() | ast.IfExp() if ast.unparse(node.test) not in ("True", "TYPE_CHECKING"):
                self._add("condition negated", node.test, f"(not ({ast.unparse(node.test)}))")
            case ast.Compare():
                self._compared(node, "comparison turned", _TURNED)
                self._compared(node, "boundary moved", _MOVED)
            case ast.BoolOp():
                changed = ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
                self._add("and, or exchanged", node, f"({ast.unparse(changed)})")
            case ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call)):
                if not ast.unparse(call.func).startswith(_SAID):
                    self._add("call dropped", node, "pass")
            case ast.ExceptHandler(type=ast.expr() as caught) if ast.unparse(caught) not in _WIDEST:
                self._add("except widened", caught, "Exception")
            case ast.Constant():
                self._constant(node, "constant changed")

    def _ordered(self, node: ast.AST) -> None:
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            for one, two in itertools.pairwise(block if isinstance(block, list) else ()):
                if all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Await) for each in (one, two)):
                    self._add("awaits exchanged", one, f"{ast.unparse(two)}; {ast.unparse(one)}", two)

    def _compared(self, node: ast.Compare, what: str, table: Table) -> None:
        if (other := table.get(type(node.ops[0]))) is not None:
            changed = ast.Compare(node.left, [other(), *node.ops[1:]], node.comparators)
            self._add(what, node, f"({ast.unparse(changed)})")

    def _constant(self, node: ast.AST | None, what: str) -> None:
        """Of texts there are too many that are only read by people."""
        match node:
            case ast.Constant(value=bool() as value):
                self._add(what, node, str(not value))
            case ast.Constant(value=int() as value):
                self._add(what, node, str(value + 1))
            case ast.Constant(value=float() as value):
                self._add(what, node, repr(value * 2 + 1))

    def _add(self, what: str, node: ast.expr | ast.stmt, text: str, last: ast.expr | ast.stmt | None = None) -> None:
        """Replace the text from one node to the end of the other."""
        function, last = ".".join(self._path), last or node
        self._numbers[function, what] += 1
        place = (self._module, function, what, self._numbers[function, what], self._line, self._within)
        end = self._starts[(last.end_lineno or last.lineno) - 1] + (last.end_col_offset or 0)
        self.found.append(Defect(*place, slice(self._starts[node.lineno - 1] + node.col_offset, end), text))


def _children(node: ast.AST) -> list[ast.AST]:
    """Without types, decorators, defaults, and what only people read."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [*node.body]
        case ast.AnnAssign():
            return [node.value] if node.value is not None else []
        case ast.Subscript():
            return [node.value]
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.pattern():
            return []
        case ast.If() if ast.unparse(node.test) == "TYPE_CHECKING":
            return []
    return [*ast.iter_child_nodes(node)]
