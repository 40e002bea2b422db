# SPDX-License-Identifier: Apache-2.0
"""Sets of fields, and their form on the wire, `fieldsV1`.

A set is a tree of dictionaries by path element. A node is a member of the set if it has the key `.`; it has it, other
than on the wire, also if it has no children. Trees are never changed once they are made, so they share branches. An
inner node is never empty.

The algebra is that of structured merge: what holds for a field says nothing of the fields below it, except in
`recursive_difference`.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from trainwright.controller.local.apiserver.merge.apply.element import SELF, canonical, described, in_order
from trainwright.controller.local.apiserver.merge.apply.errors import EntryError

Tree = dict[str, "Tree"]
Path = tuple[str, ...]

NOTHING: Tree = {}
MEMBER: Tree = {SELF: NOTHING}
"""A member without children."""
_encode = msgspec.json.Encoder().encode


def read(wire: object) -> Tree:
    """A set from its form on the wire. Elements of unknown types are left out.

    Raises:
        EntryError: it is not a tree of path elements.
    """
    return read_and_compare(wire)[0]


def read_and_compare(wire: object) -> tuple[Tree, bool]:
    """A set from its form on the wire, and whether each part of it is written as in that form.

    Raises:
        EntryError: it is not a tree of path elements.
    """
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
    """The form on the wire, in the order in which Kubernetes writes it.

    Args:
        tree: the set.
        known: another one.
        known_form: its form; what is equal in both is taken from there.
    """
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
    """What is in either."""
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
    """What is in both."""
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


def leaves(tree: Tree) -> Tree:
    """The members that have no member below them."""
    return {
        element: below if len(below) == 1 and SELF in below else leaves(below)
        for element, below in tree.items()
        if element != SELF
    }


def has(tree: Tree, path: Path) -> bool:
    """Whether a path is a member."""
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


def text(path: Path, *, stored: bool = True) -> str:
    """A path in a message, such as `.spec.containers[name="a"].image`."""
    return "".join(described(element, stored=stored) for element in path)
