# SPDX-License-Identifier: Apache-2.0
"""Rules with more iterations than the evaluator permits."""

from typing import Any

import pytest

from trainwright.api.validation.cel import EvaluationError, compiled, compiled_with_text

MANY = list(range(12_000))
SOME = list(range(120))


@pytest.mark.parametrize(
    ("expression", "value", "expected"),
    [
        ("self.all(x, x < 12000)", MANY, True),
        ("self.all(x, x < 11999)", MANY, False),
        ("self.exists(x, x == 11999)", MANY, True),
        ("self.exists(x, x == 12000)", MANY, False),
        ("self.exists_one(x, x == 11999)", MANY, True),
        ("self.exists_one(x, x >= 11998)", MANY, False),
        ("self.map(x, x * 2).sum() == 143988000", MANY, True),
        ("self.map(x, x % 2 == 0, x + 1).size()", MANY, 6000),
        ("self.filter(x, x >= 11998)", MANY, [11998, 11999]),
        ("self.all(i, x, i == x)", MANY, True),
        ("self.exists(i, x, i != x)", MANY, False),
        ("self.existsOne(i, x, i == 11000)", MANY, True),
        ("self.transformList(i, x, i > 11997, i + x)", MANY, [23996, 23998]),
        ("self.all(k, self[k] >= 0)", {str(one): one for one in MANY}, True),
        ("self.exists(k, v, v > 0 && k == '11999')", {str(one): one for one in MANY}, True),
        ("self.all(x, self.all(y, x + y < 239))", SOME, True),
        ("self.all(x, self.all(y, x + y < 238))", SOME, False),
        ("self.map(x, self.filter(y, y < x).size()).sum()", SOME, 7140),
        ("self.all(x, self.exists(y, self.all(z, x >= 0 && z >= 0) && y == x))", SOME[:30], True),
        ("self.exists(x, 10 / (x - 11000) == 10)", MANY, True),
        ("self.exists(x, x == 12000) || self.all(x, x >= 0)", MANY, True),
        ("self.exists(x, x == 12000) ? 'some' : 'none'", MANY, "none"),
        ("{'found': self.exists(x, x == 11999), 'list': [self.size()]}", MANY, {"found": True, "list": [12000]}),
        ("{'a': self}.?a.optMap(n, self.all(x, x < n.size())).orValue(false)", MANY, True),
        ("[self].all(self, [1, 2].all(x, self.all(y, x + y > 0)))", MANY, True),
        ("[optional.of(self)].all(o, o.value().all(x, o.hasValue() && x >= 0))", MANY, True),
        ("has(self.list) && self.list.all(x, x.name.startsWith('a'))", {"list": [{"name": "ab"}] * 12_000}, True),
    ],
)
def test_loops(expression: str, value: Any, expected: Any) -> None:
    assert compiled_with_text(expression).run({"self": value}) == expected


@pytest.mark.parametrize(
    ("expression", "value", "text"),
    [
        ("self.all(x, 10 / (x - 11000) < 100)", MANY, "division by zero"),
        ("self.map(x, 10 / (x - 11000)).size() > 0", MANY, "division by zero"),
        ("self.all(x, self.all(y, x.a + y == 0))", SOME, "no such overload"),
        (
            "self.all(x, self.all(y, self.all(z, x + y + z >= 0)))",
            SOME,
            "operation cancelled: actual cost limit exceeded",
        ),
    ],
)
def test_failures(expression: str, value: Any, text: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        compiled_with_text(expression).run({"self": value})
    assert str(caught.value) == text


def test_the_rule_of_a_document_may_have_many_iterations() -> None:
    assert compiled("self.all(x, self.all(y, x + y < 239))").run({"self": SOME, "oldSelf": None}) is True
    assert compiled("self.all(x, self.all(y, x + y < 238))").run({"self": SOME, "oldSelf": None}) is False
