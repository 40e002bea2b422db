# SPDX-License-Identifier: Apache-2.0
"""Definitions of other projects become models as they are."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from trainwright.codegen import imports
from trainwright.codegen.compiler import Project
from trainwright.codegen.definition import CompileError
from trainwright.controller.cli.main import main

STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
ENGINE = {"type": "object", "properties": {"fuel": {"type": "string"}, "tank": {"x-kubernetes-int-or-string": True}}}
SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["engines"],
    "x-kubernetes-validations": [{"rule": "self.engines.size() < 9", "message": "no"}],
    "properties": {
        "engines": {"type": "array", "items": ENGINE, "x-kubernetes-list-type": "atomic"},
        "spare": ENGINE,
        "cabins": {"type": "object", "additionalProperties": ENGINE},
        "flags": STRINGS,
        "anything": {"x-kubernetes-preserve-unknown-fields": True, "description": "Not checked."},
        "speed": {"type": "string", "pattern": "^[0-9]+ kn$", "format": "speed"},
        "crew": {"type": "integer", "minimum": 0, "default": 2},
    },
}


def definition(spec: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": spec, "metadata": {"type": "object"}}}
    versions = [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
        {"name": "v0", "served": False, "storage": False, "schema": {"openAPIV3Schema": {"type": "object"}}},
    ]
    names = {"kind": "Ferry", "plural": "ferries", "singular": "ferry"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "ferries.sea-port.example.com"},
        "spec": {"group": "sea-port.example.com", "scope": "Namespaced", "names": names, "versions": versions},
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "others_of_test"


def test_a_foreign_definition_becomes_a_model(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "ferries.json"
    file.write_text(json.dumps(definition(SPEC)))
    assert main(["generate", str(folder), "--import", str(file)]) == 0
    ferry = importlib.import_module("others_of_test.sea_port.v1")
    try:
        spec = {
            "engines": [{"fuel": "diesel", "tank": 3}],
            "cabins": {"a": {"tank": "half"}},
            "flags": {"x": "y"},
            "anything": {"at": ["all"]},
        }
        found = msgspec.convert({"metadata": {"name": "f"}, "spec": spec}, ferry.Ferry)
        found.set_defaults()
        assert found.spec.engines[0].fuel == "diesel"
        assert found.spec.cabins["a"].tank == "half"
        assert msgspec.to_builtins(found)["spec"] == {**spec, "crew": 2}
    finally:
        for name in [name for name in sys.modules if name.startswith("others_of_test")]:
            del sys.modules[name]
    assert not [*(tmp_path / "crds").glob("*ferries*")]  # whoever made the kind installs it


def test_names_stay_when_fields_are_added(tmp_path: Path) -> None:
    def names(spec: dict[str, Any]) -> set[str]:
        file = tmp_path / "ferries.yaml"
        file.write_text(json.dumps(definition(spec)))
        (text,) = imports.imported(file).values()
        return {line.strip(" :") for line in text.splitlines() if line.startswith("  Ferry")}

    more = {**SPEC, "properties": {"boiler": ENGINE, **SPEC["properties"]}}
    assert names(SPEC) == {"FerrySpec", "FerrySpecCabinsValue", "FerrySpecEnginesItem", "FerrySpecSpare"}
    assert names(more) == {*names(SPEC), "FerrySpecBoiler"}


JOBSETS = Path(__file__).parents[3] / "controller" / "local" / "controllers" / "jobsets.crd.json"


def test_the_largest_of_the_shipped_ones_compiles(tmp_path: Path) -> None:
    folder = tmp_path / "others"
    folder.mkdir()
    for name, text in imports.imported(JOBSETS).items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    made = Project(folder).compile()
    assert "class JobSetSpecReplicatedJobsItem(" in made["others/jobset/v1alpha2/models.py"]


@pytest.mark.parametrize("text", ["kind: Pod", "a: [", "", "kind: CustomResourceDefinition\nmetadata: {name: a}"])
def test_a_file_without_a_definition_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    with pytest.raises(CompileError, match=r"wrong\.yaml"):
        imports.imported(file)
