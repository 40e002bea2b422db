# SPDX-License-Identifier: Apache-2.0
"""Decoding as Go decodes JSON into the structs of built-in kinds: unknown fields are dropped, wrong types refused.

The structs are known from OpenAPI v3 models as the API server publishes them.
"""

import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trainwright.controller.local.apiserver.schema.errors import DocumentDecodeError, SchemaError, Step, path_text

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
"""Nanoseconds."""
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_LONGEST = 2**63
_DIGITS = 19
"""Of 2**63."""


def nanoseconds(text: str) -> int:
    """How long a duration is. Raises ValueError."""
    negative, rest = text[:1] == "-", text[1:] if text[:1] in ("-", "+") else text
    total, at = 0, 0
    while at < len(rest) and rest != "0":
        found = _PART.match(rest, at)
        whole, fraction, unit = found.groups(default="") if found is not None else ("", "", "")
        if found is None or not whole + fraction or len(whole.lstrip("0")) > _DIGITS:
            raise ValueError(f"{text!r} is not a duration such as 1h30m")
        fraction = fraction[:_DIGITS]  # the rest is less than a nanosecond
        total += int(whole or 0) * _UNITS[unit] + int(fraction or 0) * _UNITS[unit] // 10 ** len(fraction)
        at = found.end()
    if not rest or total >= _LONGEST + negative:
        raise ValueError(f"{text!r} is not a duration such as 1h30m, or too long")
    return -total if negative else total


