# SPDX-License-Identifier: Apache-2.0
"""Finds fields that the schema does not know. They are mostly misspelled, and an API server may drop them silently."""

import difflib
from collections.abc import Iterator
from typing import Any

from trainwright.api import merge
from trainwright.api.base import Struct

Path = tuple[str | int, ...]


def unknown_fields(model: type[Struct], value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Path and message of every unknown field; the message names the most similar known field."""
    if not isinstance(value, dict):
        return
    known = merge.fields(model)
    for name, inner in value.items():
        field = known.get(name)
        if field is None:
            yield (*path, name), _message(name, list(known))
        elif field.struct is not None:
            yield from _inside(field, inner, (*path, name))


def _inside(field: merge.Field, value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    assert field.struct is not None
    if field.shape == "struct":
        yield from unknown_fields(field.struct, value, path)
    elif field.shape == "list" and isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_fields(field.struct, item, (*path, index))
    elif field.shape == "map" and isinstance(value, dict):
        for key, item in value.items():
            yield from unknown_fields(field.struct, item, (*path, key))


def _message(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not near:
        lower = {other.lower(): other for other in known}
        near = [lower[name.lower()]] if name.lower() in lower else []
    return f"unknown field; did you mean {near[0]}?" if near else f"unknown field; known are {', '.join(known)}"
