# SPDX-License-Identifier: Apache-2.0
"""Options of lists: numbers, and tokens to continue with."""

import base64
from pathlib import Path

import pytest

from tests.unit.local.identity.conftest import Asker
from trainwright.controller.local.apiserver.request.info import go_integer
from trainwright.controller.local.cluster import api_server

WRONG_TOKENS = (
    *(b'{"v":"meta.k8s.io/v1"}', b'{"v":"meta.k8s.io/v1","rv":1}', b'{"v":"meta.k8s.io/v1","rv":1,"start":"../a"}'),
    *(b'{"v":"meta.k8s.io/v1","rv":"1"}', b"5", b"null", b"x", b"\xff"),
)


@pytest.mark.parametrize(
    ("text", "signed", "number"),
    [("5", True, 5), ("+5", True, 5), ("-5", True, -5), ("005", False, 5), (str(2**64 - 1), False, 2**64 - 1)],
)
def test_numbers(text: str, signed: bool, number: int) -> None:
    assert go_integer(text, signed=signed) == number


@pytest.mark.parametrize(
    ("text", "signed"),
    [
        *((text, True) for text in ("1_0", " 1", "1.0", "\u0661", str(2**63), "9" * 5000)),
        *((text, False) for text in ("+5", "-5", str(2**64))),
    ],
)
def test_what_is_no_number(text: str, signed: bool) -> None:
    with pytest.raises(ValueError, match="is not a whole number of 64 bits"):
        go_integer(text, signed=signed)


async def test_wrong_tokens(tmp_path: Path) -> None:
    tokens = [base64.urlsafe_b64encode(said).rstrip(b"=").decode() for said in WRONG_TOKENS]
    async with api_server(tmp_path / "state", memory=True) as api:
        for token in (*tokens, "x", "ab!c", "abcd="):
            status, answer = await Asker(api)("GET", f"/api/v1/nodes?continue={token}")
            assert status == 400
            assert answer["message"].startswith("invalid continue token: continue key is not valid: ")
