# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' own functions in CEL, and the texts of failures."""

from typing import Any

import pytest

from trainwright.controller.local.cel.expression import EvaluationError, compiled_with_text


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ('quantity("200M") == quantity("0.2G")', True),
        ('"abc".findAll("b*")', ["", "b", ""]),
        ('"a1b22".findAll("[0-9]+", 1) + ["a1b22".find("[0-9]{2}")]', ["1", "22"]),
        ('quantity("1Gi").isGreaterThan(quantity("1G"))', True),
        ('quantity("1k").add(20).sub(quantity("5")).asInteger()', 1015),
        ('quantity("50m").asApproximateFloat()', 0.05),
        ('quantity("1").compareTo(quantity("2"))', -1),
        ('sign(quantity("-1"))', -1),
        ('isQuantity("1x") || quantity("1.5").isInteger()', False),
        ('ip("192.168.0.1").family() == 4 && ip("::1").isLoopback()', True),
        ('ip.isCanonical("2001:DB8::1") || isIP("1.2.3") || isIP("::ffff:1.2.3.4")', False),
        ('ip("10.0.0.1").isGlobalUnicast() && ip("169.254.0.1").isLinkLocalUnicast()', True),
        ('ip("224.0.0.1").isLinkLocalMulticast() && ip("0.0.0.0").isUnspecified()', True),
        ('cidr("192.168.0.0/24").containsIP("192.168.0.5")', True),
        ('cidr("192.168.0.0/24").containsIP(ip("192.168.1.5"))', False),
        ('cidr("192.168.0.0/24").containsCIDR(cidr("192.168.0.0/25"))', True),
        ('cidr("192.168.0.0/25").containsCIDR("192.168.0.0/24")', False),
        ('cidr("10.1.2.3/8").masked() == cidr("10.0.0.0/8")', True),
        ('string(cidr("10.1.2.3/8").ip()) + string(cidr("10.0.0.0/8").prefixLength())', "10.1.2.38"),
        ('isCIDR("10.0.0.0/08") || isCIDR("10.0.0.0")', False),
        ('url("https://u@a.b:80/c%20d?x=1&x=2").getHost()', "a.b:80"),
        ('url("https://[::1]:80/c").getHostname() + url("https://[::1]:80/c").getPort()', "::180"),
        ('url("/a?x=1&x=2").getQuery()["x"]', ["1", "2"]),
        ('isURL("a") || isURL("")', False),
        ('semver("1.2.3").isLessThan(semver("1.10.0"))', True),
        ('semver("1.0.0-rc.1").isLessThan(semver("1.0.0"))', True),
        ('semver("v1.2", true).minor() == 2 && !isSemver("1.2") && isSemver("1.2", true)', True),
        ("[1, 2, 2].isSorted() && ![2, 1].isSorted() && [].isSorted()", True),
        ("[1, 3].sum() + [3, 1].min() + [1, 3].max() + [].sum()", 8),
        ("[1, 2, 1].indexOf(1) + [1, 2, 1].lastIndexOf(1) + [1].indexOf(5)", 1),
        ('"abcabc".indexOf("c") + "abcabc".lastIndexOf("c")', 7),
        ('"abc 123".find("[0-9]+")', "123"),
        ('"a1b22".findAll("[0-9]+")', ["1", "22"]),
        ('"a1b22".findAll("[0-9]+", 1)', ["1"]),
        ('format.dns1123Label().validate("a").hasValue()', False),
        ('format.uuid().validate("x").value()', ["does not match the UUID format"]),
        ('format.named("date").value().validate("2026-01-01").hasValue()', False),
        ('format.named("nope").hasValue()', False),
        ("optional.none().orValue(2)", 2),
        ('"%d".format([1])', "1"),
        ("[1, 2].map(x, x * 2)", [2, 4]),
    ],
)
def test_functions(expression: str, value: Any) -> None:
    found = compiled_with_text(expression).run({})
    assert found == pytest.approx(value) if isinstance(value, float) else found == value


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("self.foo", "no such key: foo"),
        ("self.list[5]", "index out of bounds: 5"),
        ("1 / self.zero", "division by zero"),
        ("self.text > 1", "no such overload"),
        ("self.big + 1", "integer overflow"),
        ('quantity("1.5").asInteger()', "cannot convert value to integer"),
        ("[].max()", "max called on empty list"),
        (
            'cidr("x")',
            "network address parse error during conversion from string: " * 2 + "netip.ParsePrefix(\"x\"): no '/'",
        ),
    ],
)
def test_failures(expression: str, text: str) -> None:
    variables = {"self": {"list": [1], "zero": 0, "text": "a", "big": 2**63 - 1}}
    with pytest.raises(EvaluationError) as caught:
        compiled_with_text(expression).run(variables)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("foo(self)", "ERROR: <input>:1:4: undeclared reference to 'foo' (in container '')\n | foo(self)\n | ...^"),
        ('"a".reverse()', "found no matching overload for 'reverse' applied to '(string)'"),
    ],
)
def test_what_does_not_compile(expression: str, text: str) -> None:
    with pytest.raises(ValueError, match="ERROR: <input>") as caught:
        compiled_with_text(expression)
    assert text in str(caught.value)
