# SPDX-License-Identifier: Apache-2.0
"""JSONPath as CRDs use it, for printer columns and selectable fields.

https://kubernetes.io/docs/reference/kubectl/jsonpath/. Fields, indexes, slices, `[*]` and filters of one comparison;
`range`, `..`, unions and texts around paths are for kubectl alone. What does not fit a value finds nothing.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from trainwright.controller.local.values import json_text, shown

Path = Callable[[Any], list[Any]]
Step = Callable[[Any], Iterable[Any]]

_STEP = re.compile(
    r"""[$@ ]+
    |\.(?P<field>(?:\\.|[^\s.,\[\]$@{}\\])+)
    |\['(?P<key>[^']+)'\]
    |\[(?P<first>-?\d*)(?P<last>:-?\d*)?\]
    |\[\?\((?P<filter>(?:[^"')]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')*)\)\]
    |(?P<every>\[\*\])
    |\.$""",
    re.VERBOSE,
)
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
_NUMBERS = {int, float}


class JSONPathError(ValueError):
    """A path cannot be parsed."""


def compile_path(text: str) -> Path:
    """What finds values by a path such as `.status.conditions[?(@.type=="Ready")].status`. Raises JSONPathError."""
    steps = list(_steps(text))

    def find(value: Any) -> list[Any]:
        values = [value]
        for step in steps:
            values = [found for one in values for found in step(one)]
        return values

    return find


def _steps(text: str) -> Iterator[Step]:
    position = 0
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            raise JSONPathError(f"cannot read {text[position:]!r}")
        position = found.end()
        if found["field"] is not None or found["key"] is not None:
            yield from _fields(found["field"], found["key"])
        elif found["filter"] is not None:
            yield _filter(found["filter"])
        elif found["every"] is not None:
            yield _items
        elif found["first"] is not None:
            yield _part(found["first"], found["last"])


def _fields(field: str | None, key: str | None) -> Iterator[Step]:
    # A dot in quotes separates fields too, unless it is escaped.
    names = [field] if field is not None else re.findall(r"(?:\\.|[^.\\])+", key or "")
    for name in names:
        yield _items if name == "*" else _field(re.sub(r"\\(.)", r"\1", name))


def _field(name: str) -> Step:
    return lambda value: (value[name],) if type(value) is dict and name in value else ()


def _items(value: Any) -> Iterable[Any]:
    return value if type(value) is list else value.values() if type(value) is dict else ()


def _part(first: str, last: str | None) -> Step:
    start = int(first or 0)
    after = f":{start + 1 or ''}" if last is None else last
    end = int(after[1:]) if after[1:] else None
    return lambda value: value[start:end] if type(value) is list else ()


def _filter(text: str) -> Step:
    comparison = _COMPARISON.fullmatch(text)
    if comparison is None:
        exists = compile_path(text)
        return lambda value: [item for item in _items(value) if exists(item)]
    left, compare, right = _operand(comparison[1]), _COMPARE[comparison[2]], _operand(comparison[3])

    def matches(item: Any) -> bool:
        lefts, rights = left(item), right(item)
        if len(lefts) != 1 or len(rights) != 1:
            return False
        one, other = lefts[0], rights[0]
        comparable = type(one) is type(other) or {type(one), type(other)} <= _NUMBERS
        return comparable and type(one) in (str, bool, *_NUMBERS) and compare(one, other)

    return lambda value: [item for item in _items(value) if matches(item)]


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


def result_text(value: Any) -> str:
    """A result as it is printed: JSON for objects and lists, Go's form for the rest."""
    if value is None:
        return "<no value>"
    return json_text(value) if type(value) in (dict, list) else shown(value)
