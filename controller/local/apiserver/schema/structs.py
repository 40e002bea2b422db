# SPDX-License-Identifier: Apache-2.0
"""Decoding as Go decodes JSON into the structs of built-in kinds: unknown fields are dropped, wrong types refused.

The structs are known from OpenAPI v3 models as the API server publishes them. What these do not say of the structs
stands in the tables of `gotypes.py`; a message may name `string` where Go has a type of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trainwright.controller.local.apiserver.schema import gotypes
from trainwright.controller.local.apiserver.schema.errors import DocumentDecodeError, SchemaError
from trainwright.controller.local.apiserver.schema.problems import Step, path_text

Model = Mapping[str, Any]


@dataclass(slots=True, eq=False)
class StructFinding:
    """A field that no struct has, or a value of the wrong type."""

    steps: list[Step]
    """The way to it, backwards, with indexes and keys."""
    kind: str = ""
    """Of the value, as Go names it: `string`, `number 1.5`; empty for an unknown field."""
    wanted: str = ""
    """The Go type that was expected."""
    text: str = ""
    """What a type that reads itself says instead."""
    struct: str = ""
    """The innermost struct around the value."""
    fields: tuple[str, ...] = ()
    """The fields to it, backwards, without indexes and keys."""

    def within(self, step: Step) -> None:
        """Continue the way outwards over an item or key."""
        self.steps.append(step)

    def of(self, struct: str, field: str, embedded: str | None) -> None:
        """Continue the way outwards over a field of a struct."""
        self.steps.append(field)
        self.struct = self.struct or struct
        self.fields += (field,) if embedded is None else (field, embedded)

    @property
    def message(self) -> str:
        """What Go's decoder says."""
        if self.text:
            return self.text
        place = f"struct field {self.struct}.{'.'.join(reversed(self.fields))}" if self.struct else "value"
        return f"json: cannot unmarshal {self.kind} into Go {place} of type {self.wanted}"


Findings = list[StructFinding] | None
Decode = Callable[[Any], tuple[Any, Findings]]
"""Takes a value that is not null; gives what is kept of it and what was found."""


