# SPDX-License-Identifier: Apache-2.0
"""The view of a schema that a merge needs: declared fields, atomic values, keys of lists.

A view says what a value may be: scalar, list and map, each or several (a value without a type in its schema may be all
of them). Views are compiled once, refer to each other, in circles too, and are not changed afterwards.

What the extensions say of merging: https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from trainwright.controller.local.apiserver.merge.errors import SchemaError
from trainwright.controller.local.apiserver.merge.fieldset import INVALID, keyed, keyed_by_text, set_item
from trainwright.controller.local.values import SCALARS, Value, quoted

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
        return [keyed_by_text(self.keys[0], text) for text in texts]

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
                return keyed_by_text(key, found)
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
        return keyed(fields)

    def element_or_invalid(self, value: Value) -> str:
        """The path element of an item; `INVALID` where it has none."""
        try:
            return self.element(value)
        except ElementError:
            return INVALID


class ElementError(Exception):
    """An item of a list cannot be told apart from others."""


def _set_element(value: Value) -> str:
    if type(value) in SCALARS:
        return set_item(value)
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


Schema = Mapping[str, Any]
Kind = tuple[str, str]
"""apiVersion and kind."""

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_KINDS = "x-kubernetes-group-version-kind"


def _any_value(name: str, *, atomic: bool) -> SchemaView:
    """A value without a schema. Lists in it are units; so are maps, or they are not."""
    view = SchemaView(name, scalar="untyped")
    atoms = view if atomic else _any_value("__untyped_atomic_", atomic=True)
    view.items = ListView(atoms)
    view.fields = MapView(others=view, atomic=atomic, guessed=not atomic)
    return view


ATOMIC = _any_value("__untyped_atomic_", atomic=True)
DEDUCED = _any_value("__untyped_deduced_", atomic=False)


class Types:
    """The views of a set of models, each compiled when it is first asked for.

    Args:
        models: schemas by name; a `$ref` is resolved by its last segment.
        preserve: unknown fields are kept everywhere, as in a CRD with `preserveUnknownFields`.
    """

    def __init__(self, models: Mapping[str, Schema], *, preserve: bool = False) -> None:
        self._models = models
        self._preserve = preserve
        self._views: dict[str, SchemaView] = {}
        self._overridden: dict[tuple[str, bool], SchemaView] = {}
        self._open: list[Callable[[], None]] = []
        self._depth = 0
        self._kinds = {kind: name for name, model in models.items() for kind in _kinds(model)}

    def of_kind(self, api_version: str, kind: str) -> SchemaView | None:
        """The view of a kind; None where no model is of it.

        Raises:
            SchemaError: the model, or one that it refers to, cannot be compiled.
        """
        name = self._kinds.get((api_version, kind))
        return None if name is None else self.named(name)

    def named(self, name: str) -> SchemaView:
        """The view of a model.

        Raises:
            SchemaError: there is no such model, or it cannot be compiled.
        """
        if name not in self._views:
            self._depth += 1
            try:
                self._compile_model(name)
            except SchemaError:
                # Whatever refers to it is broken too.
                self._views.clear()
                self._overridden.clear()
                self._open.clear()
                raise
            finally:
                self._depth -= 1
            while not self._depth and self._open:
                self._open.pop()()
        return self._views[name]

    def _compile_model(self, name: str) -> None:
        # Entered before it is filled, because models refer to themselves.
        view = self._views[name] = SchemaView(name)
        if name not in self._models:
            raise SchemaError(f"no type found matching: {name}")
        if name == _QUANTITY:
            view.scalar = "untyped"
        elif name == _RAW_EXTENSION:
            _become(view, ATOMIC)
        else:
            self._fill(view, self._models[name], preserve=self._preserve)

    def _fill(self, view: SchemaView, schema: Schema, *, preserve: bool) -> None:
        # It holds for everything inside, but not behind references.
        preserve = preserve or schema.get("x-kubernetes-preserve-unknown-fields") is True
        kind = _type(schema)
        if kind == "object":
            view.fields = self._map(view.name, schema, preserve=preserve)
        elif kind == "array":
            view.items = self._list(view.name, schema, preserve=preserve)
        elif kind == "":
            view.scalar = "untyped"
            view.items = self._list(view.name, schema, preserve=preserve)
            view.fields = self._map(view.name, schema, preserve=preserve)
        else:
            view.scalar = _scalar(view.name, kind, str(schema.get("format") or ""))

    def _inner(self, name: str, schema: Schema, *, preserve: bool) -> SchemaView:
        """The view of a schema inside another: a reference, or one of its own."""
        reference = schema.get("$ref", "")
        alternatives = schema.get("allOf") or []
        if not reference and len(alternatives) == 1:
            reference = alternatives[0].get("$ref", "")
        if not reference:
            view = SchemaView(name)
            self._fill(view, schema, preserve=preserve)
            return view
        target = reference.rpartition("/")[2]
        relationship = schema.get("x-kubernetes-map-type")
        if relationship is None:
            return self.named(target)
        return self._override(target, atomic=_is_atomic_map(name, relationship))

    def _override(self, target: str, *, atomic: bool) -> SchemaView:
        """A model, but owned as one unit, or not, where it is referred to."""
        view = self._overridden.get((target, atomic))
        if view is None:
            view = self._overridden[target, atomic] = SchemaView(target)
            base = self.named(target)
            # The base may refer to where it is overridden, and be half compiled by now.
            self._open.append(lambda: _override(view, base, atomic=atomic))
            while not self._depth and self._open:
                self._open.pop()()
        return view

    def _map(self, name: str, schema: Schema, *, preserve: bool) -> MapView:
        made = MapView(atomic=_is_atomic_map(name, schema.get("x-kubernetes-map-type")))
        properties: Mapping[str, Schema] = schema.get("properties") or {}
        for key, inner in properties.items():
            made.declared[key] = self._inner(f"{name}.{key}", inner, preserve=preserve)
            if inner.get("default") is not None:
                made.defaults[key] = inner["default"]
        others = schema.get("additionalProperties")
        if others is None:
            made.others = DEDUCED if preserve or not properties else None
        elif isinstance(others, Mapping):
            made.others = self._inner(f"{name}.*", others, preserve=preserve)
        elif others:
            made.others = DEDUCED
        made.guessed = not properties and _accepts_everything(made.others, others)
        return made

    def _list(self, name: str, schema: Schema, *, preserve: bool) -> ListView:
        items = schema.get("items")
        if items is None:
            if _type(schema):
                raise SchemaError(f"{name}: `items` must be specified on arrays")
            item = ATOMIC
        else:
            item = self._inner(f"{name}[]", items, preserve=preserve)
        keys = _list_keys(name, schema)
        return ListView(item) if keys is None else ListView(item, atomic=False, keys=keys)


def _become(view: SchemaView, other: SchemaView) -> None:
    view.scalar, view.items, view.fields = other.scalar, other.items, other.fields


def _override(view: SchemaView, base: SchemaView, *, atomic: bool) -> None:
    _become(view, base)
    if base.fields is not None:
        fields = base.fields
        view.fields = MapView(fields.declared, fields.defaults, fields.others, atomic, fields.guessed)
    elif base.items is not None:
        view.items = ListView(base.items.item, atomic, base.items.keys)
    else:
        raise SchemaError(f"no type found matching: {base.name}")


def _accepts_everything(view: SchemaView | None, schema: Any) -> bool:
    """Whether undeclared fields are of any type: without a schema, or of an inline one for any scalar."""
    if view is DEDUCED:
        return True
    referred = isinstance(schema, Mapping) and ("$ref" in schema or schema.get("allOf"))
    return view is not None and not referred and view.scalar == "untyped"


def _kinds(model: Schema) -> Iterable[Kind]:
    for kind in model.get(_KINDS) or ():
        if kind.get("kind"):
            group, version = kind.get("group", ""), kind.get("version", "")
            yield (f"{group}/{version}" if group else version, kind["kind"])


def _type(schema: Schema) -> str:
    kind = schema.get("type") or ""
    if isinstance(kind, str):
        return kind
    # JSON Schema's lists of types; what may be null besides is of that type.
    return next((one for one in kind if one != "null"), "")


def _scalar(name: str, kind: str, form: str) -> Scalar:
    if kind in ("integer", "number"):
        return "numeric"
    if kind == "boolean":
        return "boolean"
    if kind != "string":
        raise SchemaError(f"{name}: unrecognized type: '{kind}'")
    # A string with a format may be read from something else, such as an int-or-string.
    return "string" if form in ("", "byte") else "untyped"


def _is_atomic_map(name: str, relationship: Any) -> bool:
    if relationship not in (None, "atomic", "granular"):
        raise SchemaError(f"{name}: unknown map type {relationship}")
    return bool(relationship == "atomic")


def _list_keys(name: str, schema: Schema) -> tuple[str, ...] | None:
    """The keys of a map list, none of a set; None where the list is one unit."""
    kind = schema.get("x-kubernetes-list-type")
    if kind is None:
        return _keys_by_patch_strategy(name, schema)
    if kind == "map":
        keys = schema.get("x-kubernetes-list-map-keys")
        if keys is None:
            raise SchemaError(f"{name}: missing map keys")
        return tuple(keys)
    if kind not in ("atomic", "set"):
        raise SchemaError(f"{name}: unknown list type {kind}")
    return () if kind == "set" else None


def _keys_by_patch_strategy(name: str, schema: Schema) -> tuple[str, ...] | None:
    """What built-in kinds say that were published before list types were."""
    strategy = schema.get("x-kubernetes-patch-strategy")
    if strategy in (None, "retainKeys"):
        return None
    if strategy not in ("merge", "merge,retainKeys"):
        raise SchemaError(f"{name}: unknown patch strategy {strategy}")
    key = schema.get("x-kubernetes-patch-merge-key")
    return (key,) if key is not None else ()
