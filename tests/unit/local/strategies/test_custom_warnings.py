# SPDX-License-Identifier: Apache-2.0
"""Custom resources: a rule that an unchanged value breaks is warned of, and no other object hears of it."""

import pytest

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.custom import CustomStrategy

RULE = {"rule": "self > 5", "message": "too small"}
SCHEMA: Document = {
    "type": "object",
    "properties": {"number": {"type": "integer", "x-kubernetes-validations": [RULE]}, "text": {"type": "string"}},
}
WARNED = ["number: Invalid value: 1: too small"]


@pytest.mark.parametrize(
    ("new", "errors", "warnings"),
    [
        ({"number": 1, "text": "b"}, [], WARNED),
        ({"number": 2}, ["number: Invalid value: 2: too small"], []),
        ({}, [], []),
    ],
)
def test_a_rule_that_is_broken_already(new: Document, errors: list[str], warnings: list[str]) -> None:
    strategy = CustomStrategy(SCHEMA, has_status=False)
    metadata = {"metadata": {"name": "a"}}
    old, made = {**metadata, "number": 1, "text": "a"}, {**metadata, **new}
    assert [str(error) for error in strategy.errors([], made, old, "")] == errors
    assert strategy.warnings(made, old) == warnings
    assert strategy.warnings({**made}, old) == []
