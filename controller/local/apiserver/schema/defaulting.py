# SPDX-License-Identifier: Apache-2.0
"""Filling in the defaults of a schema: where a field is absent, or null without being nullable.

Absent objects are not made to hold defaults of their fields. Source:
`apiextensions-apiserver/pkg/apiserver/schema/defaulting`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from trainwright.controller.local.apiserver.merge.copying import copied

Schema = Mapping[str, Any]
Default = Callable[[Any], None]
"""Fills in the defaults inside an object or list, in place."""
_SCALARS = (str, int, float, bool)


def compile_default(schema: Schema) -> Default | None:
    """The defaulting inside values of a schema; None if there is nothing to fill in."""
    in_object, in_list = _object_default(schema), _list_default(schema.get("items"))
    if in_object is None and in_list is None:
        return None

    def fill(value: Any) -> None:
        if type(value) is dict:
            if in_object is not None:
                in_object(value)
        elif type(value) is list and in_list is not None:
            in_list(value)

    return fill


def _maker(schema: Schema) -> Callable[[], Any] | None:
    """Makes the default of a schema, if there is one."""
    default = schema.get("default")
    if default is None:
        return None
    return (lambda: default) if type(default) in _SCALARS else (lambda: copied(default))


def _object_default(schema: Schema) -> Default | None:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    made = [
        (name, maker, bool(inner.get("nullable")))
        for name, inner in properties.items()
        if (maker := _maker(inner)) is not None
    ]
    inside = {name: fill for name, inner in properties.items() if (fill := compile_default(inner)) is not None}
    others = schema.get("additionalProperties")
    other, other_made, strict = None, None, False
    if isinstance(others, Mapping):
        other, other_made, strict = compile_default(others), _maker(others), not others.get("nullable")
    if not made and not inside and other is None and other_made is None:
        return None

    def default(value: dict[str, Any]) -> None:
        for name, make, nullable in made:
            if name not in value or (value[name] is None and not nullable):
                value[name] = make()
        for name, fill in inside.items():
            if name in value:
                fill(value[name])
        if other is not None or other_made is not None:
            for name in value.keys() - properties.keys():
                if value[name] is None and strict and other_made is not None:
                    value[name] = other_made()
                if other is not None:
                    other(value[name])

    return default


def _list_default(items: Schema | None) -> Default | None:
    if items is None:
        return None
    inside, made, strict = compile_default(items), _maker(items), not items.get("nullable")
    if inside is None and made is None:
        return None

    def default(value: list[Any]) -> None:
        for index, item in enumerate(value):
            if item is None and strict and made is not None:
                value[index] = made()
            if inside is not None:
                inside(value[index])

    return default
