# SPDX-License-Identifier: Apache-2.0
"""Evaluates the CEL rules of a schema, as far as that is possible without an API server."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from trainwright.api.validation.cel import UnknownFunctionError, compiled
from trainwright.api.validation.errors import INVALID, DocumentError, Path, shown, spoken
from trainwright.api.validation.schema import KindSchema, Schema, children
from trainwright.api.validation.structure import Found

_OLD = re.compile(r"\boldSelf\b")
_RESERVED_FIELD = re.compile(
    r"\b__(as|break|const|continue|else|for|function|if|import|let|loop|namespace|package|return|var|void|while)__\b"
)
"""Fields whose names CEL reserves: API servers before 1.32 know them by these names, the evaluator by the others."""
ABSENT = object()
"""There is no old value."""

_CAUSE_LIMIT = 80
"""Characters of the evaluator's text in a message."""


def rule_errors(kind: KindSchema, schema: Schema, value: Any, old: Any = ABSENT, path: Path = ()) -> Iterator[Found]:
    """Errors of the rules that the value breaks. `old` is the value at the same place before an update, or ABSENT."""
    for rule in schema.get("x-kubernetes-validations", ()):
        transition = bool(_OLD.search(rule["rule"]))
        if transition and old is ABSENT:
            continue
        if not transition and old is not ABSENT and old == value:
            continue  # errors of unchanged values do not refuse an update
        previous = _ordered(kind, schema, old) if transition else None
        broken = _evaluate(rule, _ordered(kind, schema, value) if transition else value, previous)
        if broken:
            yield path, DocumentError(INVALID, spoken(path), f"Invalid value: {shown(value)}: {broken}")
    for step, inner, part in children(kind, schema, value):
        yield from rule_errors(kind, inner, part, before(schema, old, step, part), (*path, step))


def before(schema: Schema, old: Any, step: str | int, part: Any) -> Any:
    """The old value of a part: of the same field, or of the item with the same keys; ABSENT in other lists."""
    if isinstance(step, str):
        return old.get(step, ABSENT) if isinstance(old, dict) else ABSENT
    keys = schema.get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(old, list) or not isinstance(part, dict):
        return ABSENT
    for item in old:
        if isinstance(item, dict) and all(item.get(key) == part.get(key) for key in keys):
            return item
    return ABSENT


def _ordered(kind: KindSchema, schema: Schema, value: Any) -> Any:
    """The value with sets and keyed lists sorted, since the server ignores their order in comparisons."""
    if isinstance(value, dict):
        parts = {step: _ordered(kind, inner, part) for step, inner, part in children(kind, schema, value)}
        return {**value, **parts}
    if isinstance(value, list):
        items = [_ordered(kind, kind.items(schema), item) for item in value]
        if schema.get("x-kubernetes-list-type") in ("map", "set"):
            keys = schema.get("x-kubernetes-list-map-keys")
            return sorted(items, key=lambda item: json.dumps([item.get(key) for key in keys] if keys else item))
        return items
    return value


def _evaluate(rule: dict[str, str], value: Any, old: Any) -> str | None:
    try:
        expression = compiled(_RESERVED_FIELD.sub(r"\1", rule["rule"]))
    except UnknownFunctionError:
        return None
    answer = expression.evaluate(value, old)
    if answer is True:
        return None
    if answer is False:
        return rule["message"]
    # The evaluator repeats the value, which the message has already.
    return f"{rule['message']} (the rule could not be evaluated: {str(answer)[:_CAUSE_LIMIT]})"


@cache
def unchecked(kind: KindSchema) -> list[str]:
    """Rules of the kind that only an API server can evaluate."""
    found: set[str] = set()
    for schema in kind.parts():
        for rule in schema.get("x-kubernetes-validations", ()):
            try:
                compiled(rule["rule"])
            except UnknownFunctionError:
                found.add(rule["rule"])
    return sorted(found)
