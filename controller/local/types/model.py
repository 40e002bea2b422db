# SPDX-License-Identifier: Apache-2.0
"""Types, compiled from OpenAPI v3 schemas with Kubernetes' extensions, as CRDs hold them and API servers publish them.

A type and its fields are compiled when they are first looked at: types refer to each other, in circles too, and a pod
template declares more than a thousand fields, of which a document has some ten.

What the extensions say of merging: https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy and
https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

Schema = Mapping[str, Any]
Scalar = Literal["numeric", "string", "boolean", "untyped"]
Mark = Literal["embedded", "keyed", "default", "rule"]
"""An object within an object, a list whose items are told apart, a default, a CEL rule."""

FOLDER = Path(__file__).parent
SCHEMAS, GO_TYPES, PROTOBUF = (FOLDER / name for name in ("schemas.json", "go_types.json", "protobuf.json"))
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
OBJECT_META = f"{META}.ObjectMeta"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"
SCHEMA, SCHEMA_OR_BOOL, SCHEMA_OR_LIST = (f"{EXTENSIONS}.JSONSchemaProps{end}" for end in ("", "OrBool", "OrArray"))
OF_OBJECTS = frozenset({"apiVersion", "kind", "metadata"})
"""Fields of every object, and of objects within objects."""

_SORTS = {
    f"{META}.Time": "time",
    f"{META}.MicroTime": "microtime",
    f"{META}.Duration": "duration",
    QUANTITY: "quantity",
    INT_OR_STRING: "intorstring",
    SCHEMA_OR_BOOL: "schema or bool",
    **dict.fromkeys((RAW_EXTENSION, f"{META}.FieldsV1", f"{EXTENSIONS}.JSON"), "any"),
    **dict.fromkeys((SCHEMA_OR_LIST, f"{EXTENSIONS}.JSONSchemaPropsOrStringArray"), "any"),
}
"""Types that read and write themselves, by model."""
_SORTS_OF_KINDS = {"array": "list", "boolean": "bool", "integer": "number", "number": "number", "": "any"}
_KINDS = "x-kubernetes-group-version-kind"


@dataclass(slots=True, eq=False)
class Field:
    """A field of a struct, with what is said of it there and not of its type."""

    type: "Type"
    default: Any = None
    """Of the schema. It counts where the field is a key of a list, and in custom resources everywhere."""
    strategy: str = ""
    """Of strategic merge: `merge`, `replace` or nothing; `retainKeys` is said by the patch."""
    merge_key: str = ""
    """The field that tells items apart in a strategic merge; empty where there is none."""
    pointer: bool = False
    """In Go, as the next two: a zero value differs from none."""
    omits_empty: bool = False
    omits_zero: bool = False
    """Like `omits_empty`, but it also holds for structs and times."""

    @property
    def drops_empty(self) -> bool:
        """Whether Go leaves out a value of the field that is there and empty. `omitempty` does nothing for structs."""
        sort = self.type.sort
        if self.pointer or sort == "any":
            return False
        if sort in ("time", "microtime", "quantity", "intorstring"):
            return False
        return self.omits_zero if sort == "struct" else self.omits_empty or self.omits_zero

    @property
    def is_written(self) -> bool:
        """Whether Go may write the field although it is not there."""
        sort = self.type.sort
        if sort == "struct" and not self.pointer:
            return True
        if sort in ("time", "microtime", "quantity", "intorstring") and not self.pointer:
            return not self.omits_zero
        return not (self.omits_empty or self.omits_zero)


class Type:
    """What a value may be.

    Attributes:
        name: of the model, or the path to the schema in it.
        schema: what it was compiled from.
        kind: `object`, `array`, `string`, `integer`, `number`, `boolean`; empty for anything.
        sort: what Go takes it for: `struct`, `list`, `map`, `string`, `bytes`, `number`, `bool`, `any`, or a type that
            reads itself, such as `quantity`.
        scalar: which scalars it may be besides null; None for none.
        is_map: it may be an object.
        is_list: it may be a list.
        atomic: an object of it has one owner.
        keys: what tells the items of a list apart: the key fields of a map list, none for a set; None for a list with
            one owner.
        keeps: unknown fields are kept here.
        preserve: the same, or around it: for apply this holds inside, too.
        embedded: it is an object within an object, or a whole custom resource.
        nullable: null is a value of it.
        default: of the schema; None where there is none.
        format: of the schema.
        rules: CEL rules, as `x-kubernetes-validations` has them.
        programs: what their engine compiled them to, once it has.
    """

    def __init__(
        self, name: str, schema: Schema, types: "Types", *, preserve: bool = False, atomic: bool | None = None
    ) -> None:
        self.name = name
        self.schema = schema
        self.kind = "" if schema.get("x-kubernetes-int-or-string") else _kind(schema)
        self.format = str(schema.get("format") or "")
        self.nullable = bool(schema.get("nullable"))
        self.default = schema.get("default")
        self.rules: Sequence[Schema] = schema.get("x-kubernetes-validations") or ()
        self.programs: Sequence[Any] | None = None
        self.keeps = schema.get("x-kubernetes-preserve-unknown-fields") is True
        self.preserve = preserve or self.keeps
        self.embedded = types.custom and schema.get("x-kubernetes-embedded-resource") is True
        self._types = types
        self.sort = _SORTS.get(name) or _SORTS_OF_KINDS.get(self.kind, self.kind)
        if self.sort == "object":
            self.sort = "struct" if "additionalProperties" not in schema else "map"
        elif self.sort == "string" and self.format == "byte":
            self.sort = "bytes"
        free = name == RAW_EXTENSION
        self.is_map = self.kind in ("object", "") and name != QUANTITY
        self.is_list = (self.kind in ("array", "") and name != QUANTITY) or free
        self.scalar: Scalar | None = "untyped" if free else _scalar(self.kind, self.format)
        self.atomic = free or (schema.get("x-kubernetes-map-type") == "atomic" if atomic is None else atomic)
        self.keys = _list_keys(schema)

    @cached_property
    def fields(self) -> Mapping[str, Field]:
        flags = self._types.go.get(self.name)
        made: dict[str, Field] = {}
        for key, inner in (self.schema.get("properties") or {}).items():
            go = self._guessed_flags(key, inner) if flags is None else flags.get(key, "")
            made[key] = self._field(key, inner, go)
        if self.embedded:
            text = Field(Type(f"{self.name}.kind", {"type": "string"}, self._types))
            made |= {"apiVersion": text, "kind": text, "metadata": Field(builtin(OBJECT_META))}
        return made

    def _guessed_flags(self, key: str, schema: Schema) -> str:
        """What Go's table would say of a field: what is always written is required, or has a zero value as default."""
        default = schema.get("default")
        is_written = (
            default in ("", 0, False, {}) if default is not None else key in (self.schema.get("required") or ())
        )
        return "" if is_written else "?*"

    def _field(self, key: str, schema: Schema, go: str) -> Field:
        expression = go.lstrip("?!")
        flags = go[: len(go) - len(expression)]
        strategies = str(schema.get("x-kubernetes-patch-strategy") or "").split(",")
        return Field(
            self._types.inner(f"{self.name}.{key}", schema, preserve=self.preserve),
            schema.get("default"),
            next((one for one in strategies if one not in ("", "retainKeys")), ""),
            str(schema.get("x-kubernetes-patch-merge-key") or ""),
            expression.startswith("*"),
            "?" in flags,
            "!" in flags,
        )

    @cached_property
    def others(self) -> "Type | None":
        """The type of fields that are not declared; None where there may be none."""
        if self.name == RAW_EXTENSION:
            return ATOMIC
        others = self.schema.get("additionalProperties")
        if others is None:
            return DEDUCED if self.preserve or not self.schema.get("properties") else None
        return self.values or (DEDUCED if others else None)

    @cached_property
    def values(self) -> "Type | None":
        """The type that a schema gives to fields that are not declared; None where there is no such schema."""
        others = self.schema.get("additionalProperties")
        if not isinstance(others, Mapping):
            return None
        return self._types.inner(f"{self.name}.*", others, preserve=self.preserve)

    @cached_property
    def item(self) -> "Type":
        items = self.schema.get("items")
        return ATOMIC if items is None else self._types.inner(f"{self.name}[]", items, preserve=self.preserve)

    @cached_property
    def parts(self) -> Mapping[str, "Type"]:
        return {name: field.type for name, field in self.fields.items()}

    def at(self, name: str) -> "Type | None":
        return self.parts.get(name, self.others)

    @cached_property
    def key_fields(self) -> tuple[tuple[str, Any], ...]:
        """The key fields of a map list with their defaults, sorted."""
        fields = self.item.fields
        return tuple((key, fields[key].default if key in fields else None) for key in sorted(self.keys or ()))

    @cached_property
    def defaults(self) -> tuple[tuple[str, Any], ...]:
        """The defaults of fields that have one."""
        return tuple((name, field.default) for name, field in self.fields.items() if field.default is not None)

    @cached_property
    def declared(self) -> Mapping[str, "Type"]:
        """The types of the fields as the schema has them: it may restrict the metadata of an object that it embeds."""
        if not self.embedded:
            return self.parts
        given = self.schema.get("properties") or {}
        return {
            name: self._types.inner(f"{self.name}.{name}", given[name], preserve=False) if name in OF_OBJECTS else part
            for name, part in self.parts.items()
            if name not in OF_OBJECTS or name in given
        }

    @cached_property
    def marks(self) -> frozenset[Mark]:
        """What there may be in a value of a custom type, itself included, so that walks pass by what has nothing."""
        own: dict[Mark, bool] = {
            "embedded": self.embedded,
            "keyed": self.keys is not None,
            "default": self.default is not None,
            "rule": bool(self.rules),
        }
        parts = [part for name, part in self.parts.items() if not (self.embedded and name in OF_OBJECTS)]
        inner = [*parts, self.values, self.item if "items" in self.schema else None]
        found = frozenset[Mark]().union(*(one.marks for one in inner if one is not None))
        if self.embedded and any("rule" in part.marks for part in self.declared.values()):
            found |= {"rule"}
        return found | {mark for mark, is_there in own.items() if is_there}

    @cached_property
    def is_go_struct(self) -> bool:
        """Whether Go's table has it, so that it is known how Go writes it."""
        return self.sort == "struct" and self.name in self._types.go

    @cached_property
    def written(self) -> tuple[tuple[str, Field], ...]:
        return tuple((name, field) for name, field in self.fields.items() if field.is_written)

    @cached_property
    def wire(self) -> Mapping[int, "WireField"]:
        """The fields by number in protobuf. Raises KeyError if the type is not in its table."""
        return self._wire(_message_of(self.name))

    def _wire(self, message: str) -> dict[int, "WireField"]:
        made: dict[int, WireField] = {}
        for number, name, _, kind, keeps in _protobuf()[message]:
            inline = None if name else self._wire(kind)
            made[number] = WireField(name, self.fields[name].type if name else self, keeps, inline)
        return made


