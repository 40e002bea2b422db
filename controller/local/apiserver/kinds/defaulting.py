# SPDX-License-Identifier: Apache-2.0
"""Fills in what a document of a built-in kind leaves open, by the defaults that were recorded of its structs.

Amounts of resources are written canonically, and rounded up to thousandths.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from trainwright.api.objects import Document
from trainwright.api.quantity import Quantity
from trainwright.controller.local.apiserver.schema.published.kinds import RecordedDefault, recorded
from trainwright.controller.local.types.model import QUANTITY, Type, builtin

_PLAIN = ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector")
"""Structs without defaults, at which the walk ends."""
_MILLI = 10**6
"""Billionths in a thousandth."""


@dataclass(frozen=True, slots=True)
class _Struct:
    """What the walk needs to know of a model."""

    defaults: tuple[RecordedDefault, ...]
    filled: frozenset[str]
    """Fields whose zero value counts as absent: Go has no pointers there."""
    amounts: tuple[str, ...]
    """Fields with amounts by the name of the resource."""
    inner: tuple[tuple[str, str], ...]
    """Fields that hold structs, lists or maps of them, with the model."""


def fill(document: Document, model: str, kind: str = "", field: str = "") -> None:
    """Set the defaults of a document in the form in which Go writes it, and of all that it holds.

    `kind` is that of the object, `field` the one that holds this part of it.
    """
    known = _struct(model)
    for default in known.defaults:
        value = document.get(default.field)
        if value is not None and (value or default.field not in known.filled):
            continue
        if default.when is None or _holds(default.when, document, kind, field):
            document[default.field] = msgspec.json.decode(default.value)
    for name in known.amounts:
        _round_up(document.get(name) or {})
    for name, inner in known.inner:
        for part in _structs(document.get(name)):
            fill(part, inner, kind, name)


def _round_up(listed: Document) -> None:
    for name, wire in listed.items():
        try:
            quantity = Quantity.parse(wire)
        except ValueError:
            continue  # Validation names it.
        listed[name] = Quantity(-(-quantity.nanos // _MILLI) * _MILLI, quantity.style).canonical()


def fill_object(document: Document, model: str) -> None:
    """Set the defaults of a whole object."""
    fill(document, model, _kinds()[model])


@cache
def _kinds() -> Mapping[str, str]:
    """apiVersion and kind of objects by model."""
    return {one.model: f"{one.api_version} {one.kind}" for one in recorded().kinds}


def _holds(when: tuple[str, str], document: Document, kind: str, field: str) -> bool:
    name, value = when
    if name == "@kind":
        return kind == value
    if name == "@field":
        return field == value
    return feature(document.get(name)) == value


def feature(value: Any) -> str:
    """What conditions of defaults say of a field: a text as it is, of others whether they are there."""
    return value if isinstance(value, str) else "set" if value not in (None, {}, []) else ""


def _structs(value: Any) -> Iterable[Document]:
    """The structs in a field: itself, or those of a list or map."""
    if isinstance(value, list):
        return [one for one in value if isinstance(one, dict)]
    return [value] if isinstance(value, dict) else []


@cache
def _struct(model: str) -> _Struct:
    inner = tuple(
        (name, held) for name, held in held_structs(model).items() if held not in _PLAIN and _has_defaults(held)
    )
    filled = frozenset(name for name, one in builtin(model).fields.items() if not one.pointer)
    return _Struct(tuple(recorded().defaults.get(model, ())), filled, _amounts(builtin(model)), inner)


def _amounts(struct: Type) -> tuple[str, ...]:
    """The fields of a struct that hold amounts of resources."""
    values = {name: field.type.values for name, field in struct.fields.items() if field.type.sort == "map"}
    return tuple(name for name, value in values.items() if value is not None and value.name == QUANTITY)


@cache
def _has_defaults(model: str) -> bool:
    """Whether a struct or one within it has defaults or amounts."""
    seen: set[str] = set()
    waiting = [model]
    while waiting:
        name = waiting.pop()
        if name in seen or name in _PLAIN:
            continue
        seen.add(name)
        if name in recorded().defaults or _amounts(builtin(name)):
            return True
        waiting += held_structs(name).values()
    return False


@cache
def held_structs(model: str) -> Mapping[str, str]:
    """The fields of a model that hold other models with fields, or lists of them."""
    made: dict[str, str] = {}
    for name, field in builtin(model).fields.items():
        held = field.type.item if field.type.sort == "list" else field.type
        if held.sort == "struct" and held.fields:
            made[name] = held.name
    return made
