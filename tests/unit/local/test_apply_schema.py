# SPDX-License-Identifier: Apache-2.0
"""Views of OpenAPI schemas, and what documents say of them that do not fit."""

from typing import Any

import pytest

from tests.unit.local.things import SPEC, TEXT, thing, view
from trainwright.controller.local.apiserver.merge.errors import SchemaError
from trainwright.controller.local.apiserver.merge.fieldmanager import (
    custom_resource_managers,
    custom_resource_models,
    empty_object,
)
from trainwright.controller.local.apiserver.merge.typed import UnfitError, check
from trainwright.controller.local.apiserver.merge.view import DEDUCED, Types

REFERENCE = "#/components/schemas/"
NO_KEYS = ".tags: element 0: associative list without keys has"
OMITTED = (
    '.items: element 1: associative list with keys has an element that omits all key fields ["name"] '
    "(and doesn't have default values for any key fields)"
)


def field(schema: dict[str, Any], **models: Any) -> Any:
    """The view of a schema inside an object."""
    return Types({"root": {"type": "object", "properties": {"x": schema}}, **models}).named("root").fields.declared["x"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("schema", "scalar"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "byte"}, "string"),
        ({"type": "string", "format": "date-time"}, "untyped"),
        ({"type": "integer", "format": "int64"}, "numeric"),
        ({"type": "number"}, "numeric"),
        ({"type": "boolean"}, "boolean"),
        ({"type": ["string", "null"]}, "string"),
        ({"x-kubernetes-int-or-string": True}, "untyped"),
        ({"type": "object"}, None),
    ],
)
def test_scalars(schema: dict[str, Any], scalar: str | None) -> None:
    assert field(schema).scalar == scalar


@pytest.mark.parametrize(
    ("words", "atomic", "keys"),
    [
        ({}, True, ()),
        ({"x-kubernetes-list-type": "atomic"}, True, ()),
        ({"x-kubernetes-list-type": "set"}, False, ()),
        ({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b", "a"]}, False, ("b", "a")),
        ({"x-kubernetes-patch-strategy": "merge"}, False, ()),
        ({"x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "a"}, False, ("a",)),
        ({"x-kubernetes-patch-strategy": "retainKeys"}, True, ()),
        ({"x-kubernetes-list-type": "atomic", "x-kubernetes-patch-strategy": "merge"}, True, ()),
    ],
)
def test_lists(words: dict[str, Any], atomic: bool, keys: tuple[str, ...]) -> None:
    items = field({"type": "array", "items": TEXT, **words}).items
    assert (items.atomic, items.keys) == (atomic, keys)


@pytest.mark.parametrize(
    ("schema", "others", "guessed"),
    [
        ({"type": "object", "properties": {"a": TEXT}}, None, False),
        ({"type": "object"}, DEDUCED, True),
        ({"type": "object", "additionalProperties": True}, DEDUCED, True),
        ({"type": "object", "properties": {"a": TEXT}, "additionalProperties": True}, DEDUCED, False),
        ({"type": "object", "properties": {"a": TEXT}, "additionalProperties": False}, None, False),
        ({"type": "object", "properties": {"a": TEXT}, "x-kubernetes-preserve-unknown-fields": True}, DEDUCED, False),
    ],
)
def test_undeclared_fields(schema: dict[str, Any], others: Any, guessed: bool) -> None:
    fields = field(schema).fields
    assert fields.others is others
    assert fields.guessed is guessed


def test_maps_of_any_scalar_are_guessed_only_without_a_model() -> None:
    """No change of relationship is seen in a map whose values are inline and of any scalar type."""
    inline = field({"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}})
    referred = field({"type": "object", "additionalProperties": {"$ref": REFERENCE + "any"}}, any={})
    assert (inline.fields.guessed, referred.fields.guessed) == (True, False)


def test_unknown_fields_are_preserved_all_the_way_down_but_not_behind_references() -> None:
    inner = {"type": "object", "properties": {"a": TEXT}}
    outer = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"i": inner, "r": {"$ref": REFERENCE + "inner"}},
    }
    fields = field(outer, inner=inner).fields.declared
    assert fields["i"].fields.others is DEDUCED
    assert fields["r"].fields.others is None


def test_references_and_what_overrides_them() -> None:
    models: dict[str, Any] = {
        "node": {"type": "object", "properties": {"next": {"$ref": REFERENCE + "node"}, "a": TEXT}},
        "list": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
        "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object"},
    }
    plain = field({"allOf": [{"$ref": REFERENCE + "node"}], "default": {}}, **models)
    assert plain.fields.declared["next"] is plain
    unit = field({"$ref": REFERENCE + "node", "x-kubernetes-map-type": "atomic"}, **models)
    assert unit.fields.atomic
    assert not unit.fields.declared["next"].fields.atomic
    assert field({"$ref": REFERENCE + "list", "x-kubernetes-map-type": "atomic"}, **models).items.atomic
    quantity = field({"$ref": REFERENCE + "io.k8s.apimachinery.pkg.api.resource.Quantity"}, **models)
    assert (quantity.scalar, quantity.fields) == ("untyped", None)
    assert field({"$ref": REFERENCE + "io.k8s.apimachinery.pkg.runtime.RawExtension"}, **models).fields.atomic


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"$ref": REFERENCE + "none"}, "no type found matching: none"),
        ({"type": "array"}, "`items` must be specified on arrays"),
        ({"type": "array", "items": TEXT, "x-kubernetes-list-type": "bag"}, "unknown list type bag"),
        ({"type": "array", "items": TEXT, "x-kubernetes-list-type": "map"}, "missing map keys"),
        ({"type": "object", "x-kubernetes-map-type": "odd"}, "unknown map type odd"),
        ({"type": "file"}, "unrecognized type: 'file'"),
    ],
)
def test_schemas_that_cannot_be_compiled(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        field(schema)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"nothing": 1}, ".nothing: field not declared in schema"),
        ({"text": 1.5}, ".text: expected string, got 1.5"),
        ({"number": "1"}, '.number: expected numeric (int or float), got "1"'),
        ({"number": {}}, ".number: expected numeric (int or float), got {}"),
        ({"flag": 1}, ".flag: expected boolean, got 1"),
        ({"when": [1]}, ".when: expected any scalar, got [1]"),
        ({"table": "x"}, '.table: expected map, got "x"'),
        ({"tags": {"a": 1}}, '.tags: expected list, got {"a":1}'),
        ({"plain": ["a", 2]}, ".plain[1]: expected string, got 2"),
        ({"tags": ["a", "b", "a"]}, '.tags: duplicate entries for key [="a"]'),
        ({"tags": [None]}, f"{NO_KEYS} an element that's an explicit null"),
        ({"tags": [{}]}, f"{NO_KEYS} an element that's a map type"),
        ({"tags": [[]]}, ".tags: element 0: not supported: associative list with lists as elements"),
        ({"items": [None]}, ".items: element 0: associative list with keys may not have a null element"),
        ({"items": ["a"]}, ".items: element 0: associative list with keys may not have non-map elements"),
        ({"items": [{"name": "a"}, {"x": "b"}]}, OMITTED),
        ({"items": [{"name": "a"}, {"name": "a", "x": "b"}]}, '.items: duplicate entries for key [name="a"]'),
        ({"items": [{"name": "a", "flag": 1}]}, '.items[name="a"].flag: field not declared in schema'),
        (
            {"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]},
            '.ports: duplicate entries for key [port=1,protocol="TCP"]',
        ),
    ],
)
def test_documents_that_do_not_fit(spec: Any, message: str) -> None:
    with pytest.raises(UnfitError) as error:
        check(view(), thing(spec), duplicates=False)
    assert str(error.value) == f".spec{message}"


