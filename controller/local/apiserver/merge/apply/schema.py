# SPDX-License-Identifier: Apache-2.0
"""The view of a schema that a merge needs: declared fields, atomic values, keys of lists.

A view says what a value may be: scalar, list and map, each or several (a value without a type in its schema may be all
of them). Views are compiled once (`openapi.py`), refer to each other, in circles too, and are not changed afterwards.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from trainwright.controller.local.apiserver.merge.apply import element
from trainwright.controller.local.apiserver.merge.apply.values import SCALARS, Value, quoted

Scalar = Literal["numeric", "string", "boolean", "untyped"]

FITTING: dict[Scalar | None, frozenset[type]] = {
    "string": frozenset({str}),
    "numeric": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "untyped": SCALARS,
    None: frozenset(),
}
"""The types of the values that a scalar takes, besides null."""


@dataclass(slots=True, eq=False)
class SchemaView:
    """What a value may be."""

    name: str
    """Of the model, for messages."""
    scalar: Scalar | None = None
    items: "ListView | None" = None
    fields: "MapView | None" = None


@dataclass(slots=True, eq=False)
class MapView:
    """An object: declared fields, others, or both."""

    declared: dict[str, SchemaView] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    """Defaults of declared fields; they count where a field is a key of a list."""
    others: SchemaView | None = None
    """What undeclared fields hold; None where there may be none."""
    atomic: bool = False
    """Owned as one unit."""
    guessed: bool = False
    """It declares nothing and accepts everything: no change of the schema is seen in it."""

    def at(self, name: str) -> SchemaView | None:
        """The view of a field."""
        return self.declared.get(name, self.others)


@dataclass(eq=False)
class ListView:
    """A list: one unit, or items that have owners of their own."""

    item: SchemaView
    atomic: bool = True
    keys: tuple[str, ...] = ()
    """The fields that tell the items of a map list apart, in the order of the schema; none in a set."""

    @cached_property
    def _sorted_keys(self) -> tuple[tuple[str, Any], ...]:
        defaults = self.item.fields.defaults if self.item.fields is not None else {}
        return tuple((key, defaults.get(key)) for key in sorted(self.keys))

    @cached_property
    def _only_key(self) -> tuple[str, Any] | None:
        return self._sorted_keys[0] if len(self._sorted_keys) == 1 else None

    def texts(self, values: list[Value]) -> list[str] | None:
        """What tells the items apart, if all have a text as their only key: it takes less time than path elements."""
        if self._only_key is None:
            return None
        key, default = self._only_key
        found: list[Any] = [value.get(key, default) if type(value) is dict else None for value in values]
        return found if set(map(type, found)) <= {str} else None

    def elements(self, values: list[Value]) -> list[str]:
        """The path elements of items; `INVALID` for those that have none."""
        texts = self.texts(values)
        if texts is None:
            return list(map(self.element_or_invalid, values))
        return [element.keyed_by_text(self.keys[0], text) for text in texts]

    def element(self, value: Value) -> str:
        """The path element of an item.

        Raises:
            ElementError: the item has none, such as one without any of its keys.
        """
        if not self.keys:
            return _set_element(value)
        if type(value) is not dict:
            what = "a null element" if value is None else "non-map elements"
            raise ElementError(f"associative list with keys may not have {what}")
        if len(self._sorted_keys) == 1:
            key, default = self._sorted_keys[0]
            found = value.get(key, default)
            if type(found) is str:
                return element.keyed_by_text(key, found)
        # A key that is null stands in the element, one that is absent and has no default does not.
        fields = [
            (key, value.get(key, default)) for key, default in self._sorted_keys if key in value or default is not None
        ]
        if not fields:
            keys = " ".join(map(quoted, self.keys))
            raise ElementError(
                f"associative list with keys has an element that omits all key fields [{keys}] (and doesn't have "
                "default values for any key fields)"
            )
        return element.keyed(fields)

    def element_or_invalid(self, value: Value) -> str:
        """The path element of an item; `INVALID` where it has none."""
        try:
            return self.element(value)
        except ElementError:
            return element.INVALID


class ElementError(Exception):
    """An item of a list cannot be told apart from others."""


def _set_element(value: Value) -> str:
    if type(value) in SCALARS:
        return element.item(value)
    if type(value) is dict:
        raise ElementError("associative list without keys has an element that's a map type")
    if type(value) is list:
        raise ElementError("not supported: associative list with lists as elements")
    raise ElementError("associative list without keys has an element that's an explicit null")


def part(view: SchemaView, value: Value) -> "ListView | MapView | Scalar | None":
    """Which of its possible forms a view takes for a value.

    A null, or a value of a type that the view does not allow, is treated as a map where the view allows one, else as a
    scalar, else as a list.
    """
    kind = type(value)
    if kind is dict:
        if view.fields is not None:
            return view.fields
    elif kind is list:
        if view.items is not None:
            return view.items
    elif value is not None and view.scalar is not None:
        return view.scalar
    return view.fields or view.scalar or view.items
