# SPDX-License-Identifier: Apache-2.0
"""Rules that are nested deeper than the compiler permits."""

from typing import Any

import pytest

from trainwright.controller.local.cel.expression import compiled_with_text


def nested(levels: int) -> dict[str, Any]:
    made: Any = 1
    for _ in range(levels):
        made = {"a": made}
    return dict(made)


@pytest.mark.parametrize(
    ("expression", "value", "expected"),
    [
        ("(" * 50 + "self > 0" + ")" * 50, 1, True),
        ("(" * 120 + "self > 0" + ")" * 120, 0, False),
        ("+".join(["self"] * 50), 2, 100),
        ("-".join(["self"] * 50), 1, -48),
        (" * ".join(["self"] * 50) + " + 1", 1, 2),
        ("(1 + " * 50 + "self" + ")" * 50, 1, 51),
        ("self" + ".a" * 50, nested(50), 1),
        ("has(self" + ".a" * 50 + ")", nested(50), True),
        (" ".join(f"self == {one} ? {one + 1} :" for one in range(50)) + " -1", 49, 50),
        ("self.all(x, self.all(y, " + "(" * 50 + "x + y > 0" + ")" * 50 + "))", list(range(1, 90)), True),
        ("self.exists(x, " + " + ".join(["x"] * 50) + " == 100)", [1, 2], True),
        ("+".join(["'(\\'' + \")\" + r'{'"] * 40) + " == self", "(')" + "{(')" * 39 + "{", True),
        ("{'a': " + "(" * 50 + "1" + ")" * 50 + "}.a in [" + "(" * 50 + "self" + ")" * 50 + ", 2]", 1, True),
        ("self == 0 || " + "(" * 50 + "10 / self > 1" + ")" * 50, 0, True),
    ],
)
def test_deep_rules(expression: str, value: Any, expected: Any) -> None:
    assert compiled_with_text(expression).run({"self": value}) == expected


def test_the_type_of_a_deep_rule_is_known() -> None:
    assert compiled_with_text("(" * 50 + "self > 0" + ")" * 50).result == "bool"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("+".join(["zz"] * 50), "undeclared reference to 'zz'"),
        ("self.all(x, true) && " + "+".join(["x"] * 50) + " == 50", "undeclared reference to 'x'"),
        ("(" * 50 + "self", "recursion limit"),
        ("(" * 300 + "self" + ")" * 300, "recursion limit"),
    ],
)
def test_deep_rules_that_do_not_compile(expression: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        compiled_with_text(expression)
