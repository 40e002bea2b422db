# SPDX-License-Identifier: Apache-2.0
"""Random requests for the local API server; the soak program `requests` sends more of them."""

import random

from tests.integration.local.bad_input import bombard

REQUESTS = 1500


def test_every_request_is_answered_and_none_finds_a_defect() -> None:
    seed = random.randrange(10**9)
    codes, wrong = bombard(seed, REQUESTS)
    assert not wrong, f"seed {seed}: {wrong[:5]}"
    # It must have got past the routes.
    assert {200, 400, 404, 405, 415, 422} <= codes.keys(), f"seed {seed}: {codes}"
