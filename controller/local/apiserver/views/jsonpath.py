# SPDX-License-Identifier: Apache-2.0
"""JSONPath as CRDs use it, for printer columns and selectable fields.

https://kubernetes.io/docs/reference/kubectl/jsonpath/. `range` and texts around paths are for kubectl
alone. Missing fields have no result, as kube-apiserver evaluates the paths of CRDs.
"""

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

from trainwright.controller.local.apiserver.merge.apply.values import json_text, shown

Step = Callable[[list[Any]], list[Any]]
Path = Callable[[Any], list[Any]]

_DOTTED = re.compile(r"\.{1,2}((?:\\.|[^\s.,\[\]$@{}\\])+)")
_KEY = re.compile(r"\['([^']+)'\]")
_RANGE = re.compile(r"\[(-?\d*)(:-?\d*)?(:-?\d*)?\]")
_FILTER = re.compile(r"""\[\?\(((?:[^"')]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')*)\)\]""")
_COMPARISON = re.compile(r"([^!<>=]+)(==|!=|<=|>=|<|>)(.+)")
_LITERAL = re.compile(r"""\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|(true|false)|([+-]?[\d.]+))\s*""")
_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class JSONPathError(ValueError):
    """A path cannot be parsed, or does not fit a value: an index on an object, or beyond the end of a list."""


def compile_path(text: str) -> Path:
    """The values that a path such as `.status.conditions[?(@.type=="Ready")].status` finds.

    Raises:
        JSONPathError: it cannot be parsed. The function that is returned raises it where the path does not fit.
    """
    steps = list(_steps(text))

    return lambda value: _through(steps, [value])


def _through(steps: list[Step], values: list[Any]) -> list[Any]:
    for step in steps:
        values = step(values)
    return values


def _steps(text: str) -> Iterator[Step]:
    position = 0
    while position < len(text):
        rest = text[position:]
        if rest[0] in " $@":
            position += 1
        elif rest.startswith(".."):
            yield _descendants
            # `..name` looks for the field in all of them, `..[0]` for the item.
            position += 1 if _DOTTED.match(rest) else 2
        elif match := _DOTTED.match(rest):
            name = re.sub(r"\\(.)", r"\1", match[1])
            yield _every if name == "*" else _field(name)
            position += match.end()
        elif rest.startswith("[?("):
            match = _FILTER.match(rest)
            if match is None:
                raise JSONPathError("unterminated filter")
            yield _filter(match[1])
            position += match.end()
        elif rest[0] == "[":
            end = rest.find("]") + 1
            if not end:
                raise JSONPathError("unterminated array")
            yield _bracket(rest[:end])
            position += end
        elif rest == ".":
            return
        else:
            raise JSONPathError(f"unrecognized character in action: {rest[0]!r}")


def _bracket(text: str) -> Step:
    parts = text[1:-1].split(",")
    if len(parts) > 1:
        steps = [_bracket(f"[{part.strip(' ')}]") for part in parts]
        return lambda values: [found for step in steps for found in step(values)]
    if text == "[*]":
        return _items
    if match := _KEY.fullmatch(text):
        # A dot in the quotes separates fields too, unless it is escaped.
        steps = list(_steps(f".{match[1]}"))
        return lambda values: _through(steps, values)
    if match := _RANGE.fullmatch(text):
        return _slice(*match.groups())
    raise JSONPathError(f"invalid array index {text[1:-1]}")


def _field(name: str) -> Step:
    return lambda values: [value[name] for value in values if type(value) is dict and name in value]


def _every(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += value.values() if type(value) is dict else value if type(value) is list else ()
    return found


def _items(values: list[Any]) -> list[Any]:
    return [item for value in values if value is not None for item in _list(value)]


def _descendants(values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        inner = _every([value])
        if inner:
            found.append(value)
            found += _descendants(inner)
    return found


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise JSONPathError(f"{shown(value)} is not array or slice")
    return value


def _slice(first: str, last: str | None, step: str | None) -> Step:
    stride = int(step[1:]) if step and step[1:] else 1
    if stride <= 0:
        raise JSONPathError("step must be > 0")

    def take(values: list[Any]) -> list[Any]:
        found: list[Any] = []
        for value in values:
            if value is None:
                continue
            items = _list(value)
            size = len(items)
            start = int(first or 0)
            start += size if start < 0 else 0
            end = start + 1 if last is None else int(last[1:] or size)
            end += size if end < 0 else 0
            if start == end:
                continue
            if not (0 <= start < size and 0 <= end <= size) or start > end:
                raise JSONPathError(f"array index out of bounds: index {start}, length {size}")
            found += items[start:end:stride]
        return found

    return take


def _filter(text: str) -> Step:
    comparison = _COMPARISON.fullmatch(text)
    if comparison is None:
        exists = compile_path(text)
        return lambda values: [item for value in values for item in _list(value) if exists(item)]
    left, compare, right = _operand(comparison[1]), _COMPARE[comparison[2]], _operand(comparison[3])

    def matches(item: Any) -> bool:
        lefts, rights = left(item), right(item)
        if not lefts:
            return False
        if len(lefts) > 1 or len(rights) != 1:
            raise JSONPathError("can only compare one element at a time")
        return _compared(compare, lefts[0], rights[0])

    return lambda values: [item for value in values for item in _list(value) if matches(item)]


def _operand(text: str) -> Path:
    match = _LITERAL.fullmatch(text)
    if match is None:
        return compile_path(text)
    double, single, truth, number = match.groups()
    if number is not None:
        literal: Any = float(number) if "." in number else int(number)
    elif truth is not None:
        literal = truth == "true"
    else:
        literal = re.sub(r"\\(.)", r"\1", single if double is None else double)
    return lambda _: [literal]


def _compared(compare: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    numbers = {int, float}
    if type(left) is type(right) or {type(left), type(right)} <= numbers:
        if type(left) in (dict, list) or left is None:
            raise JSONPathError("invalid type for comparison")
        return compare(left, right)
    raise JSONPathError("incompatible types for comparison")


def result_text(value: Any) -> str:
    """A result as it is printed: JSON for objects and lists, Go's form for the rest."""
    if value is None:
        return "<no value>"
    return json_text(value) if type(value) in (dict, list) else shown(value)
