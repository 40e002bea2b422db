# SPDX-License-Identifier: Apache-2.0
"""CEL rules and the schema that they are in: values as rules see them, and whether a rule fits its schema.

- Numbers are doubles, bytes are decoded, times are times, names are escaped. The evaluator takes no times from Python,
  so a rule that sees fields with times gets `self` from an expression that reads them. Times in maps stay text, since
  the evaluator cannot make maps.
- `misfit` judges a rule as the API server's compiler does: fields, operators, arguments, result, and literals that can
  never be read. The type checker of CEL knows objects with fields as messages of protobuf, so a schema becomes the
  description of one. It cannot describe lists of lists and maps of lists or maps: their values are of any type here.
  Costs of rules are not estimated.

Source: `k8s.io/apiserver/pkg/cel/common` (`SchemaDeclType`), `k8s.io/apiserver/pkg/cel/environment`.
"""

import base64
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from trainwright.api.extras import load
from trainwright.controller.local.cel.expression import EvaluationError, compiled_over, typed_expression
from trainwright.controller.local.types.model import Type, custom_part

Convert = Callable[[Any], Any]

RESERVED = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_TIME_READERS = {"date-time": "kubernetes.moment", "date": "kubernetes.day", "duration": "kubernetes.span"}


def escaped(name: str) -> str | None:
    """The name of a field in a rule; None where no rule can name it."""
    if not re.fullmatch(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*", name):
        return None
    return f"__{name}__" if name in RESERVED else re.sub(r"__|[-./]", lambda found: _ESCAPES[found[0]], name)


def compile_conversion(kind: Type, *, ordered: bool) -> Convert | None:
    """The conversion of values of a type for a rule; None if they are taken as they are.

    Args:
        kind: of the value. One that does not fit it, as an update may leave it, is taken as it is.
        ordered: sort sets and map lists, which are equal in any order; for rules that compare with an old value.
    """
    match kind.kind:
        case "number":
            return lambda value: float(value) if type(value) is int else value
        case "string" if kind.format == "byte":
            return lambda value: base64.b64decode(value) if isinstance(value, str) else value
        case "array":
            return _list_conversion(kind, ordered=ordered)
        case "object":
            return _object_conversion(kind, ordered=ordered)
        case _:
            return None


def _list_conversion(kind: Type, *, ordered: bool) -> Convert | None:
    inner, keys = compile_conversion(kind.item, ordered=ordered), kind.keys
    if not ordered or keys is None:
        return inner and _of(list, lambda value: [inner(item) for item in value])

    def identity(item: Any) -> str:
        return json.dumps([item.get(key) for key in keys] if keys and type(item) is dict else item, sort_keys=True)

    def convert(value: Any) -> Any:
        items = sorted(value, key=identity)
        return [inner(item) for item in items] if inner else items

    return _of(list, convert)


def _object_conversion(kind: Type, *, ordered: bool) -> Convert | None:
    if kind.values is not None:
        other = compile_conversion(kind.values, ordered=ordered)
        return other and _of(dict, lambda value: {name: other(inner) for name, inner in value.items()})
    parts = kind.declared
    inside = {name: part for name, inner in parts.items() if (part := compile_conversion(inner, ordered=ordered))}
    names = {name: made for name in parts if (made := escaped(name)) is not None and made != name}
    nullable = [name for name, inner in parts.items() if inner.nullable]
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


def reading_times(kind: Type, value: str, rule: str) -> str | None:
    """An expression that gives a value with its times read; None if the rule speaks of none.

    Args:
        kind: of the value.
        value: an expression for the value.
        rule: the rule that the expression is for.
    """
    return _read(kind, value, frozenset(re.findall(r"\w+", rule)), (f"t{number}" for number in itertools.count()))


def _read(kind: Type, value: str, words: frozenset[str], names: Iterator[str]) -> str | None:
    if kind.kind == "string" and kind.format in _TIME_READERS:
        return f"{_TIME_READERS[kind.format]}({value})"
    if kind.kind == "array":
        name = next(names)
        inner = _read(kind.item, name, words, names)
        return inner and f"{value}.map({name}, {_unless_null(name, inner)})"
    if kind.kind != "object" or kind.values is not None:
        return None
    parts: list[str] = []
    found = False
    for field, part in kind.declared.items():
        key = escaped(field)
        if key is None:
            continue
        name = next(names)
        inner = _read(part, name, words, names) if {key, field} & words else None
        found = found or inner is not None
        suffix = f".optMap({name}, {_unless_null(name, inner)})" if inner else ""
        parts += [
            f'?"{one}": {value}.?{key}{suffix}' for one in sorted({key, field}) if one == key or field in RESERVED
        ]
    return "{" + ", ".join(parts) + "}" if found else None


def _unless_null(name: str, expression: str) -> str:
    return f"({name} == null ? dyn(null) : dyn({expression}))"


def bound(expression: str, kind: Type, *, old: bool, optional: bool, to: str) -> str:
    """The expression with `self` and `oldSelf` made from what Python gives: `newValue`, `oldValue`, `hasOld`.

    Args:
        expression: a rule, or a messageExpression.
        kind: of the value.
        old: it names `oldSelf`.
        optional: `oldSelf` is an optional.
        to: what it gives: `bool` or `string`.
    """
    made = f"({expression}\n)"
    if old:
        value = reading_times(kind, "oldValue", expression) or "oldValue"
        made = around("oldSelf", f"hasOld ? optional.of({value}) : optional.none()" if optional else value, made, to)
    return around("self", reading_times(kind, "newValue", expression) or "newValue", made, to)


def around(name: str, value: str, expression: str, to: str) -> str:
    """The expression, which gives a `bool` or a `string`, with a variable bound to a value. It may end in a comment."""
    return f"[{value}].all({name}, {expression}\n)" if to == "bool" else f"[{value}].map({name}, {expression}\n)[0]"


_FORMATS = {"byte": "bytes", "date": "timestamp", "date-time": "timestamp", "duration": "duration"}
_TEXT = {"type": "string"}
_NAMES = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}
_WHOLE = custom_part({"properties": {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _NAMES}})
_SCALARS = {"integer": "int", "number": "double", "boolean": "bool"}
_KNOWN_FILES = ("timestamp", "duration", "struct")
_ERROR = re.compile(r"^ERROR: ", re.MULTILINE)
_NUMBERS = re.compile(r"'_[<>]=?_' applied to '\((?:int|uint|double), (?:int|uint|double)\)'")
"""The API server compares numbers of different types; the checker here does not."""
_OBJECT = re.compile(r"\bobject\d+\b")
"""A message that describes a part of the schema."""
_LITERALS = re.compile(r"""\b(matches|timestamp|duration)\(\s*(r?'(?:\\.|[^'\\])*'|r?"(?:\\.|[^"\\])*")\s*\)""")


