# SPDX-License-Identifier: Apache-2.0
"""Random operations on the store, beside a model; the soak program `store` does many more."""

import random

import pytest

from tests.integration.local.store_difference import differences
from tests.integration.local.store_model import compare
from tests.scenarios.sides import RealSide, local_side
from trainwright.controller.runtime.testing import ControlPlane

OPERATIONS = 1500
REQUESTS = 300


@pytest.mark.parametrize("durable", [False, True])
def test_the_store_is_as_its_model(durable: bool) -> None:
    seed = random.randrange(10**9)
    findings = compare(seed, OPERATIONS, durable=durable)
    assert not findings.wrong, f"seed {seed}: {findings.wrong[:3]}"
    # What is compared must have happened.
    happened = {"writes", "stale writes refused", "lists of old versions", "watches", "compactions"}
    assert happened <= findings.counts.keys(), f"seed {seed}: {findings.counts}"


@pytest.mark.parity
async def test_versions_are_as_on_the_real_server(control_plane: ControlPlane) -> None:
    seed = random.randrange(10**9)
    real = RealSide(control_plane)
    try:
        async with local_side() as ours:
            counts, wrong = await differences(real, ours, seed, REQUESTS)
    finally:
        await real.close()
    assert not wrong, "\n".join(wrong[:3])
    assert counts["WATCH 200"]
    assert counts["PUT 409"]
