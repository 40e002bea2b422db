# SPDX-License-Identifier: Apache-2.0
"""Sets of fields, their elements, and their form on the wire, `fieldsV1`.

An element names one field or item inside its parent. It is the text that it has as a key of `fieldsV1`, in canonical
form, so that equal elements are equal strings: `f:` and the name of a field, `k:` and the key fields of an item as JSON
sorted by name, `v:` and an item of a set as JSON, `i:` and an index. `.` stands for the parent itself.

A set is a tree of dictionaries by element. A node is a member of the set if it has the key `.`; it has it, other than
on the wire, also if it has no children. Trees are never changed once they are made, so they share branches. An inner
node is never empty.

The algebra is that of structured merge: what holds for a field says nothing of the fields below it, except in
`recursive_difference`.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from trainwright.controller.local.apiserver.errors import StatusError
from trainwright.controller.local.values import (
    TOO_DEEP,
    Value,
    is_too_deep,
    json_text,
    quoted,
    text_in_json,
)


class UnfitObjectError(StatusError):
    """An object, or what it says of its owners, cannot be read. Kubernetes answers such an apply with 500."""

    def __init__(self, message: str) -> None:
        super().__init__(500, "", message)


class EntryError(UnfitObjectError):
    """An entry of managedFields cannot be read."""


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
    inner = ",".join(f"{text_in_json(key)}:{_content(value)}" for key, value in fields)
    return f"k:{{{inner}}}"


def set_item(value: Value) -> str:
    return "v:" + _content(value)


def _content(value: Value) -> str:
    # Kubernetes reads the numbers of field sets as float64. Written exactly, an integer beyond 2**53 would differ from
    # itself once it was stored.
    exact = type(value) is not int or -_LARGEST_EXACT <= value <= _LARGEST_EXACT
    return json_text(value if exact else float(value))


@lru_cache(maxsize=4096)
def canonical(text: str) -> str | None:
    """The canonical form of a key of `fieldsV1`; None for a type of a later Kubernetes. Raises EntryError."""
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
        return set_item(value)
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


def described(element: str) -> str:
    """An element in a message, such as `.spec` or `[name="a"]`."""
    kind, content = element[:1], element[2:]
    if kind == "f":
        return "." + content
    if kind == "k":
        fields = json.loads(content).items()
        return "[" + ",".join(f"{name}={_described_value(value)}" for name, value in fields) + "]"
    if kind == "v":
        return f"[={_described_value(json.loads(content))}]"
    if kind == "i":
        return f"[{content}]"
    return "{{invalid path element}}"


def _described_value(value: Value) -> str:
    return quoted(value) if type(value) is str else json_text(value)


Tree = dict[str, "Tree"]
Path = tuple[str, ...]

NOTHING: Tree = {}
MEMBER: Tree = {SELF: NOTHING}
"""A member without children."""
_encode = msgspec.json.Encoder().encode


def read(wire: object) -> Tree:
    """A set from its form on the wire. Elements of unknown types are left out. Raises EntryError."""
    return read_and_compare(wire)[0]


def read_and_compare(wire: object) -> tuple[Tree, bool]:
    """A set from its form on the wire, and whether each part of it is written as in that form. Raises EntryError."""
    same: list[bool] = []

    def shared(below: object) -> Tree:
        # Objects of one kind differ in their metadata and have most of the rest in common.
        tree, written = _read_text(_encode(below))
        same.append(written)
        return tree

    node = _read_node(wire, shared)
    tree = {element: below for element, below in node.items() if element != SELF}
    return tree, all(same) and type(wire) is dict and wire.keys() == tree.keys()


class Branch(dict[str, "Tree"]):
    """A node that may be the key of a cache: the same text is read as the same object."""

    __hash__ = object.__hash__  # type: ignore[assignment]


@lru_cache(maxsize=1024)
def _read_text(text: bytes) -> tuple[Tree, bool]:
    tree = Branch(_read_node(msgspec.json.decode(text)))
    return tree, _encode(write(tree)) == text


def _read_node(wire: object, read_below: Callable[[object], Tree] | None = None) -> Tree:
    if not wire and (wire is None or type(wire) is dict):
        return MEMBER
    if type(wire) is not dict:
        raise EntryError(f"expected an object, got {wire!r}")
    node: Tree = {}
    member = False
    for key, below in wire.items():
        if key[:2] == "f:":
            element: str | None = key
        elif key == SELF:
            member = True
            continue
        else:
            element = canonical(key)
        if element is None:
            continue
        child = (read_below or _read_node)(below)
        node[element] = child if element not in node else _later(node[element], child)
    if member or not node:
        node[SELF] = NOTHING
    return node


def _later(earlier: Tree, later: Tree) -> Tree:
    """What becomes of two spellings of one element: the later one's children count."""
    member = {SELF: NOTHING} if SELF in earlier or SELF in later else {}
    children = [node for node in (later, earlier) if any(element != SELF for element in node)]
    return (children[0] if children else {}) | member