def misfit(expression: str, kind: Type, *, wanted: str, root: bool, optional: bool = False) -> str:
    """What is wrong with an expression over `self` and `oldSelf`; empty if it fits.

    Args:
        expression: a rule, or a messageExpression.
        kind: of the value that it is about.
        wanted: the type that it must give: `bool` or `string`.
        root: the value is a whole object.
        optional: `oldSelf` is an optional.
    """
    messages = _Messages(frozenset(re.findall(r"\w+", expression)))
    given = messages.shape(kind, whole=root)
    if optional:
        # No variable of the checker can be an optional.
        expression = around("oldSelf", "optional.of(oldSelf)", expression, wanted)
    return _misfit(expression, wanted, given or _ANY, messages.described())


@lru_cache(maxsize=256)
def _misfit(expression: str, wanted: str, given: "_Shape", described: bytes) -> str:
    """Remembered, because kinds have parts in common, and are installed in each server of a process."""
    variables = dict.fromkeys(("self", "oldSelf"), _typed(load("cel_expr_python.cel"), given))
    pool = load("google.protobuf.descriptor_pool").DescriptorPool()
    for name in _KNOWN_FILES:
        pool.AddSerializedFile(load(f"google.protobuf.{name}_pb2").DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(described)
    try:
        made = typed_expression(expression, variables, pool)
    except ValueError as error:
        wrong = [one for one in _ERROR.split(str(error)) if one.strip() and not _NUMBERS.search(one)]
        return _OBJECT.sub("object", "ERROR: " + "ERROR: ".join(wrong)).rstrip() if wrong else ""
    return next(_unreadable(expression), "") if made.result == wanted else f"cel expression must evaluate to a {wanted}"


def _identity(parts: Mapping[str, Type]) -> Mapping[str, Type]:
    """The fields that each object has, unless its schema types them itself."""
    metadata = parts["metadata"].declared if "metadata" in parts else {}
    named = (parts.get("apiVersion"), parts.get("kind"), metadata.get("name"), metadata.get("generateName"))
    return {} if all(one is not None and one.kind == "string" for one in named) else _WHOLE.declared


def _unreadable(expression: str) -> Iterator[str]:
    """Patterns, times and durations that can never be read."""
    for function, literal in _LITERALS.findall(expression):
        try:
            compiled_over(f"''.matches({literal})" if function == "matches" else f"{function}({literal})", ()).run({})
        except EvaluationError as error:
            yield f"invalid {function} argument: {error}"


@dataclass(frozen=True, slots=True)
class _Shape:
    """The type of a value as rules see it: a scalar, `dyn`, `list`, `map`, or `object` with the name of its message."""

    kind: str
    inner: "_Shape | None" = None
    message: str = ""


_ANY = _Shape("dyn")


def _typed(cel: Any, shape: _Shape | None) -> Any:
    match shape or _ANY:
        case _Shape("list", inner):
            return cel.Type.List(_typed(cel, inner))
        case _Shape("map", inner):
            return cel.Type.Map(cel.Type.STRING, _typed(cel, inner))
        case _Shape("object", _, message):
            return cel.Type(message)
        case _Shape(kind):
            return getattr(cel.Type, kind.upper())


class _Messages:
    """The messages that describe the objects of a schema, of which only fields that a rule names are needed."""

    def __init__(self, words: frozenset[str]) -> None:
        self._words = words
        self._descriptors = load("google.protobuf.descriptor_pb2")
        self._file = self._descriptors.FileDescriptorProto(name="schema.proto", syntax="proto2")

    def described(self) -> bytes:
        """The description of all messages, as a file."""
        self._file.dependency.extend(f"google/protobuf/{name}.proto" for name in _KNOWN_FILES)
        return bytes(self._file.SerializeToString(deterministic=True))

    def shape(self, kind: Type, *, whole: bool = False) -> _Shape | None:
        """The type of the values of a type; None for one that rules do not see. `whole`: it is a whole object."""
        match kind.kind:
            case "array":
                inner = self.shape(kind.item) if "items" in kind.schema else None
                return inner and _Shape("list", inner)
            case "object" if kind.values is not None:
                inner = self.shape(kind.values)
                return inner and _Shape("map", inner)
            case "object":
                parts = kind.declared
                return _Shape(
                    "object", message=self._message({**parts, **_identity(parts)} if whole or kind.embedded else parts)
                )
            case "string":
                return _Shape(_FORMATS.get(kind.format, "string"))
            case "":
                return _ANY if kind.schema.get("x-kubernetes-int-or-string") else None
        return _Shape(_SCALARS[kind.kind])

    def _message(self, parts: Mapping[str, Type]) -> str:
        made = self._file.message_type.add(name=f"object{len(self._file.message_type)}")
        for field, kind in parts.items():
            key = escaped(field)
            # Reserved words are understood as they are too.
            names = {key, field} if field in RESERVED else {key}
            for name in sorted(name for name in names if name in self._words):
                if (shape := self.shape(kind)) is not None:
                    self._field(made, name, shape)
        return str(made.name)

    def _field(self, message: Any, name: str, shape: _Shape) -> None:
        inner = shape.inner
        flat = inner is not None and inner.kind not in ("list", "map")
        kinds = self._descriptors.FieldDescriptorProto
        # Names in JSON must differ, and are made alike for `a_b` and `aB`.
        made = message.field.add(name=name, json_name=name, number=len(message.field) + 1, label=kinds.LABEL_OPTIONAL)
        made.type = kinds.TYPE_MESSAGE
        camel = "".join(word[:1].upper() + word[1:] for word in name.split("_")) + "Entry"
        if shape.kind == "map" and flat and all(one.name != camel for one in message.nested_type):
            entry = message.nested_type.add(name=camel)
            entry.options.map_entry = True
            self._field(entry, "key", _Shape("string"))
            self._field(entry, "value", inner or _ANY)
            made.label, made.type_name = kinds.LABEL_REPEATED, f".{message.name}.{entry.name}"
            return
        if shape.kind == "list" and flat:
            made.label, shape = kinds.LABEL_REPEATED, inner or _ANY
        known = {"list": "ListValue", "map": "Struct", "dyn": "Value", "timestamp": "Timestamp", "duration": "Duration"}
        if shape.kind in known:
            made.type_name = f".google.protobuf.{known[shape.kind]}"
        elif shape.kind == "object":
            made.type_name = f".{shape.message}"
        else:
            made.type = getattr(kinds, f"TYPE_{'INT64' if shape.kind == 'int' else shape.kind.upper()}")
