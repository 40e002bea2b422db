# SPDX-License-Identifier: Apache-2.0
"""Elements of paths: how one field or item is named inside its parent.

An element is the text that it has as a key of `fieldsV1`, in canonical form, so that equal elements are equal strings:
`f:` and the name of a field, `k:` and the key fields of an item as JSON sorted by name, `v:` and an item of a set as
JSON, `i:` and an index. `.` stands for the parent itself.
"""

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from trainwright.controller.local.apiserver.merge.apply.errors import EntryError
from trainwright.controller.local.apiserver.merge.apply.values import (
    Value,
    float_text,
    json_text,
    number_text,
    quoted,
    text_in_json,
)
from trainwright.controller.local.apiserver.merge.nesting import TOO_DEEP, is_too_deep

SELF = "."
INVALID = ""
"""An item that has no element, such as null in a list with keys."""

Order = tuple[Any, ...]
_LARGEST_EXACT = 2**53
_INDEX = re.compile(r"[+-]?[0-9]+", re.ASCII)


@lru_cache(maxsize=4096)
def keyed_by_text(key: str, text: str) -> str:
    """The element of an item with one key field that is a string: by far the most frequent."""
    return f"k:{{{text_in_json(key)}:{json_text(text)}}}"


def keyed(fields: Iterable[tuple[str, Value]]) -> str:
    """The element of an item with these key fields, which are sorted by name."""
    inner = ",".join(f"{text_in_json(key)}:{_content(value)}" for key, value in fields)
    return f"k:{{{inner}}}"


def item(value: Value) -> str:
    """The element of an item of a set."""
    return "v:" + _content(value)


def _content(value: Value) -> str:
    # Kubernetes reads the numbers of field sets as float64. Written exactly, an integer beyond 2**53 would differ from
    # itself once it was stored.
    exact = type(value) is not int or -_LARGEST_EXACT <= value <= _LARGEST_EXACT
    return json_text(value if exact else float(value))


@lru_cache(maxsize=4096)
def canonical(text: str) -> str | None:
    """The canonical form of a key of `fieldsV1`; None for a type of a later Kubernetes, which is to be ignored.

    Raises:
        EntryError: it is not a path element.
    """
    if len(text) < 2:
        raise EntryError("key must be 2 characters long:")
    if text[1] != ":":
        raise EntryError(f"missing colon: {text}")
    kind, content = text[0], text[2:]
    if kind == "f":
        return text
    if kind == "i":
        if not _INDEX.fullmatch(content):
            raise EntryError(f'strconv.Atoi: parsing "{content}": invalid syntax')
        return f"i:{int(content)}"
    if kind not in "kv":
        return None
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise EntryError(f"cannot read {text}: {error}") from error
    if is_too_deep(value):
        raise EntryError(f"cannot read {text}: {TOO_DEEP}")
    if kind == "v":
        return item(value)
    if type(value) is not dict:
        raise EntryError(f"cannot read {text}: expected an object")
    return keyed(sorted(value.items()))


@lru_cache(maxsize=4096)
def order(element: str) -> Order:
    """What elements are sorted by: fields by name, then items by key fields, then items of sets, then indexes."""
    kind, content = element[:1], element[2:]
    if kind == "f":
        return (0, content)
    if kind == "k":
        return (1, tuple((name, _value_order(value)) for name, value in json.loads(content).items()))
    if kind == "v":
        return (2, _value_order(json.loads(content)))
    if kind == "i":
        return (3, int(content))
    return (-1,) if element == SELF else (4,)


def _value_order(value: Value) -> Order:
    """Numbers, then strings, truth values, lists, maps and null."""
    kind = type(value)
    if kind is int or kind is float:
        return (0, value)
    if kind is str:
        return (1, value)
    if kind is bool:
        return (2, value)
    if kind is list:
        return (3, tuple(map(_value_order, value)))
    if kind is dict:
        return (4, tuple((key, _value_order(value[key])) for key in sorted(value)))
    return (5,)


def in_order(elements: Iterable[str]) -> list[str]:
    """Elements in the order in which Kubernetes writes them."""
    found = sorted(elements)
    # "." and "f:" come first as texts too, and sort as texts do.
    if found and found[-1] >= "g":
        found.sort(key=order)
    return found


def described(element: str, *, stored: bool) -> str:
    """An element in a message, such as `.spec` or `[name="a"]`.

    Args:
        element: the element.
        stored: it was read from managedFields, where Kubernetes takes numbers for float64: 1000000 is shown as 1e+06.
            Other numbers are shown as they were written, but whole ones always as integers.
    """
    kind, content = element[:1], element[2:]
    if kind == "f":
        return "." + content
    if kind == "k":
        fields = json.loads(content).items()
        return "[" + ",".join(f"{name}={_described_value(value, stored=stored)}" for name, value in fields) + "]"
    if kind == "v":
        return f"[={_described_value(json.loads(content), stored=stored)}]"
    if kind == "i":
        return f"[{content}]"
    return "{{invalid path element}}"


def _described_value(value: Value, *, stored: bool) -> str:
    kind = type(value)
    if kind is str:
        return quoted(value)
    if kind is int or kind is float:
        return float_text(float(value)) if stored or kind is float else number_text(value)
    if kind is list:
        return "[" + ",".join(_described_value(inner, stored=stored) for inner in value) + "]"
    if kind is dict:
        return "".join(f"{key}={_described_value(value[key], stored=stored)}" for key in sorted(value))
    return {None: "null", True: "true", False: "false"}[value]
