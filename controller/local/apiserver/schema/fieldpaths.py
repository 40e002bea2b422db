# SPDX-License-Identifier: Apache-2.0
"""Paths of fields as rules and definitions write them: `.spec.items` and `.labels['a.b']`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_TOKENS = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class FieldPathError(ValueError):
    """Not a path into the schema; the text is that of the server."""


def resolve(path: str, schema: Schema, *, arrays: bool = True) -> tuple[str, Schema]:
    """Find a path in a schema.

    Args:
        path: with a dot or bracket before each name.
        schema: where it starts.
        arrays: names may be in brackets.

    Returns:
        The path as the server writes it, and the schema at its end.

    Raises:
        FieldPathError: the path leads nowhere.
    """
    made = ""
    tokens = _TOKENS.findall(path)
    steps = iter(tokens)
    for token in steps:
        if token == "[":  # noqa: S105  a bracket
            if not arrays:
                raise FieldPathError("array notation is not allowed")
            name = _quoted(_next(steps))
            found, named = _step(schema, name)
            closing = _next(steps)
            if closing != "]":
                raise FieldPathError(f"expected ] but got {closing}")
        elif token == ".":  # noqa: S105  a dot
            name = _next(steps)
            found, named = _step(schema, name)
        else:
            raise FieldPathError(f"expected [ or . but got: {token}")
        made += f".{name}" if named else f"[{name}]"
        schema = found
    return made.removeprefix("."), schema


def _next(steps: Iterator[str]) -> str:
    token = next(steps, None)
    if token is None:
        raise FieldPathError("unexpected end of JSON path")
    return token


def _quoted(token: str) -> str:
    if len(token) < 2 or not (token[0] == token[-1] == "'"):
        raise FieldPathError(f"expected single quoted string but got {token}")

    def character(found: re.Match[str]) -> str:
        if found[1] not in _ESCAPES:
            raise FieldPathError(f"invalid string literal: invalid escape char {found[0]}")
        return _ESCAPES[found[1]]

    return re.sub(r"\\(.)", character, token[1:-1], flags=re.DOTALL)


def _step(schema: Schema, name: str) -> tuple[Schema, bool]:
    """The schema of a field, and whether it is a declared one."""
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    if properties:
        if name in properties:
            return properties[name], True
    elif isinstance(others, Mapping):
        return others, False
    raise FieldPathError("does not refer to a valid field")
