# SPDX-License-Identifier: Apache-2.0
"""The recordings of the scenarios are what the real API server answers; `test_local_scenarios` holds ours to them."""

import asyncio

import pytest

from tests.scenarios import model
from tests.scenarios.record import record


@pytest.mark.parity
@pytest.mark.timeout(900)
def test_the_real_server_answers_as_recorded() -> None:
    found = asyncio.run(record(model.sections(), check=True))
    assert not found, "\n".join(found)
