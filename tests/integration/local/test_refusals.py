# SPDX-License-Identifier: Apache-2.0
"""The local API server refuses what the real one was recorded to refuse: the same reasons at the same fields."""

import json
from pathlib import Path

import pytest

from tests.integration.local.refusals import RECORDED, refusals
from trainwright.controller.local.cluster import api_server


@pytest.mark.local_is_enough
async def test_refusals_are_those_of_the_real_server(tmp_path: Path) -> None:
    async with api_server(tmp_path, memory=True, service_accounts=False) as running:
        found = await refusals(running.transport())
    recorded = json.loads(RECORDED.read_text())
    assert len(recorded) > 400
    differences = {name: (recorded.get(name), told) for name, told in found.items() if recorded.get(name) != told}
    assert not differences
    assert recorded.keys() == found.keys()
