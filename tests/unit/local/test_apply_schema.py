# SPDX-License-Identifier: Apache-2.0
"""Views of OpenAPI schemas, and what documents say of them that do not fit."""

from typing import Any

import pytest

from tests.cases import cases
from tests.unit.local.things import TEXT, thing, view
from trainwright.controller.local.apiserver.merge.fieldmanager import custom_resource_managers
from trainwright.controller.local.apiserver.merge.typed import UnfitError, check
from trainwright.controller.local.types.model import DEDUCED, QUANTITY, RAW_EXTENSION, Types, custom_type

CASES = cases(__file__)

REFERENCE = "#/components/schemas/"


def field(schema: dict[str, Any], **models: Any) -> Any:
    """The view of a schema inside an object."""
    return Types({"root": {"type": "object", "properties": {"x": schema}}, **models}).named("root").fields["x"].type


def problems(spec: Any, *, duplicates: bool = False) -> str:
    """What is said of a spec; nothing if it fits."""
    try:
        check(view(), thing(spec), duplicates=duplicates)
    except UnfitError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("schema", "scalar"), CASES["scalars"])
def test_scalars(schema: dict[str, Any], scalar: str | None) -> None:
    assert field(schema).scalar == scalar


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ({}, None),
        ({"x-kubernetes-list-type": "atomic"}, None),
        ({"x-kubernetes-list-type": "set"}, ()),
        ({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b", "a"]}, ("b", "a")),
        ({"x-kubernetes-patch-strategy": "merge"}, ()),
        ({"x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "a"}, ("a",)),
        ({"x-kubernetes-patch-strategy": "retainKeys"}, None),
        ({"x-kubernetes-list-type": "atomic", "x-kubernetes-patch-strategy": "merge"}, None),
    ],
)
def test_lists(words: dict[str, Any], keys: tuple[str, ...] | None) -> None:
    assert field({"type": "array", "items": TEXT, **words}).keys == keys


@pytest.mark.parametrize(
    ("schema", "others"),
    [
        ({"type": "object", "properties": {"a": TEXT}}, None),
        ({"type": "object"}, DEDUCED),
        ({"type": "object", "additionalProperties": True}, DEDUCED),
        ({"type": "object", "properties": {"a": TEXT}, "additionalProperties": True}, DEDUCED),
        ({"type": "object", "properties": {"a": TEXT}, "additionalProperties": False}, None),
        ({"type": "object", "properties": {"a": TEXT}, "x-kubernetes-preserve-unknown-fields": True}, DEDUCED),
    ],
)
def test_undeclared_fields(schema: dict[str, Any], others: Any) -> None:
    assert field(schema).others is others


def test_unknown_fields_are_preserved_all_the_way_down_but_not_behind_references() -> None:
    inner = {"type": "object", "properties": {"a": TEXT}}
    outer = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"i": inner, "r": {"$ref": REFERENCE + "inner"}},
    }
    fields = field(outer, inner=inner).fields
    assert fields["i"].type.others is DEDUCED
    assert fields["r"].type.others is None


def test_references_and_what_overrides_them() -> None:
    models: dict[str, Any] = {
        "node": {"type": "object", "properties": {"next": {"$ref": REFERENCE + "node"}, "a": TEXT}},
        QUANTITY: {"oneOf": [{"type": "string"}, {"type": "number"}]},
        RAW_EXTENSION: {"type": "object"},
    }
    plain = field({"allOf": [{"$ref": REFERENCE + "node"}], "default": {}}, **models)
    assert plain.fields["next"].type is plain
    unit = field({"$ref": REFERENCE + "node", "x-kubernetes-map-type": "atomic"}, **models)
    assert unit.atomic
    assert not unit.fields["next"].type.atomic
    quantity = field({"$ref": REFERENCE + QUANTITY}, **models)
    assert (quantity.scalar, quantity.is_map) == ("untyped", False)
    assert field({"$ref": REFERENCE + RAW_EXTENSION}, **models).atomic


@pytest.mark.parametrize(("spec", "message"), CASES["documents_that_do_not_fit"])
def test_documents_that_do_not_fit(spec: Any, message: str) -> None:
    assert problems(spec) == f".spec{message}"


@pytest.mark.parametrize("spec", CASES["documents_that_fit"])
def test_documents_that_fit(spec: Any) -> None:
    assert problems(spec) == ""


def test_stored_objects_may_repeat_items() -> None:
    spec = {"tags": ["a", "a"], "items": [{"name": "a"}, {"name": "a", "x": "1"}]}
    assert problems(spec, duplicates=True) == ""


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
    found = custom_type(schema)
    check(found, {"list": [{"metadata": {"labels": {"a": "b"}}}], "map": {"k": {"kind": "X"}}}, duplicates=False)
    with pytest.raises(UnfitError, match=r"^\.list\[0\]\.metadata\.odd: field not declared in schema$"):
        check(found, {"list": [{"metadata": {"odd": 1}}]}, duplicates=False)


def test_the_managers_of_a_custom_resource() -> None:
    versions = [{"name": "v1", "subresources": {"status": {}}}, {"name": "v2"}]
    managers = custom_resource_managers({"group": "g", "names": {"kind": "K"}, "versions": versions})
    assert managers.keys() == {("g/v1", ""), ("g/v1", "status"), ("g/v2", "")}
