# SPDX-License-Identifier: Apache-2.0
"""Custom resources: a rule that an unchanged value breaks is warned of, and no other object hears of it."""

import pytest

from tests.cases import cases
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.custom import CustomStrategy

CASES = cases(__file__)

RULE = {"rule": "self > 5", "message": "too small"}
SCHEMA: Document = {
    "type": "object",
    "properties": {"number": {"type": "integer", "x-kubernetes-validations": [RULE]}, "text": {"type": "string"}},
}


@pytest.mark.parametrize(("new", "errors", "warnings"), CASES["a_rule_that_is_broken_already"])
def test_a_rule_that_is_broken_already(new: Document, errors: list[str], warnings: list[str]) -> None:
    strategy = CustomStrategy(SCHEMA, has_status=False)
    metadata = {"metadata": {"name": "a"}}
    old, made = {**metadata, "number": 1, "text": "a"}, {**metadata, **new}
    assert [str(error) for error in strategy.errors([], made, old, "")] == errors
    assert strategy.warnings(made, old) == warnings
    assert strategy.warnings({**made}, old) == []
