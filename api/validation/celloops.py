# SPDX-License-Identifier: Apache-2.0
"""Evaluates rules whose loops are too long for the evaluator, which ends every evaluation after 10,000 iterations.

Such a rule is evaluated in pieces: a loop goes over slices of its list, and what contains a loop that is still too long
is taken apart further. Each piece is an expression of its own for the evaluator, with what is known as variables.

An API server limits costs instead of iterations. Here each iteration counts what it costs there at least, so no rule is
ended that an API server would evaluate.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from trainwright.api.validation.celast import Node, fields, node

BUDGET_EXCEEDED = "Iteration budget exceeded"
"""What the evaluator says of a rule that is too long for it."""
COST_EXCEEDED = "operation cancelled: actual cost limit exceeded"
"""What an API server says of a rule that costs too much."""
COST_LIMIT = 1_000_000
"""Of one evaluation. Source: `k8s.io/apiserver/pkg/apis/cel`, `PerCallLimit`."""
FAIL, COUNT = "@fail", "@count"
"""Functions of pieces; no rule can name them."""

_CHILDREN = {5: (1,), 6: (1, 3), 7: (1,), 9: (2, 4, 5, 6, 7)}
"""Where expressions are inside a select, call, list and loop."""
_LIST, _MAP, _LOOP = 7, 8, 9
_TYPE = b"type.googleapis.com/cel.expr.CheckedExpr"
_INDEX = "@index"
_NO_OVERLOAD = "No matching overloads found"
_CALLS = frozenset({"!_", "-_", "_-_", "_*_", "_/_", "_%_", "_[_]", "@not_strictly_false", "size"})
"""Calls that always cost 1; of others the cost depends on sizes, and may be 0."""
_BASE_COSTS = {"name": 1, "list": 10, "map": 30}
_NUMBERS = frozenset({"int", "uint", "double", "bool"})
_LONGEST_LIST = 250
"""Items that one piece appends to a list, because the evaluator copies the list for each of them."""
_numbers = itertools.count(1 << 40)
_cost: ContextVar["_Cost"] = ContextVar("cost of a rule")


class CostError(Exception):
    """The rule costs more than an API server permits."""


@dataclass(slots=True)
class _Cost:
    spent: int = 0


def count(cost: int, appended: int) -> bool:
    """Count an iteration of a loop that has appended so many items to a list; the implementation of COUNT."""
    if appended > _LONGEST_LIST:
        raise ValueError(BUDGET_EXCEEDED)
    counter = _cost.get()
    counter.spent += cost
    if counter.spent > COST_LIMIT:
        raise ValueError(COST_EXCEEDED)
    return True


def fail(text: str) -> Any:
    """Fail as an earlier piece failed; the implementation of FAIL."""
    raise ValueError(text)


@dataclass(frozen=True, slots=True)
class CelFailure:
    """An expression that could not be evaluated."""

    text: str


@dataclass(frozen=True, slots=True)
class _Known:
    """What became of an expression."""

    value: Any
    """A value of Python, a CelFailure, or what stands for an opaque one."""
    encoded: bytes
    """An expression that gives it to other pieces."""


class _TooLongError(Exception):
    """A piece has too many iterations."""


@dataclass(slots=True)
class _Piecewise:
    """One evaluation.

    Attributes:
        run: evaluates a serialized expression with variables; gives a value or a CelFailure.
        references: which functions are meant.
        data: values of variables.
        opaque: stands for a value that Python cannot hold, such as an optional: it stays an expression.
    """

    run: Callable[[bytes, Mapping[str, Any]], Any]
    references: list[bytes]
    data: dict[str, Any]
    opaque: Any
    names: Iterator[int] = field(default_factory=itertools.count)

    def evaluate(self, expression: Node, scope: dict[str, bytes]) -> _Known:
        """Evaluate an expression at once, or else in parts.

        `scope`: the variables of the loops around it, as expressions.
        """
        try:
            return self._at_once(expression.encoded, scope)
        except _TooLongError:
            return self._in_parts(expression, scope)

    def _at_once(self, encoded: bytes, scope: dict[str, bytes]) -> _Known:
        bound = encoded
        for name, value in reversed(scope.items()):
            bound = _binding(name, value, bound)
        cost = _cost.get()
        before = cost.spent
        value = self.run(serialized(self.references, bound), self.data)
        if cost.spent > COST_LIMIT:
            raise CostError
        if value == CelFailure(BUDGET_EXCEEDED):
            cost.spent = before
            raise _TooLongError
        return _Known(value, bound) if value is self.opaque else self._known(value)

    def _known(self, value: Any) -> _Known:
        return _Known(value, self._given(value))

    def _given(self, value: Any) -> bytes:
        """An expression for a value. The evaluator takes no times from Python, so they are written out."""
        if isinstance(value, CelFailure):
            return _call(FAIL, _text(value.text))
        if isinstance(value, datetime):
            return _call("timestamp", _text(value.isoformat()))
        if isinstance(value, timedelta):
            micros = value // timedelta(microseconds=1)
            seconds = f"{'-' if micros < 0 else ''}{abs(micros) // 10**6}.{abs(micros) % 10**6:06}s"
            return _call("duration", _text(seconds))
        if _has_times(value):
            if isinstance(value, list):
                return _expression(_LIST, b"".join(_message(1, self._given(item)) for item in value))
            entries = (_message(3, self._given(key)) + _message(4, self._given(inner)) for key, inner in value.items())
            return _expression(_MAP, b"".join(_message(2, _number(1, next(_numbers)) + entry) for entry in entries))
        name = f"@{next(self.names)}"
        self.data[name] = value
        return _name(name)

    def _in_parts(self, expression: Node, scope: dict[str, bytes]) -> _Known:
        match expression.kind, expression.text:
            case "loop", _:
                return self._loop(expression, scope)
            case "call", "_&&_" | "_||_":
                return self._logical(expression, scope)
            case "call", "_?_:_":
                condition = self.evaluate(expression.parts[0], scope)
                if isinstance(condition.value, bool):
                    return self.evaluate(expression.parts[1 if condition.value else 2], scope)
                failure = condition.value if isinstance(condition.value, CelFailure) else CelFailure(_NO_OVERLOAD)
                return self._known(failure)
        parts = [self.evaluate(part, scope).encoded for part in expression.parts]
        return self._at_once(_with_parts(expression.encoded, parts), scope)

    def _logical(self, expression: Node, scope: dict[str, bytes]) -> _Known:
        decisive = expression.text == "_||_"
        left = self.evaluate(expression.parts[0], scope)
        if left.value is decisive:
            return left
        right = self.evaluate(expression.parts[1], scope)
        return self._at_once(_with_parts(expression.encoded, [left.encoded, right.encoded]), scope)

    def _loop(self, loop: Node, scope: dict[str, bytes]) -> _Known:
        over, start, _, step, result = loop.parts
        total = loop.variables[2]
        if over.kind == "list" and len(over.parts) == 1:
            # How a rule gets `self`, which may be opaque.
            items: Any = [self.evaluate(over.parts[0], scope)]
        else:
            found = self.evaluate(over, scope)
            if not isinstance(found.value, list | dict):
                return self._at_once(_with_parts(loop.encoded, [found.encoded]), scope)
            items = found.value
        accumulated = self.evaluate(start, scope)
        if _appends(step, total):
            accumulated = self._appended(loop, items, scope)
        else:
            *_, accumulated = accumulated, *self._slices(loop, items, accumulated, scope, max(len(items) // 2, 1))
        return self.evaluate(result, {**scope, total: accumulated.encoded})

    def _appended(self, loop: Node, items: Any, scope: dict[str, bytes]) -> _Known:
        """The list that a loop makes, from the lists of its slices."""
        collected: list[Any] = []
        empty = self._known([])
        for made in self._slices(loop, items, empty, scope, _LONGEST_LIST, restart=empty):
            if not isinstance(made.value, list):
                return made if isinstance(made.value, CelFailure) else self._known(CelFailure(BUDGET_EXCEEDED))
            collected += made.value
        return self._known(collected)

    def _slices(
        self,
        loop: Node,
        items: Any,
        accumulated: _Known,
        scope: dict[str, bytes],
        size: int,
        *,
        restart: _Known | None = None,
    ) -> Iterator[_Known]:
        """Go over slices of a list or map, as long as they can be: gives the accumulator after each.

        The only one of `items` may be a known expression. `accumulated` is the accumulator before, `size` that of the
        first slice; `restart` is the accumulator before each slice, None if it goes on with the one before.
        """
        condition, step = loop.parts[2:4]
        first, second, total = loop.variables
        pairs = list(items.items()) if isinstance(items, dict) else list(enumerate(items))
        is_map, at = isinstance(items, dict), 0
        while at < len(pairs):
            before = restart or accumulated
            taken = pairs[at : at + size]
            known = [value for _, value in taken if isinstance(value, _Known)]
            try:
                if known:
                    raise _TooLongError
                slice_of = dict(taken) if is_map else [value for _, value in taken]
                parts = [self._given(slice_of), before.encoded, condition.encoded, step.encoded, _name(total)]
                accumulated = self._at_once(_slice(loop, parts, 0 if is_map else at), scope)
            except _TooLongError:
                if size > 1:
                    size //= 2
                    continue
                key, value = taken[0]
                item = value.encoded if known else self._given(key if is_map and not second else value)
                inside = {**scope, total: before.encoded, **({first: item} if not second else {})}
                if second:
                    inside |= {first: self._given(key), second: item}
                goes_on = self.evaluate(condition, inside).value
                if goes_on is not True:
                    if isinstance(goes_on, CelFailure):
                        yield self._known(goes_on)
                    return
                accumulated = self.evaluate(step, inside)
            yield accumulated
            at += size


class Pieces:
    """A compiled rule that can be evaluated in pieces.

    `serialized`: the rule (`google.protobuf.Any` with a `cel.expr.CheckedExpr`).
    """

    def __init__(self, serialized: bytes) -> None:
        self._references, tree = checked(serialized)
        self._root = node(tree)
        self.makes_lists = _makes_lists(self._root)

    @cached_property
    def _counted(self) -> Node:
        return node(_counting(self._root))

    def evaluate(self, data: Mapping[str, Any], run: Callable[[bytes, Mapping[str, Any]], Any], opaque: Any) -> Any:
        """Evaluate it; gives a value, a CelFailure, or `opaque`.

        `run` evaluates a serialized expression with variables; `opaque` is what it gives for a value that Python cannot
        hold.

        Raises:
            CostError: it costs more than an API server permits.
        """
        token = _cost.set(_Cost())
        try:
            return _Piecewise(run, self._references, dict(data), opaque).evaluate(self._counted, {}).value
        except _TooLongError:
            return CelFailure(BUDGET_EXCEEDED)
        finally:
            _cost.reset(token)


def checked(serialized: bytes) -> tuple[list[bytes], bytes]:
    """The references and the expression of a serialized rule."""
    inside = next(value for number, value in fields(serialized) if number == 2)
    references = [value for number, value in fields(inside) if number == 2]
    return references, next(value for number, value in fields(inside) if number == 4)


def serialized(references: list[bytes], encoded: bytes) -> bytes:
    """A rule as the evaluator reads it."""
    inside = b"".join(_message(2, one) for one in references) + _message(4, encoded)
    return _message(1, _TYPE) + _message(2, inside)


def shifted(reference: bytes, offset: int) -> bytes:
    """A reference for an expression that was joined with this offset."""
    found = ((number, value + offset if number == 1 else value) for number, value in fields(reference))
    return b"".join(_encoded(number, value) for number, value in found)


class Joined:
    """Expressions that name each other, as one: names are bound where they are used, inside the loops around them."""

    def __init__(self) -> None:
        self._trees: dict[str, bytes] = {}
        self._needs: dict[str, set[str]] = {}
        self._last = ""

    def add(self, name: str, expression: Node, offset: int) -> None:
        """Add an expression, after all that it names; its identities grow by `offset`."""
        self._last = name
        self._trees[name], self._needs[name] = self._part(expression, offset)

    def whole(self) -> bytes:
        """The last expression with the others."""
        return self._bound(self._trees[self._last], self._needs[self._last])

    def _part(self, expression: Node, offset: int) -> tuple[bytes, set[str]]:
        needs: set[str] = set()
        if expression.kind == "name" and expression.text in self._trees:
            needs |= {expression.text, *self._needs[expression.text]}
        parts: list[bytes] = []
        for index, part in enumerate(expression.parts):
            encoded, needed = self._part(part, offset)
            if expression.kind == "loop" and index > 1:
                encoded, needed = self._bound(encoded, needed), set()
            parts.append(encoded)
            needs |= needed
        found = fields(_with_parts(expression.encoded, parts))
        return b"".join(_encoded(number, value + offset if number == 2 else value) for number, value in found), needs

    def _bound(self, encoded: bytes, needs: set[str]) -> bytes:
        for name in reversed([name for name in self._trees if name in needs]):
            encoded = _binding(name, self._trees[name], encoded)
        return encoded


def _makes_lists(expression: Node) -> bool:
    if expression.kind == "loop" and _appends(expression.parts[3], expression.variables[2]):
        return True
    return any(map(_makes_lists, expression.parts))


def _counting(expression: Node) -> bytes:
    """The expression with loops that count."""
    made = _with_parts(expression.encoded, [_counting(part) for part in expression.parts])
    if expression.kind != "loop":
        return made
    condition, step = expression.parts[2:4]
    cost = _expression(3, _number(3, _least_cost(condition) + _least_cost(step)))
    total = expression.variables[2]
    appended = _call("size", _name(total)) if _appends(step, total) else _expression(3, _number(3, 0))
    counted = _call("_?_:_", _call(COUNT, cost, appended), _counting(condition), _expression(3, _number(2, 0)))
    over, start = (_counting(part) for part in expression.parts[:2])
    return _with_parts(made, [over, start, counted])


def _least_cost(expression: Node) -> int:
    """What an evaluation costs at least. Source: `cel-go/interpreter/runtimecost.go`."""
    parts = expression.parts
    costs = [_least_cost(part) for part in parts]
    least = _BASE_COSTS.get(expression.kind, 0) + sum(costs)
    match expression.kind, expression.text:
        case "select", _:
            least = 0 if expression.tested else 1 + costs[0]
        case "loop", _:
            least = costs[0] + costs[1]
        case "call", "_?_:_":
            least = costs[0] + min(costs[1:])
        case "call", "_&&_" | "_||_":
            # After an accumulator that decides, a loop ends.
            least = sum(costs) if parts[0].text.startswith("@") else costs[0]
        case "call", name:
            with_number = any(part.type in _NUMBERS for part in parts)
            least = sum(costs) + (name in _CALLS or with_number)
    return least


def _appends(step: Node, total: str) -> bool:
    """Whether a loop only appends to a list."""
    if step.kind == "call" and step.text == "_?_:_":
        return _is_name(step.parts[2], total) and _appends(step.parts[1], total)
    return (
        step.kind == "call"
        and step.text == "_+_"
        and _is_name(step.parts[0], total)
        and step.parts[1].kind == "list"
        and not _uses(step.parts[1], total)
    )


def _is_name(expression: Node, name: str) -> bool:
    return expression.kind == "name" and expression.text == name


def _uses(expression: Node, name: str) -> bool:
    return _is_name(expression, name) or any(
        _uses(part, name) for part in expression.parts if name not in expression.variables
    )


def _has_times(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_times, value.values()))
    return any(map(_has_times, value)) if isinstance(value, list) else isinstance(value, datetime | timedelta)


def _slice(loop: Node, parts: list[bytes], offset: int) -> bytes:
    """The loop over a part of its list, whose first index is `offset`."""
    first, second, total = loop.variables
    names = [(1, first), (8, second), (3, total)]
    if second and offset:
        shifted = _call("_+_", _name(_INDEX), _expression(3, _number(3, offset)))
        parts = [*parts[:2], *(_binding(first, shifted, part) for part in parts[2:4]), parts[4]]
        names[0] = (1, _INDEX)
    named = b"".join(_message(number, name.encode()) for number, name in names if name)
    return _expression(_LOOP, named + b"".join(map(_message, _CHILDREN[_LOOP], parts)))


def _with_parts(encoded: bytes, parts: list[bytes]) -> bytes:
    """An expression with other parts in the place of its first ones."""
    left = iter(parts)
    made = b""
    for number, value in fields(encoded):
        if number in _CHILDREN:
            value = _replaced(value, _CHILDREN[number], left)  # noqa: PLW2901
        elif number == _MAP:
            entries = (
                _message(place, _replaced(inner, (3, 4), left)) if place == 2 else _encoded(place, inner)
                for place, inner in fields(value)
            )
            value = b"".join(entries)  # noqa: PLW2901
        made += _encoded(number, value)
    return made


def _replaced(data: bytes, places: tuple[int, ...], parts: Iterator[bytes]) -> bytes:
    # Names come before and between the parts, which are in the order of their numbers.
    found = sorted(fields(data), key=lambda one: places.index(one[0]) if one[0] in places else -1)
    return b"".join(_encoded(number, next(parts, value) if number in places else value) for number, value in found)


def _encoded(number: int, value: Any) -> bytes:
    return _number(number, value) if isinstance(value, int) else _message(number, value)


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _message(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _expression(kind: int, value: bytes) -> bytes:
    return _number(2, next(_numbers)) + _message(kind, value)


def _name(name: str) -> bytes:
    return _expression(4, _message(1, name.encode()))


def _text(text: str) -> bytes:
    return _expression(3, _message(6, text.encode()))


def _call(function: str, *arguments: bytes) -> bytes:
    return _expression(6, _message(2, function.encode()) + b"".join(_message(3, one) for one in arguments))


def _binding(name: str, value: bytes, expression: bytes) -> bytes:
    """`cel.bind(name, value, expression)`: a loop without iterations whose accumulator has the name."""
    parts = [_expression(_LIST, b""), value, _expression(3, _number(2, 0)), _name(name), expression]
    named = _message(1, b"#unused") + _message(3, name.encode())
    return _expression(_LOOP, named + b"".join(map(_message, _CHILDREN[_LOOP], parts)))
