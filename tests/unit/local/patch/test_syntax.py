# SPDX-License-Identifier: Apache-2.0
"""What is said of bodies that are not JSON; the texts were recorded from the API server of Kubernetes 1.36.3."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.controller.local.apiserver.patch import read_json
from trainwright.controller.local.apiserver.patch.syntax import syntax_error

EARLY = "unexpected end of JSON input"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", EARLY),
        ("[", EARLY),
        ('{"a":', EARLY),
        ('{"a"', EARLY),
        ('"abc', EARLY),
        ("[1,", EARLY),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("[,", "invalid character ',' looking for beginning of value"),
        ("nul", "invalid character ' ' in literal null (expecting 'l')"),
        ("[tru]", "invalid character ']' in literal true (expecting 'e')"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[01]", "invalid character '1' after array element"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
        ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        ("[]]", "invalid character ']' after top-level value"),
        ('["a\n"]', "invalid character '\\n' in string literal"),
        (r'"\x"', "invalid character 'x' in string escape code"),
        (r'"\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"),
        ("[1.e]", "invalid character 'e' after decimal point in numeric literal"),
        ("[1e]", "invalid character ']' in exponent of numeric literal"),
        ("[-]", "invalid character ']' in numeric literal"),
        ("'", "invalid character '\\'' looking for beginning of value"),
        ("\u00e9", "invalid character 'Ã' looking for beginning of value"),
        ("[" * 10_001, "invalid character '[' exceeded max depth"),
    ],
)
def test_errors(body: str, said: str) -> None:
    assert syntax_error(body.encode()) == said
    with pytest.raises(ValueError, match=r"\S") as raised:
        read_json(body.encode())
    assert str(raised.value) == said


def test_what_go_reads_and_others_do_not() -> None:
    assert read_json(b'"\xff"') == "\ufffd"
    assert read_json(rb'"\ud800"') == "\ufffd"
    assert read_json(b"[9223372036854775807,9223372036854775808]") == [2**63 - 1, 9.223372036854775808e18]
    assert type(read_json(b"[9223372036854775808]")[0]) is float
    number = "1" + "0" * 400
    for body in (number, "1e400", "1" * 5000):
        with pytest.raises(ValueError, match=f"^json: cannot unmarshal number {body} into Go value of type float64$"):
            read_json(body.encode())
    with pytest.raises(ValueError, match=r"^exceeded max depth of 200 levels$"):
        read_json(b"[" * 9_000 + b"]" * 9_000)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values, st.integers(0, 3))
def test_json_is_no_error(value: object, indent: int) -> None:
    assert syntax_error(json.dumps(value, indent=indent).encode()) is None


@given(st.binary(max_size=30) | st.text('[]{}",:1-.eE tfn\\u', max_size=30).map(str.encode))
def test_agrees_with_another_decoder(body: bytes) -> None:
    try:
        json.loads(body.decode(errors="replace"), parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        assert syntax_error(body) is not None
    else:
        assert syntax_error(body) is None
