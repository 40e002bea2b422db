# SPDX-License-Identifier: Apache-2.0
"""Documents of built-in kinds as Go reads and writes their JSON.

- `decode` drops fields that no struct has and refuses values of the wrong type.
- `normalize` brings a document into the form in which Go writes it: nulls go, and so do zero values and empty lists of
  optional fields that are no pointers; structs that are no pointers are always there; quantities and times are in their
  canonical form.
"""

import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable
from typing import Any

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.api.quantity import canonical
from trainwright.controller.local.types.model import SCHEMA, SCHEMA_OR_BOOL, SCHEMA_OR_LIST, Field, Type, builtin
from trainwright.controller.local.values import Step, path_text

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII)
_QUANTITY = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?", re.ASCII)
_INT32 = 2**31
_INT64 = 2**63
_ZEROS = {"string": "", "bool": False, "number": 0, "quantity": "0", "intorstring": 0}
_NULL_ITEMS: dict[str, Callable[[], Any]] = {"list": list, "bytes": str, "string": str, "number": int, "bool": bool}
"""What null becomes in a list or map; others become an object."""


class DocumentDecodeError(ValueError):
    """A document cannot be read as an object of its kind; the text says where and what was expected."""


class _Decoding:
    """One document: the fields that were dropped, and the first value of the wrong type."""

    def __init__(self) -> None:
        self.dropped: list[str] = []
        self._way: list[Step] = []

    def value(self, kind: Type, value: Any, step: Step) -> None:
        """Check a value that is not null, and drop unknown fields in it."""
        sort = kind.sort
        if sort == "any" and (kind.name != SCHEMA_OR_LIST or type(value) is not dict):
            return
        self._way.append(step)
        if sort == "struct":
            self.struct(kind, value)
        elif sort == "list":
            self._require(type(value) is list, "a list")
            item = kind.item
            for index, inner in enumerate(value):
                if inner is None:
                    value[index] = _NULL_ITEMS.get(item.sort, dict)()
                else:
                    self.value(item, inner, index)
        elif sort == "map":
            self._require(type(value) is dict, "an object")
            if (others := kind.others) is not None:
                for key, inner in value.items():
                    if inner is None:
                        value[key] = _NULL_ITEMS.get(others.sort, dict)()
                    else:
                        self.value(others, inner, key)
        else:
            self._special(kind, value)
        self._way.pop()

    def _special(self, kind: Type, value: Any) -> None:
        if type(value) is dict and kind.name in (SCHEMA_OR_BOOL, SCHEMA_OR_LIST):
            known = len(self.dropped)
            self.struct(builtin(SCHEMA), value)
            # Go reads such a schema apart, and tells of no field that it drops there.
            del self.dropped[known:]
        elif wanted := _unfit(kind, kind.sort, value):
            self._refuse(wanted)

    def struct(self, kind: Type, value: Any) -> None:
        """The same of a struct, at the current place."""
        self._require(type(value) is dict, "an object")
        fields = kind.fields
        gone: list[str] | None = None
        for name, inner in value.items():
            field = fields.get(name)
            if field is None:
                self.dropped.append(path_text([*self._way, name]))
            elif inner is not None:
                self.value(field.type, inner, name)
                continue
            gone = [*(gone or ()), name]
        for name in gone or ():
            del value[name]

    def _require(self, good: bool, wanted: str) -> None:
        if not good:
            self._refuse(wanted)

    def _refuse(self, wanted: str) -> None:
        place = path_text(self._way)
        raise DocumentDecodeError(f"{place}: expected {wanted}" if place else f"expected {wanted}")


def decode(kind: Type, document: Any) -> list[str]:
    """Drop what a struct has no field for, and nulls, in place. Returns the paths of dropped fields.

    Raises DocumentDecodeError about the first value of the wrong type.
    """
    decoding = _Decoding()
    decoding.struct(kind, document)
    return decoding.dropped


def convert_integers(kind: Type, value: Any) -> Any:
    """Make integers as large as their fields, in place, as Go converts numbers: whole doubles too, and they wrap."""
    if type(value) is dict:
        for name, inner in value.items():
            if (part := kind.at(name)) is not None:
                value[name] = convert_integers(part, inner)
    elif type(value) is list:
        value[:] = [convert_integers(kind.item, inner) for inner in value]
    elif kind.kind == "integer" and type(value) in (int, float) and value == value // 1:
        half = _INT32 if kind.format == "int32" else _INT64
        whole = int(value) if -_INT64 <= value < _INT64 else -_INT64
        return (whole + half) % (2 * half) - half
    return value


def _unfit(kind: Type, sort: str, value: Any) -> str:
    """What a scalar was expected to be; empty where it is that."""
    if sort == "string":
        return "" if type(value) is str else "a string"
    if sort == "bool":
        return "" if type(value) is bool else "true or false"
    if sort == "number":
        if kind.kind == "number":
            return "" if type(value) in (float, int) else "a number"
        bits, largest = (32, _INT32) if kind.schema.get("format") == "int32" else (64, _INT64)
        return "" if type(value) is int and -largest <= value < largest else f"an integer of {bits} bits"
    good, wanted = _READERS[sort]
    return "" if good(value) else wanted


