# SPDX-License-Identifier: Apache-2.0
"""JSON bodies in which an object has a key twice, which Go's decoder warns of, and partly merges.

A custom resource is decoded into maps, in which the last value counts. A built-in kind is decoded into its Go struct:
there a value is decoded into what the earlier one left, so that structs and maps are merged, and lists item by item.
"""

import json
from typing import Any

from trainwright.controller.local.apiserver.merge.patch import read_json
from trainwright.controller.local.gowriting import GoShape, fields_of


class Pairs(list[tuple[str, Any]]):
    """An object with all of its pairs."""


def pairs_of(body: bytes) -> Any:
    """The body with `Pairs` as objects; None if no object has a key twice. The body is JSON."""
    text = body.decode(errors="replace")
    found = False

    def pairs(items: list[tuple[str, Any]]) -> Any:
        nonlocal found
        made = dict(items)
        found = found or len(made) != len(items)
        return made

    # Without paths first: nearly no body has such keys.
    json.loads(text, object_pairs_hook=pairs)
    return json.loads(text, object_pairs_hook=Pairs) if found else None


def doubled_fields(value: Any) -> list[str]:
    """What is said of each key that is there twice: `duplicate field "spec.x"`."""
    named: list[str] = []
    _name(value, "", named)
    return named


def _name(value: Any, path: str, named: list[str]) -> None:
    if isinstance(value, Pairs):
        seen: set[str] = set()
        for key, inner in value:
            where = f"{path}.{key}" if path else key
            if key in seen and (text := f'duplicate field "{where}"') not in named:
                named.append(text)
            seen.add(key)
            _name(inner, where, named)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _name(inner, f"{path}[{index}]", named)


def merged(value: Any, struct: str) -> Any:
    """A body as Go decodes it into a struct.

    Args:
        value: from `pairs_of`.
        struct: the key of the struct in the table of `gowriting`.
    """
    return read_json(json.dumps(_once(value, GoShape("struct", struct=struct))).encode())


def _once(value: Any, shape: GoShape | None) -> Any:
    if isinstance(value, Pairs):
        return _into({}, value, shape)
    if isinstance(value, list):
        item = shape.item if shape is not None and shape.sort == "list" else None
        return [_once(inner, item) for inner in value]
    return value


def _into(made: dict[str, Any], pairs: Pairs, shape: GoShape | None) -> dict[str, Any]:
    """Decode an object into what is there already."""
    if shape is None or shape.sort != "struct":
        item = shape.item if shape is not None and shape.sort == "map" else None
        return {**made, **{key: _once(value, item) for key, value in pairs}}
    fields = fields_of(shape.struct)
    for key, value in pairs:
        field = fields.get(key)
        if key in made and field is not None:
            made[key] = _again(made[key], value, field.shape)
        else:
            made[key] = _once(value, None if field is None else field.shape)
    return made


def _again(before: Any, value: Any, shape: GoShape) -> Any:
    """Decode a value over an earlier one."""
    if value is None:
        return None if shape.pointer or shape.sort in ("list", "map", "bytes", "any") else before
    if isinstance(value, Pairs) and isinstance(before, dict) and shape.sort in ("struct", "map"):
        return _into(before, value, shape)
    if isinstance(value, list) and isinstance(before, list) and shape.sort == "list" and shape.item is not None:
        kept = [_again(old, new, shape.item) for old, new in zip(before, value, strict=False)]
        return kept + [_once(new, shape.item) for new in value[len(before) :]]
    return _once(value, shape)