def write(tree: Tree, known: Tree = NOTHING, known_form: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
    """The form on the wire, in the order of Kubernetes. What is equal in the set `known` is taken from its form."""
    written: dict[str, Any] = {}
    for element in in_order(tree) if len(tree) > 1 else tree:
        below = tree[element]
        if not below or (len(below) == 1 and SELF in below):
            written[element] = {}
        elif (same := known.get(element, NOTHING)) == below:
            written[element] = known_form[element]
        else:
            written[element] = write(below, same, known_form.get(element, NOTHING))
    return written


def union(left: Tree, right: Tree) -> Tree:
    if left is right or not right:
        return left
    if not left:
        return right
    merged = dict(left)
    for element, below in right.items():
        mine = merged.get(element)
        merged[element] = below if mine is None else union(mine, below)
    return merged


def intersection(left: Tree, right: Tree) -> Tree:
    if left is right:
        return left
    if len(right) < len(left):
        left, right = right, left
    kept: Tree = {}
    for element, below in left.items():
        other = right.get(element)
        if other is None:
            continue
        if element == SELF:
            kept[SELF] = NOTHING
        elif both := intersection(below, other):
            kept[element] = both
    return kept


def difference(left: Tree, right: Tree) -> Tree:
    """What is in `left` and not in `right`; what lies below a member of `right` stays."""
    if not left or not right:
        return left
    kept: Tree = {}
    for element, below in left.items():
        other = right.get(element)
        if other is None:
            kept[element] = below
        # Equal branches are the common case, and found much faster than what a difference would be.
        elif element != SELF and below != other and (rest := difference(below, other)):
            kept[element] = rest
    return kept


def recursive_difference(left: Tree, right: Tree) -> Tree:
    """What is in `left` and neither in `right` nor below a member of it."""
    if not left or not right:
        return left
    kept: Tree = {}
    for element, below in left.items():
        other = right.get(element)
        if other is None:
            kept[element] = below
        elif SELF not in other and (rest := recursive_difference(below, other)):
            kept[element] = rest
    return kept


def has(tree: Tree, path: Path) -> bool:
    for element in path:
        below = tree.get(element)
        if below is None:
            return False
        tree = below
    return bool(path) and SELF in tree


def of(*paths: Path) -> Tree:
    """The set of these paths, none of them empty."""
    tree: Tree = {}
    for path in paths:
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        node[SELF] = NOTHING
    return tree


def paths(tree: Tree, prefix: Path = ()) -> Iterator[Path]:
    """The members in the order of Kubernetes: those of one node before what lies below them."""
    elements = [element for element in in_order(tree) if element != SELF]
    for element in elements:
        if SELF in tree[element]:
            yield (*prefix, element)
    for element in elements:
        yield from paths(tree[element], (*prefix, element))


def text(path: Path) -> str:
    """A path in a message, such as `.spec.containers[name="a"].image`."""
    return "".join(map(described, path))