def test_several_problems() -> None:
    with pytest.raises(UnfitError) as error:
        check(view(), thing({"number": "1", "flag": 2}), duplicates=False)
    assert str(error.value).splitlines() == [
        "errors:",
        '  .spec.number: expected numeric (int or float), got "1"',
        "  .spec.flag: expected boolean, got 2",
    ]


@pytest.mark.parametrize(
    "spec",
    [
        None,
        dict.fromkeys(SPEC["properties"]),
        {"either": 1, "when": 2, "free": {"a": [{"b": None}]}},
        {"either": {"as": ["the", "real", "server"]}},
        {"ports": [{"port": 1}, {"port": 1, "protocol": "UDP"}, {"protocol": "UDP"}, {}]},
    ],
)
def test_documents_that_fit(spec: Any) -> None:
    check(view(), thing(spec), duplicates=False)


def test_stored_objects_may_repeat_items() -> None:
    check(view(), thing({"tags": ["a", "a"], "items": [{"name": "a"}, {"name": "a", "x": "1"}]}), duplicates=True)


def test_embedded_resources_have_metadata() -> None:
    schema = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"type": "object", "x-kubernetes-embedded-resource": True}},
            "map": {
                "type": "object",
                "additionalProperties": {"type": "object", "x-kubernetes-embedded-resource": True},
            },
        },
    }
    spec = {"group": "g", "names": {"kind": "K"}, "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}
    found = Types(custom_resource_models(spec)).of_kind("g/v1", "K")
    assert found is not None
    check(found, {"list": [{"metadata": {"labels": {"a": "b"}}}], "map": {"k": {"kind": "X"}}}, duplicates=False)
    with pytest.raises(UnfitError, match=r"^\.list\[0\]\.metadata\.odd: field not declared in schema$"):
        check(found, {"list": [{"metadata": {"odd": 1}}]}, duplicates=False)


def test_the_managers_of_a_custom_resource() -> None:
    versions = [{"name": "v1", "subresources": {"status": {}}}, {"name": "v2"}]
    managers = custom_resource_managers({"group": "g", "names": {"kind": "K"}, "versions": versions})
    assert managers.keys() == {("g/v1", ""), ("g/v1", "status"), ("g/v2", "")}


def test_the_empty_object_of_a_built_in_kind() -> None:
    models: dict[str, Any] = {
        "Job": {"type": "object", "properties": {"spec": {"allOf": [{"$ref": REFERENCE + "Spec"}], "default": {}}}},
        "Spec": {
            "type": "object",
            "properties": {
                "containers": {"type": "array", "items": TEXT},
                "name": {**TEXT, "default": ""},
                "protocol": {**TEXT, "default": "TCP"},
                "count": {"type": "integer"},
            },
            "required": ["containers", "name"],
        },
    }
    assert empty_object(models, "Job", "batch/v1", "Job") == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {"containers": None, "name": ""},
    }