Model = Mapping[str, Any]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
_OPAQUE = frozenset(
    {
        "io.k8s.apimachinery.pkg.runtime.RawExtension",
        f"{_META}.FieldsV1",
        *(f"{_EXTENSIONS}.{name}" for name in ("JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrStringArray")),
    }
)
"""Models of anything."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)", re.ASCII)
_QUANTITY = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?", re.ASCII)
_INT32 = 2**31


@dataclass(slots=True, eq=False)
class StructFinding:
    """A field that no struct has, or a value of the wrong type."""

    steps: list[Step]
    """The way to it, backwards."""
    wanted: str = ""
    """What was expected; empty for an unknown field."""


Findings = list[StructFinding] | None
Decode = Callable[[Any], tuple[Any, Findings]]
"""Takes a value that is not null; gives what is kept of it and what was found."""


@dataclass(slots=True, eq=False)
class _Type:
    """A Go type."""

    decode: Decode
    zero: Callable[[], Any]
    """What null becomes in a list or map."""


def _wrong(value: Any, wanted: str) -> tuple[Any, Findings]:
    return value, [StructFinding([], wanted)]


def _checked(good: Callable[[Any], bool], wanted: str) -> Decode:
    def decode(value: Any) -> tuple[Any, Findings]:
        return (value, None) if good(value) else _wrong(value, wanted)

    return decode


def is_time(value: Any) -> bool:
    """Whether a value is a time (RFC 3339)."""
    return type(value) is str and _TIME.fullmatch(value) is not None


def is_quantity(value: Any) -> bool:
    """Whether a value is an amount such as `500m`."""
    return type(value) in (str, int, float) and _QUANTITY.fullmatch(str(value).strip()) is not None


def _is_base64(value: Any) -> bool:
    if type(value) is not str:
        return False
    try:
        a2b_base64(value.replace("\n", "").replace("\r", ""), strict_mode=True)
    except (Base64Error, ValueError):
        return False
    return True


def _is_duration(value: Any) -> bool:
    if type(value) is not str:
        return False
    try:
        nanoseconds(value)
    except ValueError:
        return False
    return True


_SELF_READING: dict[str, Decode] = {
    f"{_META}.Time": _checked(is_time, "a time such as 2026-01-02T03:04:05Z"),
    f"{_META}.MicroTime": _checked(
        lambda value: type(value) is str and _MICRO_TIME.fullmatch(value) is not None,
        "a time with microseconds, such as 2026-01-02T03:04:05.000000Z",
    ),
    f"{_META}.Duration": _checked(_is_duration, "a duration such as 1m30s"),
    f"{_EXTENSIONS}.JSONSchemaPropsOrBool": _checked(
        lambda value: type(value) in (bool, dict), "a boolean or a JSON schema"
    ),
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _checked(is_quantity, "a quantity such as 500m or 2Gi"),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _checked(
        lambda value: type(value) is str or (type(value) is int and -_INT32 <= value < _INT32),
        "a string or a 32-bit integer",
    ),
}
"""Types that read themselves."""


class Structs:
    """The structs of a set of models, compiled when first asked for.

    Args:
        models: the `components.schemas` of one or several documents, by name. A `$ref` is resolved by its last segment.
    """

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = models
        self._types: dict[str, _Type] = {}

    def decode(self, name: str, document: Any) -> list[str]:
        """Drop what the struct of a model has no field for, in place.

        Returns:
            The paths of dropped fields, in the order of the document.

        Raises:
            DecodeError: a value is of the wrong type; the text is about the first of them.
            SchemaError: there is no such model.
        """
        _, findings = self._named(name).decode(document)
        for finding in findings or ():
            if finding.wanted:
                place = path_text(reversed(finding.steps))
                raise DocumentDecodeError(
                    f"{place}: expected {finding.wanted}" if place else f"expected {finding.wanted}"
                )
        return [path_text(reversed(finding.steps)) for finding in findings or ()]

    def _named(self, name: str) -> _Type:
        found = self._types.get(name)
        if found is not None:
            return found
        model = self._models.get(name)
        special = _SELF_READING.get(name)
        if model is None and special is None and name not in _OPAQUE:
            raise SchemaError(f"no model named {name}")
        if special is not None:
            made = _Type(special, dict)
        elif name in _OPAQUE or not (model or {}).get("type"):
            made = _Type(lambda value: (value, None), dict)
        elif (model or {}).get("type") == "object" and "additionalProperties" not in (model or {}):
            # Entered before it is filled, because structs contain themselves.
            made = self._types[name] = _Type(_unfinished, dict)
            made.decode = self._struct(model or {})
        else:
            made = self._inline(model or {})
        self._types[name] = made
        return made

    def _inline(self, schema: Model) -> _Type:
        reference = schema.get("$ref", "")
        combined = schema.get("allOf") or []
        if not reference and len(combined) == 1:
            reference = combined[0].get("$ref", "")
        if reference:
            return self._named(reference.rpartition("/")[2])
        kind, others = schema.get("type"), schema.get("additionalProperties")
        if kind == "array":
            return self._list(self._inline(schema.get("items", {})))
        if kind == "object" and isinstance(others, Mapping):
            return self._map(self._inline(others))
        return _scalar_type(str(kind), schema.get("format") or "")

    def _struct(self, model: Model) -> Decode:
        properties: Mapping[str, Model] = model.get("properties", {})
        types: dict[str, _Type] = {}

        def decode(value: Any) -> tuple[Any, Findings]:
            if type(value) is not dict:
                return _wrong(value, "an object")
            if not types:
                types.update({field: self._inline(inner) for field, inner in properties.items()})
            findings: Findings = None
            gone: list[str] | None = None
            for field, inner in value.items():
                kind = types.get(field)
                if kind is None:
                    findings = [*(findings or ()), StructFinding([field])]
                    gone = [*(gone or ()), field]
                elif inner is None:
                    gone = [*(gone or ()), field]
                else:
                    value[field], found = kind.decode(inner)
                    if found:
                        findings = _within(findings, found, field)
            for field in gone or ():
                del value[field]
            return value, findings

        return decode

    @staticmethod
    def _list(item: _Type) -> _Type:
        def decode(value: Any) -> tuple[Any, Findings]:
            if type(value) is not list:
                return _wrong(value, "a list")
            findings: Findings = None
            for index, inner in enumerate(value):
                if inner is None:
                    value[index] = item.zero()
                    continue
                value[index], found = item.decode(inner)
                if found:
                    findings = _within(findings, found, index)
            return value, findings

        return _Type(decode, list)

    @staticmethod
    def _map(item: _Type) -> _Type:
        def decode(value: Any) -> tuple[Any, Findings]:
            if type(value) is not dict:
                return _wrong(value, "an object")
            findings: Findings = None
            for key, inner in value.items():
                if inner is None:
                    value[key] = item.zero()
                    continue
                value[key], found = item.decode(inner)
                if found:
                    findings = _within(findings, found, key)
            return value, findings

        return _Type(decode, dict)


def _within(known: Findings, found: list[StructFinding], step: Step) -> list[StructFinding]:
    """Continue the way outwards."""
    for finding in found:
        finding.steps.append(step)
    return [*(known or ()), *found]


def _unfinished(value: Any) -> tuple[Any, Findings]:
    raise AssertionError(value)


def _scalar_type(kind: str, form: str) -> _Type:
    match kind:
        case "string" if form == "byte":
            return _Type(_checked(_is_base64, "base64"), str)
        case "string":
            return _Type(_checked(lambda value: type(value) is str, "a string"), str)
        case "integer":
            bits = 32 if form == "int32" else 64
            largest = 2 ** (bits - 1)
            good: Callable[[Any], bool] = lambda value: type(value) is int and -largest <= value < largest  # noqa: E731
            return _Type(_checked(good, f"an integer of {bits} bits"), int)
        case "boolean":
            return _Type(_checked(lambda value: type(value) is bool, "true or false"), bool)
        case "number":
            return _Type(_checked(lambda value: type(value) in (float, int), "a number"), float)
        case _:
            return _Type(lambda value: (value, None), lambda: None)
