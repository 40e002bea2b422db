# SPDX-License-Identifier: Apache-2.0
"""Which old value belongs to a new one, so that errors of unchanged values do not refuse an update.

Fields belong together by name, items of map lists by their keys, items of other lists not at all. Source:
`k8s.io/apiserver/pkg/cel/common`, KEP-4008.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from trainwright.controller.local.apiserver.merge.apply.values import equal
from trainwright.controller.local.apiserver.schema.problems import Step

Schema = Mapping[str, Any]


class Correlation:
    """A value, the old value at the same place and their schema."""

    __slots__ = ("_equal", "_known", "_old_items", "new", "old", "schema")

    def __init__(self, schema: Schema, new: Any, old: Any) -> None:
        self.schema = schema
        self.new = new
        self.old = old
        self._known: dict[Step, Correlation | None] = {}
        self._equal: bool | None = None
        self._old_items: dict[Any, Any] | None = None

    def at(self, step: Step) -> "Correlation | None":
        """The part at a field or index; None if nothing old belongs to it."""
        if step not in self._known:
            self._known[step] = self._key(step) if isinstance(step, str) else self._index(step)
        return self._known[step]

    def _key(self, name: str) -> "Correlation | None":
        if type(self.new) is not dict or type(self.old) is not dict:
            return None
        if name not in self.new or name not in self.old:
            return None
        schema = self.schema.get("properties", {}).get(name)
        if schema is None:
            schema = self.schema.get("additionalProperties")
        return Correlation(schema, self.new[name], self.old[name]) if isinstance(schema, Mapping) else None

    def _index(self, index: int) -> "Correlation | None":
        if type(self.new) is not list or type(self.old) is not list:
            return None
        items = self.schema.get("items")
        if self._old_items is None:
            self._old_items = items_by_key(self.schema, self.old)
        old = self._old_items.get(key_of(self.schema, self.new[index]))
        return Correlation(items, self.new[index], old) if isinstance(items, Mapping) and old is not None else None

    @property
    def unchanged(self) -> bool:
        """Whether nothing changed; values that no schema describes count as changed."""
        if self._equal is None:
            self._equal = self._compare()
        return self._equal

    def _compare(self) -> bool:
        new, old = self.new, self.old
        if new is None or old is None:
            return new is old
        if type(new) is dict and type(old) is dict:
            return len(new) == len(old) and self._all_unchanged(new)
        if type(new) is list and type(old) is list:
            if len(new) != len(old):
                return False
            if self.schema.get("x-kubernetes-list-type") != "map":
                return equal(new, old)
            return self._all_unchanged(range(len(new)))
        return equal(new, old)

    def _all_unchanged(self, steps: Iterable[Step]) -> bool:
        for step in steps:
            part = self.at(step)
            if part is None or not part.unchanged:
                return False
        return True


def key_of(schema: Schema, item: Any) -> tuple[Any, ...] | None:
    """What tells an item of a map list apart; None if a key is missing or no scalar."""
    if schema.get("x-kubernetes-list-type") != "map" or type(item) is not dict:
        return None
    found: list[Any] = []
    for name in schema.get("x-kubernetes-list-map-keys", ()):
        value = item.get(name)
        if type(value) not in (str, int, float, bool):
            return None
        found += (type(value), value)
    return tuple(found) or None


def items_by_key(schema: Schema, items: Any) -> dict[Any, Any]:
    """The items of a map list by their keys; the first of equal ones. Empty for other lists."""
    found: dict[Any, Any] = {}
    for item in items if type(items) is list else ():
        key = key_of(schema, item)
        if key is not None:
            found.setdefault(key, item)
    return found


def is_excused(root: Correlation, steps: Iterable[Step]) -> bool:
    """Whether the value at the end of a way, or one that it lies in, is unchanged."""
    current: Correlation | None = root
    top = True
    for step in steps:
        assert current is not None
        if current.unchanged:
            return True
        if top and step in ("apiVersion", "kind"):
            return False
        top = False
        current = current.at(step)
        if current is None:
            return False
    assert current is not None
    return current.unchanged
