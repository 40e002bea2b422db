# SPDX-License-Identifier: Apache-2.0
"""The files of rules, and what a rule says of a value."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from trainwright.controller.local.apiserver.kinds.built_in import built_in_kinds
from trainwright.controller.local.apiserver.kinds.formats import FORMATS
from trainwright.controller.local.apiserver.kinds.rules import FOLDER, Rule, check, errors_of, tables

Document = dict[str, Any]
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
    kinds = {f"{kind.api_version} {kind.kind}" for kind in built_in_kinds(for_others=True)}
    structs = {name for name in tables() if " " not in name}
    assert {name.rpartition("/")[0] if name.count(" ") and name.count("/") > 1 else name for name in tables()} >= kinds
    used = {rule.use for rules in tables().values() for rule in rules if rule.use}
    assert used <= structs
    assert structs - used == {"Object"}
    assert {rule.format or rule.keys for rules in tables().values() for rule in rules} <= {"", *FORMATS}
    for name in tables():
        check(name, {})  # compiles the rules, which names functions that are not there


@pytest.mark.parametrize(
    ("rule", "document", "errors"),
    [
        (Rule("a", required=True), {"a": ""}, ["Required a"]),
        (Rule("a", required=True), {"a": False}, []),
        (Rule("a.b", required=True), {}, []),
        (Rule("a[*].b", present=True), {"a": [{"b": 0}, {}]}, ["Required a[1].b"]),
        (Rule("a", forbidden=True, when={"b": True}), {"a": 1, "b": "x"}, ["Forbidden a"]),
        (Rule("a", forbidden=True, when={"b": True}), {"a": 1, "b": ""}, []),
        (Rule("a", forbidden=True, unless={"b": ["x", "y"]}), {"a": 1, "b": "y"}, []),
        (Rule("a", choices=("x", "y")), {"a": "z"}, ["NotSupported a"]),
        (Rule("a[*].b", format="port", field="/c[*].d"), {"a": [{"b": 1}, {"b": 0}]}, ["Invalid c[1].d"]),
        (Rule("a", min=0, max="b"), {"a": 3, "b": 2}, ["Invalid a"]),
        (Rule("a", most=1), {"a": [1, 2]}, ["TooMany a"]),
        (Rule("a[*]", unique=True, besides="b[*]"), {"a": [1, 2, 2], "b": [1]}, ["Duplicate a[0]", "Duplicate a[2]"]),
        (Rule("a[*]", unique=("b", "c")), {"a": [{"b": 1, "c": 0}, {"b": 1, "c": 0}]}, []),
        (Rule("a[*]", within="b c[*]"), {"a": [1, 2, 3], "b": 1, "c": [2]}, ["NotFound a[2]"]),
        (Rule("a", one_of=("x", "y")), {"a": {}}, ["Required a"]),
        (Rule("a", one_of=("x", "y")), {"a": {"x": {}, "y": {}}}, ["Forbidden a.y"]),
        (
            Rule("a[*]", use="LabelSelectorRequirement"),
            {"a": [{"operator": "Exists", "key": "a b"}]},
            ["Invalid a[0].key"],
        ),
    ],
)
def test_what_a_rule_refuses(rule: Rule, document: Document, errors: list[str]) -> None:
    found = errors_of([rule], document)
    assert [f"{error.reason.removeprefix('FieldValue')} {error.field}" for error in found] == errors