def is_time(value: Any) -> bool:
    return type(value) is str and _TIME.fullmatch(value) is not None


_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
"""Nanoseconds."""
_DURATION_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_LONGEST = 2**63
_DURATION_DIGITS = 19
"""Of 2**63."""


def nanoseconds(text: str) -> int:
    """How long a duration such as `1h30m` is (https://pkg.go.dev/time#ParseDuration). Raises ValueError."""
    negative, rest = text[:1] == "-", text[1:] if text[:1] in ("-", "+") else text
    total, at = 0, 0
    while at < len(rest) and rest != "0":
        found = _DURATION_PART.match(rest, at)
        whole, fraction, unit = found.groups(default="") if found is not None else ("", "", "")
        if found is None or not whole + fraction or len(whole.lstrip("0")) > _DURATION_DIGITS:
            raise ValueError(f"{text!r} is not a duration such as 1h30m")
        fraction = fraction[:_DURATION_DIGITS]  # the rest is less than a nanosecond
        total += int(whole or 0) * _UNITS[unit] + int(fraction or 0) * _UNITS[unit] // 10 ** len(fraction)
        at = found.end()
    if not rest or total >= _LONGEST + negative:
        raise ValueError(f"{text!r} is not a duration such as 1h30m, or too long")
    return -total if negative else total


def _reads(read: Callable[[str], Any]) -> Callable[[Any], bool]:
    def accepts(value: Any) -> bool:
        try:
            return type(value) is str and read(value) is not None
        except (Base64Error, ValueError):
            return False

    return accepts


def _is_quantity(value: Any) -> bool:
    return type(value) in (str, int, float) and _QUANTITY.fullmatch(str(value).strip()) is not None


def _is_int_or_string(value: Any) -> bool:
    return type(value) is str or (type(value) is int and -_INT32 <= value < _INT32)


def _base64(value: str) -> bytes:
    return a2b_base64(value.replace("\n", "").replace("\r", ""), strict_mode=True)


_READERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "time": (is_time, "a time such as 2026-01-02T03:04:05Z"),
    "microtime": (_reads(_MICRO_TIME.fullmatch), "a time with microseconds, such as 2026-01-02T03:04:05.000000Z"),
    "duration": (_reads(nanoseconds), "a duration such as 1m30s"),
    "quantity": (_is_quantity, "a quantity such as 500m or 2Gi"),
    "intorstring": (_is_int_or_string, "a string or a 32-bit integer"),
    "bytes": (_reads(_base64), "base64"),
    "schema or bool": (lambda value: type(value) in (bool, dict), "a boolean or a JSON schema"),
}


def normalize(document: Document, model: str) -> None:
    """Bring a document into the form in which Go writes it, in place. Unknown fields are left alone.

    `model` is the name of the struct, such as `io.k8s.api.core.v1.Pod`.
    """
    _normalize(document, builtin(model))


def zero(model: str, **given: Any) -> Document:
    """The zero value of a struct as Go writes it, with the fields that are given.

    A creation is compared with the empty object. That of a Pod holds `spec.containers` as null, so a manager that
    creates a Pod owns the containers and not the list itself.
    """
    return _zero(builtin(model)) | given


def _zero(kind: Type) -> Document:
    made: Document = {}
    for name, field in kind.written:
        _write(made, name, field)
    return made


def _normalize(document: Document, kind: Type) -> None:
    if not kind.is_go_struct:
        return
    fields = kind.fields
    for name in list(document):
        field = fields.get(name)
        if field is None:
            continue
        value = document[name]
        made = None if value is None else _normalized(value, field.type)
        if made is None or (not made and field.drops_empty):
            del document[name]
        else:
            document[name] = made
    for name, field in kind.written:
        if name not in document:
            _write(document, name, field)


def _normalized(value: Any, kind: Type) -> Any:
    sort = kind.sort
    if sort == "struct":
        if type(value) is dict:
            _normalize(value, kind)
    elif sort == "list":
        if type(value) is list:
            return [_normalized(_filled(inner, kind.item), kind.item) for inner in value]
    elif sort == "map":
        others = kind.others
        if type(value) is dict and others is not None:
            return {key: _normalized(_filled(inner, others), others) for key, inner in value.items()}
    elif sort in _CANONICAL:
        try:
            return _CANONICAL[sort](value)
        except ValueError:
            return value
    return value


def _filled(item: Any, kind: Type) -> Any:
    """What Go makes of an item of a list or a map, which may be null."""
    if item is None:
        return {} if kind.sort == "struct" else _ZEROS.get(kind.sort)
    return item


def _write(document: Document, name: str, field: Field) -> None:
    """Add a field that Go writes although it is empty."""
    if field.type.sort != "struct" or field.pointer:
        document[name] = None if field.pointer else _ZEROS.get(field.type.sort)
        return
    made = _zero(field.type)
    if made or not field.omits_zero:
        document[name] = made


_CANONICAL: dict[str, Callable[[Any], str]] = {
    "quantity": canonical,
    "time": lambda value: times.format_time(times.parse(value)),
    "microtime": lambda value: times.format_micro_time(times.parse(value)),
}
