# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' own functions in CEL, and the texts of failures."""

from typing import Any

import pytest

from tests.cases import cases
from trainwright.controller.local.cel.expression import EvaluationError, compiled_with_text

CASES = cases(__file__)


@pytest.mark.parametrize(("expression", "value"), CASES["functions"])
def test_functions(expression: str, value: Any) -> None:
    found = compiled_with_text(expression).run({})
    assert found == pytest.approx(value) if isinstance(value, float) else found == value


@pytest.mark.parametrize("expression", CASES["failures"])
def test_failures(expression: str) -> None:
    variables = {"self": {"list": [1], "zero": 0, "text": "a", "big": 2**63 - 1}}
    with pytest.raises(EvaluationError, match=r"."):
        compiled_with_text(expression).run(variables)


@pytest.mark.parametrize("expression", ["foo(self)", '"a".reverse()'])
def test_what_does_not_compile(expression: str) -> None:
    with pytest.raises(ValueError, match="ERROR: <input>"):
        compiled_with_text(expression)


def test_a_rule_that_is_nested_too_deep_is_answered_with_a_sentence() -> None:
    assert compiled_with_text("(" * 12 + "self > 0" + ")" * 12).run({"self": 1}) is True
    with pytest.raises(ValueError, match="nested more than 32 levels deep is not evaluated here"):
        compiled_with_text("(" * 50 + "self > 0" + ")" * 50)
