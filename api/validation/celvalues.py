# SPDX-License-Identifier: Apache-2.0
"""Values as CEL sees them through a schema: numbers are doubles, bytes are decoded, times are times, names are escaped.

The evaluator takes no times from Python, so a rule that sees fields with times gets `self` from an expression that
reads them. Times in maps stay text, since the evaluator cannot make maps.
"""

import base64
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
Convert = Callable[[Any], Any]

RESERVED = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_TIMES = {"date-time": "kubernetes.moment", "date": "kubernetes.day", "duration": "kubernetes.span"}


def escaped(name: str) -> str | None:
    """The name of a field in a rule; None where no rule can name it."""
    if not re.fullmatch(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*", name):
        return None
    return f"__{name}__" if name in RESERVED else re.sub(r"__|[-./]", lambda found: _ESCAPES[found[0]], name)


def compile_conversion(schema: Schema, *, ordered: bool) -> Convert | None:
    """The conversion of values of a schema for a rule; None if they are taken as they are.

    Args:
        schema: of the value. One that does not fit it, as an update may leave it, is taken as it is.
        ordered: sort sets and map lists, which are equal in any order; for rules that compare with an old value.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return None
    match schema.get("type"):
        case "number":
            return lambda value: float(value) if type(value) is int else value
        case "string" if schema.get("format") == "byte":
            return lambda value: base64.b64decode(value) if isinstance(value, str) else value
        case "array":
            return _list_conversion(schema, ordered=ordered)
        case "object":
            return _object_conversion(schema, ordered=ordered)
        case _:
            return None


def _list_conversion(schema: Schema, *, ordered: bool) -> Convert | None:
    inner = compile_conversion(schema.get("items") or {}, ordered=ordered)
    kind = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if not (ordered and kind in ("set", "map")):
        return inner and _of(list, lambda value: [inner(item) for item in value])

    def identity(item: Any) -> str:
        return json.dumps([item.get(key) for key in keys] if keys and type(item) is dict else item, sort_keys=True)

    def convert(value: Any) -> Any:
        items = sorted(value, key=identity)
        return [inner(item) for item in items] if inner else items

    return _of(list, convert)


def _object_conversion(schema: Schema, *, ordered: bool) -> Convert | None:
    others = schema.get("additionalProperties")
    if isinstance(others, Mapping):
        other = compile_conversion(others, ordered=ordered)
        return other and _of(dict, lambda value: {name: other(inner) for name, inner in value.items()})
    properties: Mapping[str, Schema] = schema.get("properties", {})
    inside = {name: part for name, inner in properties.items() if (part := compile_conversion(inner, ordered=ordered))}
    names = {name: made for name in properties if (made := escaped(name)) is not None and made != name}
    nullable = [name for name, inner in properties.items() if inner.get("nullable")]
    if not inside and not names and not nullable:
        return None

    def convert(value: Any) -> Any:
        made = dict(value)
        for name in nullable:
            # Null counts as absent.
            if name in made and made[name] is None:
                del made[name]
        for name, part in inside.items():
            if name in made:
                made[name] = part(made[name])
        for name, other in names.items():
            if name in made:
                # Reserved words are understood as they are too.
                made[other] = made[name]
        return made

    return _of(dict, convert)


def _of(kind: type, convert: Convert) -> Convert:
    return lambda value: convert(value) if type(value) is kind else value


def reading_times(schema: Schema, value: str, rule: str) -> str | None:
    """An expression that gives a value with its times read; None if the rule speaks of none.

    Args:
        schema: of the value.
        value: an expression for the value.
        rule: the rule that the expression is for.
    """
    return _read(schema, value, frozenset(re.findall(r"\w+", rule)), (f"t{number}" for number in itertools.count()))


def _read(schema: Schema, value: str, words: frozenset[str], names: Iterator[str]) -> str | None:
    if schema.get("x-kubernetes-int-or-string"):
        return None
    kind, items = schema.get("type"), schema.get("items")
    if kind == "string" and schema.get("format") in _TIMES:
        return f"{_TIMES[schema['format']]}({value})"
    if kind == "array" and isinstance(items, Mapping):
        name = next(names)
        inner = _read(items, name, words, names)
        return inner and f"{value}.map({name}, {_unless_null(name, inner)})"
    if kind != "object" or isinstance(schema.get("additionalProperties"), Mapping):
        return None
    parts: list[str] = []
    found = False
    for field, inner_schema in schema.get("properties", {}).items():
        key = escaped(field)
        if key is None:
            continue
        name = next(names)
        inner = _read(inner_schema, name, words, names) if {key, field} & words else None
        found = found or inner is not None
        suffix = f".optMap({name}, {_unless_null(name, inner)})" if inner else ""
        parts += [
            f'?"{one}": {value}.?{key}{suffix}' for one in sorted({key, field}) if one == key or field in RESERVED
        ]
    return "{" + ", ".join(parts) + "}" if found else None


def _unless_null(name: str, expression: str) -> str:
    return f"({name} == null ? dyn(null) : dyn({expression}))"


def bound(expression: str, schema: Schema, *, old: bool, optional: bool, to: str) -> str:
    """The expression with `self` and `oldSelf` made from what Python gives: `newValue`, `oldValue`, `hasOld`.

    Args:
        expression: a rule, or a messageExpression.
        schema: of the value.
        old: it names `oldSelf`.
        optional: `oldSelf` is an optional.
        to: what it gives: `bool` or `string`.
    """
    made = f"({expression}\n)"
    if old:
        value = reading_times(schema, "oldValue", expression) or "oldValue"
        made = around("oldSelf", f"hasOld ? optional.of({value}) : optional.none()" if optional else value, made, to)
    return around("self", reading_times(schema, "newValue", expression) or "newValue", made, to)


def around(name: str, value: str, expression: str, to: str) -> str:
    """The expression, which gives a `bool` or a `string`, with a variable bound to a value. It may end in a comment."""
    return f"[{value}].all({name}, {expression}\n)" if to == "bool" else f"[{value}].map({name}, {expression}\n)[0]"