@dataclass(slots=True, eq=False)
class _Type:
    """A Go type."""

    decode: Decode
    name: str
    zero: Callable[[], Any]
    """What null becomes in a list or map."""


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
            DecodeError: a value is of the wrong type; the text is Go's, about the first of them.
            SchemaError: there is no such model.
        """
        _, findings = self._named(name).decode(document)
        for finding in findings or ():
            if finding.kind or finding.text:
                raise DocumentDecodeError(finding.message)
        return [path_text(reversed(finding.steps)) for finding in findings or ()]

    def _named(self, name: str) -> _Type:
        found = self._types.get(name)
        if found is not None:
            return found
        model = self._models.get(name)
        special = gotypes.SPECIAL.get(name.rpartition(".")[2]) if name in gotypes.SELF_READING else None
        if model is None and special is None and name not in gotypes.OPAQUE:
            raise SchemaError(f"no model named {name}")
        short = gotypes.short_name(name)
        if special is not None:
            made = _Type(_self_reading(special), short, dict)
        elif name in gotypes.OPAQUE or not (model or {}).get("type"):
            made = _Type(lambda value: (value, None), short, dict)
        elif (model or {}).get("type") == "object" and "additionalProperties" not in (model or {}):
            # Entered before it is filled, because structs contain themselves.
            made = self._types[name] = _Type(_unfinished, short, dict)
            made.decode = self._struct(name, model or {}, short)
        else:
            made = self._inline(model or {}, "", "")
            made = _Type(made.decode, short, made.zero)
        self._types[name] = made
        return made

    def _inline(self, schema: Model, struct: str, field: str) -> _Type:
        reference = schema.get("$ref", "")
        combined = schema.get("allOf") or []
        if not reference and len(combined) == 1:
            reference = combined[0].get("$ref", "")
        if reference:
            return self._named(reference.rpartition("/")[2])
        kind, others = schema.get("type"), schema.get("additionalProperties")
        if kind == "array":
            return self._list(self._inline(schema.get("items", {}), struct, field))
        if kind == "object" and isinstance(others, Mapping):
            return self._map(self._inline(others, "", ""))
        return _scalar_type(str(kind), schema.get("format") or "", gotypes.STRINGS.get((struct, field), "string"))

    def _struct(self, name: str, model: Model, short: str) -> Decode:
        struct = name.rpartition(".")[2]
        properties: Mapping[str, Model] = model.get("properties", {})
        embedded = gotypes.EMBEDDED.get(struct, {})
        types: dict[str, _Type] = {}

        def decode(value: Any) -> tuple[Any, Findings]:
            if type(value) is not dict:
                return _wrong(value, short)
            if not types:
                types.update({field: self._inline(inner, struct, field) for field, inner in properties.items()})
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
                        for finding in found:
                            finding.of(struct, field, embedded.get(field))
                        findings = [*(findings or ()), *found]
            for field in gone or ():
                del value[field]
            return value, findings

        return decode

    @staticmethod
    def _list(item: _Type) -> _Type:
        name = f"[]{item.name}"

        def decode(value: Any) -> tuple[Any, Findings]:
            if type(value) is not list:
                return _wrong(value, name)
            findings: Findings = None
            for index, inner in enumerate(value):
                if inner is None:
                    value[index] = item.zero()
                    continue
                value[index], found = item.decode(inner)
                if found:
                    for finding in found:
                        finding.within(index)
                    findings = [*(findings or ()), *found]
            return value, findings

        return _Type(decode, name, list)

    @staticmethod
    def _map(item: _Type) -> _Type:
        name = "v1.ResourceList" if item.name == "resource.Quantity" else f"map[string]{item.name}"

        def decode(value: Any) -> tuple[Any, Findings]:
            if type(value) is not dict:
                return _wrong(value, name)
            findings: Findings = None
            for key, inner in value.items():
                if inner is None:
                    value[key] = item.zero()
                    continue
                value[key], found = item.decode(inner)
                if found:
                    for finding in found:
                        finding.within(key)
                    findings = [*(findings or ()), *found]
            return value, findings

        return _Type(decode, name, dict)


def _unfinished(value: Any) -> tuple[Any, Findings]:
    raise AssertionError(value)


_ANYTHING = _Type(lambda value: (value, None), "interface {}", lambda: None)


def _scalar_type(kind: str, form: str, text: str) -> _Type:
    """The Go type of a scalar; `text` is that of a string."""
    match kind:
        case "string" if form == "byte":
            return _Type(_bytes, "[]uint8", str)
        case "string":
            return _Type(_scalar(str, text), text, str)
        case "integer":
            bits = 32 if form == "int32" else 64
            return _Type(_integer(bits), f"int{bits}", int)
        case "boolean":
            return _Type(_scalar(bool, "bool"), "bool", bool)
        case "number":
            return _Type(_scalar(float, "float64"), "float64", float)
        case _:
            return _ANYTHING


def _wrong(value: Any, wanted: str) -> tuple[Any, Findings]:
    return value, [StructFinding([], gotypes.kind_of(value), wanted)]


def _scalar(python: type, name: str) -> Decode:
    accepted = (float, int) if python is float else (python,)

    def decode(value: Any) -> tuple[Any, Findings]:
        return (value, None) if type(value) in accepted else _wrong(value, name)

    return decode


def _integer(bits: int) -> Decode:
    largest, name = 2 ** (bits - 1), f"int{bits}"

    def decode(value: Any) -> tuple[Any, Findings]:
        if type(value) is int and -largest <= value < largest:
            return value, None
        if type(value) in (int, float):
            return value, [StructFinding([], f"number {value}", name)]
        return _wrong(value, name)

    return decode


def _bytes(value: Any) -> tuple[Any, Findings]:
    if type(value) is not str:
        return _wrong(value, "[]uint8")
    at = gotypes.wrong_base64_at(value)
    return value, None if at is None else [StructFinding([], text=f"illegal base64 data at input byte {at}")]


def _self_reading(read: gotypes.Read) -> Decode:
    def decode(value: Any) -> tuple[Any, Findings]:
        found = read(value)
        if found is None:
            return value, None
        wanted, text = found
        return value, [StructFinding([], "" if text else gotypes.kind_of(value, wanted), wanted, text)]

    return decode