@dataclass(frozen=True, slots=True)
class WireField:
    name: str
    """In JSON; empty if its own fields stand in the object itself."""
    type: Type
    keeps_zero: bool
    """It is there even if it is zero, as in Go's JSON."""
    inline: Mapping[int, "WireField"] | None = None


class Types:
    """The types of a set of models.

    Args:
        models: schemas by name; a `$ref` is resolved by its last segment, also to a published model.
        preserve: unknown fields are kept everywhere, as in a CRD with `preserveUnknownFields`.
        custom: they are of custom resources, whose embedded objects have `metadata` as any object.
        go: what Go's structs say of the fields, by model.
    """

    def __init__(
        self,
        models: Mapping[str, Schema],
        *,
        preserve: bool = False,
        custom: bool = False,
        go: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._models = models
        self._preserve = preserve
        self.custom = custom
        self.go = go or {}
        self._known: dict[tuple[str, bool | None], Type] = {}

    def named(self, name: str, *, atomic: bool | None = None) -> Type:
        """The type of a model; `atomic` overrides whether it has one owner. Raises KeyError if there is none."""
        key = name, atomic
        if key not in self._known:
            if name not in self._models and name in published_models():
                return builtin(name)
            self._known[key] = Type(name, self._models[name], self, preserve=self._preserve, atomic=atomic)
        return self._known[key]

    def inner(self, name: str, schema: Schema, *, preserve: bool) -> Type:
        """The type of a schema inside another: a reference, or one of its own. `preserve` ends at references."""
        reference = reference_of(schema)
        if not reference:
            return Type(name, schema, self, preserve=preserve)
        relationship = schema.get("x-kubernetes-map-type")
        return self.named(reference, atomic=None if relationship is None else relationship == "atomic")


def custom_part(schema: Schema) -> Type:
    return Types({}, custom=True).inner("", schema, preserve=False)


def custom_type(schema: Schema | None, *, preserve: bool = False) -> Type:
    """The type of a custom resource, by a structural `openAPIV3Schema`, or None where everything is kept."""
    root = {**(schema or {"type": "object"}), "x-kubernetes-embedded-resource": True}
    return Type("", root, Types({}, custom=True), preserve=preserve)


@functools.cache
def published_models() -> Mapping[str, Schema]:
    """The schemas that kube-apiserver publishes, by name, such as `io.k8s.api.core.v1.Pod`. Do not change them."""
    models: Mapping[str, Schema] = msgspec.json.decode(SCHEMAS.read_bytes())["schemas"]
    return models


@functools.cache
def models_by_kind() -> Mapping[tuple[str, str], str]:
    """Names of models by apiVersion and kind. Kinds of every group, such as DeleteOptions, are those of `v1` alone."""
    return {kind: name for name, model in published_models().items() for kind in kinds_of(model)}


def builtin(name: str) -> Type:
    """The type of a published model. Raises KeyError if there is none."""
    return builtins().named(name)


@functools.cache
def builtins() -> Types:
    table: Mapping[str, Mapping[str, str]] = msgspec.json.decode(GO_TYPES.read_bytes())
    structs = {_struct_of(name): name for name in published_models()}
    return Types(published_models(), go={structs[key]: flags for key, flags in table.items() if key in structs})


@functools.cache
def _protobuf() -> Mapping[str, list[tuple[int, str, str, str, bool]]]:
    messages: Mapping[str, Any] = msgspec.json.decode(PROTOBUF.read_bytes())["messages"]
    return messages


def _message_of(model: str) -> str:
    return model.removeprefix("io.").replace("k8s.", "k8s.io.", 1).replace("-", "_")


def _struct_of(model: str) -> str:
    """The Go type of a model: `core/v1.Pod` of `io.k8s.api.core.v1.Pod`."""
    package, version, kind = model.split(".")[-3:]
    return f"{package}/{version}.{kind}"


def kinds_of(model: Schema) -> Iterator[tuple[str, str]]:
    """apiVersion and kind of what a model describes."""
    for kind in model.get(_KINDS) or ():
        group, version = kind.get("group", ""), kind.get("version", "")
        yield (f"{group}/{version}" if group else version, kind["kind"])


def reference_of(schema: Schema) -> str:
    """The model that a schema refers to; empty where it is one of its own."""
    reference = schema.get("$ref")
    combined: Sequence[Schema] = schema.get("allOf") or ()
    if not reference and len(combined) == 1:
        reference = combined[0].get("$ref")
    return str(reference or "").rpartition("/")[2]


def _kind(schema: Schema) -> str:
    kind: str | Iterable[str] = schema.get("type") or ""
    # JSON Schema has lists of types; what may be null besides is of that type.
    return kind if isinstance(kind, str) else next((one for one in kind if one != "null"), "")


def _scalar(kind: str, form: str) -> Scalar | None:
    if kind in ("integer", "number"):
        return "numeric"
    if kind == "boolean":
        return "boolean"
    if kind == "string":
        # A string with a format may be read from something else, such as an int-or-string.
        return "string" if form in ("", "byte") else "untyped"
    return "untyped" if kind == "" else None


def _list_keys(schema: Schema) -> tuple[str, ...] | None:
    kind = schema.get("x-kubernetes-list-type")
    if kind is not None:
        return tuple(schema.get("x-kubernetes-list-map-keys") or ()) if kind == "map" else () if kind == "set" else None
    # What built-in kinds say that were published before list types were.
    if "merge" not in str(schema.get("x-kubernetes-patch-strategy") or "").split(","):
        return None
    key = schema.get("x-kubernetes-patch-merge-key")
    return () if key is None else (key,)


class _AnyType(Type):
    """A value without a schema. Lists in it are units; so are maps, or they are not."""

    def __init__(self, name: str, *, atomic: bool) -> None:
        super().__init__(name, {}, Types({}), atomic=atomic)

    @cached_property
    def others(self) -> Type:
        return self


ATOMIC: Type = _AnyType("__untyped_atomic_", atomic=True)
DEDUCED: Type = _AnyType("__untyped_deduced_", atomic=False)
