# SPDX-License-Identifier: Apache-2.0
"""Random operations on the store, beside a model; the soak program `store` does many more."""

import random

import pytest

from tests.integration.local.store_model import compare

OPERATIONS = 1500


@pytest.mark.parametrize("durable", [False, True])
def test_the_store_is_as_its_model(durable: bool) -> None:
    seed = random.randrange(10**9)
    findings = compare(seed, OPERATIONS, durable=durable)
    assert not findings.wrong, f"seed {seed}: {findings.wrong[:3]}"
    # What is compared must have happened.
    happened = {"writes", "stale writes refused", "lists", "watches", "compactions"}
    assert happened <= findings.counts.keys(), f"seed {seed}: {findings.counts}"
