# SPDX-License-Identifier: Apache-2.0
"""The order of merged lists: items that the patch names in its order, the others where they stood.

https://git.k8s.io/design-proposals-archive/cli/preserve-order-in-strategic-merge-patch.md
"""

from typing import Any

from trainwright.controller.local.apiserver.merge.apply.values import shown, type_name
from trainwright.controller.local.apiserver.merge.patch.errors import BrokenPatchError

_SORTED_BY_INSERTION = 20
"""Go's sort moves blocks of this size by insertion; the order of longer lists with unknown items is not defined."""

Items = list[Any]
Identity = tuple[type, Any]


def missing_key(item: dict[str, Any], merge_key: str) -> BrokenPatchError:
    """The error of an item without its merge key."""
    return BrokenPatchError(f"map: {shown(item)} does not contain declared merge key: {merge_key}")


def wrong_type(expected: str, found: Any) -> BrokenPatchError:
    """The error of a value of another type, both as Go names them."""
    return BrokenPatchError(f"expected a {expected}, but received a {type_name(found)}")


def identity(value: Any) -> Identity:
    """What tells a scalar from others: 1, 1.0 and true are three values.

    Raises:
        BrokenPatchError: it is an object or a list, on which the API server itself gives up.
    """
    if type(value) in (dict, list):
        raise BrokenPatchError(f"runtime error: comparing uncomparable type {type_name(value)}")
    return type(value), value


def item_identity(item: Any, merge_key: str) -> Identity:
    """What tells an item from others: its merge key, or the scalar itself where there is none.

    Raises:
        BrokenPatchError: it has no merge key, or one that cannot be compared.
    """
    if not merge_key:
        return identity(item)
    if type(item) is not dict:
        raise wrong_type("map[string]interface {}", item)
    if merge_key not in item:
        raise missing_key(item, merge_key)
    return identity(item[merge_key])


def ordered(merged: Items, named: Items, live: Items, merge_key: str) -> Items:
    """The merged items in their order.

    Args:
        merged: what the list shall hold.
        named: the order of items that the patch gives.
        live: the order that they had.
        merge_key: of the items; empty for scalars.

    Raises:
        BrokenPatchError: an item has no merge key.
    """
    named_places, live_places = _places(named, merge_key), _places(live, merge_key)
    of_patch: Items = []
    others: Items = []
    for item in merged:
        (of_patch if item_identity(item, merge_key) in named_places else others).append(item)
    of_patch = _sorted(of_patch, named_places, merge_key)
    others = _sorted(others, live_places, merge_key)
    return _interleaved(others, of_patch, live_places, merge_key)


def _places(items: Items, merge_key: str) -> dict[Identity, int]:
    places: dict[Identity, int] = {}
    for index, item in enumerate(items):
        places.setdefault(item_identity(item, merge_key), index)
    return places


def _sorted(items: Items, places: dict[Identity, int], merge_key: str) -> Items:
    indexes = [places.get(item_identity(item, merge_key)) for item in items]
    if None not in indexes:
        return [item for _, item in sorted(zip(indexes, items, strict=True), key=lambda pair: pair[0] or 0)]
    if len(items) > _SORTED_BY_INSERTION:
        return [
            item
            for _, item in sorted(zip(indexes, items, strict=True), key=lambda pair: -1 if pair[0] is None else pair[0])
        ]
    # An item that is not in the order counts as smaller than any other: Go's insertion sort moves it to the front.
    pairs: list[tuple[int | None, Any]] = []
    for pair in zip(indexes, items, strict=True):
        place = len(pairs)
        while place and _before(pair[0], pairs[place - 1][0]):
            place -= 1
        pairs.insert(place, pair)
    return [item for _, item in pairs]


def _before(left: int | None, right: int | None) -> bool:
    return left is None or right is None or left < right


def _interleaved(left: Items, right: Items, places: dict[Identity, int], merge_key: str) -> Items:
    """Both lists in one, each in its order; an item of the left stands before the right ones that followed it."""
    made: Items = []
    start = 0
    for item in right:
        place = places.get(item_identity(item, merge_key))
        while place is not None and start < len(left):
            other = places.get(item_identity(left[start], merge_key))
            if other is None or other >= place:
                break
            made.append(left[start])
            start += 1
        made.append(item)
    return made + left[start:]
