# SPDX-License-Identifier: Apache-2.0
"""Schemas are compiled as far as documents need them: all of a pod template would hold up the loop for 0.2 s."""

from typing import Any

import pytest

from trainwright.controller.local.apiserver.kinds.custom import Schema
from trainwright.controller.local.apiserver.schema import checks

STRING = {"type": "string"}
DEEP = {"type": "object", "properties": {name: {"type": "array", "items": STRING} for name in "abc"}}
SCHEMA = {"type": "object", "properties": {"used": DEEP, "unused": {"type": "array", "items": DEEP}}}


def test_what_no_document_has_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    original = checks.compile_checks

    def noted(schema: Any, **options: Any) -> Any:
        compiled.append(schema.schema)
        return original(schema, **options)

    monkeypatch.setattr(checks, "compile_checks", noted)
    made = Schema(SCHEMA)
    document = {"used": {"a": ["x"], "d": 1}}
    assert made.prune(document) == ["used.d"]
    assert made.validate(document) == []
    assert made.validate({"used": {"a": [1]}}) != []
    assert DEEP in compiled
    # `used`, `a` and its items, and the root, which is compiled where it is imported.
    assert len(compiled) <= 4
