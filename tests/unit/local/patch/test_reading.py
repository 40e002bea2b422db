# SPDX-License-Identifier: Apache-2.0
"""Bodies of JSON, as Go reads them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.controller.local.values import read_json


@pytest.mark.parametrize(
    "body",
    [
        *("", "[", '{"a":', '"abc', "[1,", "x", "[,", "nul", "[tru]", "[1 2]", "[01]", '{"a" 1}', "{a:1}", '{"a":1,}'),
        *("[]]", '["a\n"]', r'"\x"', r'"\u12g4"', "[1.e]", "[1e]", "[-]", "'", "\u00e9", "NaN", "[Infinity]"),
    ],
)
def test_what_is_not_json(body: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_json(body.encode())


def test_what_go_reads_and_others_do_not() -> None:
    assert read_json(b'"\xff"') == "\ufffd"
    assert read_json(rb'"\ud800"') == "\ufffd"
    assert read_json(b"[9223372036854775807,9223372036854775808]") == [2**63 - 1, 9.223372036854775808e18]
    assert type(read_json(b"[9223372036854775808]")[0]) is float
    for body in ("1" + "0" * 400, "1e400", "1" * 5000):
        with pytest.raises(ValueError, match=f"^the number {body} is too large$"):
            read_json(body.encode())
    with pytest.raises(ValueError, match=r"^exceeded max depth of 200 levels$"):
        read_json(b"[" * 9_000 + b"]" * 9_000)


@given(st.binary(max_size=30) | st.text('[]{}",:1-.eE tfn\\u', max_size=30).map(str.encode))
def test_agrees_with_another_decoder(body: bytes) -> None:
    try:
        json.loads(body.decode(errors="replace"), parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        with pytest.raises(ValueError, match=r"."):
            read_json(body)
    else:
        read_json(body)
