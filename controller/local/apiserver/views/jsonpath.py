# SPDX-License-Identifier: Apache-2.0
"""JSONPath as CRDs use it, for columns of tables and selectable fields.

https://kubernetes.io/docs/reference/kubectl/jsonpath/. Fields, indexes, `[*]` and filters that compare with `==` or
`!=`; the rest is for kubectl alone. What does not fit a value finds nothing.
"""

import json
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
    |\[(?P<index>-?\d+)\]
    |\[\?\((?P<filter>@[^"'=!<>]+)(?:(?P<sign>[=!]=)\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<other>[\w.-]+))\s*)?\)\]
    |(?P<every>\[\*\])
    |\.$""",
    re.VERBOSE,
)


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
        if found["field"] or found["key"]:
            # A dot in quotes separates fields too, unless it is escaped.
            names = [found["field"]] if found["field"] else re.findall(r"(?:\\.|[^.\\])+", found["key"])
            yield from (_items if name == "*" else _field(re.sub(r"\\(.)", r"\1", name)) for name in names)
        elif found["filter"]:
            yield _filter(found)
        elif found["index"]:
            yield _item(int(found["index"]))
        elif found["every"]:
            yield _items


def _field(name: str) -> Step:
    return lambda value: (value[name],) if type(value) is dict and name in value else ()


def _items(value: Any) -> Iterable[Any]:
    return value if type(value) is list else value.values() if type(value) is dict else ()


def _item(index: int) -> Step:
    return lambda value: (value[index],) if type(value) is list and -len(value) <= index < len(value) else ()


def _filter(found: re.Match[str]) -> Step:
    find, sign = compile_path(found["filter"]), found["sign"]
    if sign is None:
        return lambda value: [item for item in _items(value) if find(item)]
    try:
        texts = (found["double"], found["single"])
        wanted = next((one for one in texts if one is not None), None) or json.loads(found["other"] or '""')
    except ValueError as error:
        raise JSONPathError(f"cannot compare with {found['other']}") from error

    def matches(item: Any) -> bool:
        values = find(item)
        return len(values) == 1 and type(values[0]) is type(wanted) and (values[0] == wanted) == (sign == "==")

    return lambda value: [item for item in _items(value) if matches(item)]


def result_text(value: Any) -> str:
    """A result as it is printed: JSON for objects and lists, Go's form for the rest."""
    if value is None:
        return "<no value>"
    return json_text(value) if type(value) in (dict, list) else shown(value)
