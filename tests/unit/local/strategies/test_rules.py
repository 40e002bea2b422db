# SPDX-License-Identifier: Apache-2.0
"""The files of rules, and what a rule says of a value."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from tests.cases import cases
from trainwright.controller.local.apiserver.kinds import rules
from trainwright.controller.local.apiserver.kinds.built_in import built_in_kinds, reviews
from trainwright.controller.local.apiserver.kinds.formats import FORMATS
from trainwright.controller.local.apiserver.kinds.rules import FOLDER, Rule, check, tables

Document = dict[str, Any]
CASES = cases(__file__)
SCHEMA = json.loads((FOLDER / "rules.schema.json").read_text())
FILES = sorted(path for path in FOLDER.glob("*.json") if path.name != "rules.schema.json")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_as_its_schema_says(path: Path) -> None:
    table = json.loads(path.read_text())
    jsonschema.validate(table, SCHEMA)
    assert table["$schema"] == "rules.schema.json"
    assert {key for rules in table.values() if isinstance(rules, list) for rule in rules for key in rule} <= {
        *SCHEMA["$defs"]["rule"]["properties"]
    }


def test_rules_name_what_there_is() -> None:
    kinds = {f"{one.api_version} {one.kind}" for one in (*built_in_kinds(for_others=True), *reviews())}
    structs = {name for name in tables() if " " not in name}
    kinds.add("apiextensions.k8s.io/v1 CustomResourceDefinition")
    named = {name for name in tables() if " " in name}
    assert {name.removesuffix("/finalize").removesuffix("/established") for name in named} <= kinds
    used = {rule.use for table in tables().values() for rule in table if rule.use}
    assert used <= structs
    schemas = {f"{kind}Schema" for kind in ("Root", "Structural", "Embedded", "Map", "List")}
    assert structs - used == {"Object", "VersionParts", "SchemaWords", "NewMetadata", *schemas}
    assert {rule.format or rule.keys for table in tables().values() for rule in table} <= {"", *FORMATS}
    for name in tables():
        check(name, {})  # compiles the rules, which names functions that are not there


@pytest.mark.parametrize(("rule", "document", "errors"), CASES["what_a_rule_refuses"])
def test_what_a_rule_refuses(
    rule: Document, document: Document, errors: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {**tables(), f"rule {rule}": (msgspec.convert(rule, Rule),)}
    monkeypatch.setattr(rules, "tables", lambda: made)
    found = check(f"rule {rule}", document)
    assert [f"{error.reason.removeprefix('FieldValue')} {error.field}" for error in found] == errors
