# SPDX-License-Identifier: Apache-2.0
"""Our field manager and Kubernetes' own make the same of random applies and updates.

A few seconds of it; `tests/soak/apply.py` runs for longer.
"""

from collections.abc import Iterator

import pytest

from tests.integration.local.apply_fuzz import Findings, fuzz, fuzz_sets
from tests.integration.local.oracle import Oracle

# The first test builds the program, where it is not in the cache; `make test` needs no compiler.
pytestmark = [pytest.mark.real_control_plane("compares with it"), pytest.mark.timeout(900)]
SEQUENCES = 250


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as running:
        yield running


def check(findings: Findings) -> None:
    assert not findings.wrong, "\n\n".join(findings.wrong[:3])


def test_sequences_of_applies_and_updates(oracle: Oracle) -> None:
    findings = fuzz(oracle, 0, SEQUENCES)
    check(findings)
    # It would pass as well if it met nothing.
    met = {"apply: made", "apply: conflict", "apply: not declared", "apply: expected", "apply: duplicate entries"}
    assert met | {"update: made"} <= findings.counts.keys()
    assert findings.counts["apply: made"] > 2 * SEQUENCES
    assert findings.counts["apply: conflict"] > SEQUENCES // 3


def test_the_algebra_of_sets(oracle: Oracle) -> None:
    findings = fuzz_sets(oracle, 0, 1500)
    check(findings)
    assert findings.counts["sets"] == 1500
