# SPDX-License-Identifier: Apache-2.0
"""Random TrainJobs and runtimes on an API server that asks our webhooks, and JobSet's; thousands are in `make soak`."""

import asyncio

import pytest

from tests.integration.trainer.fuzz import CRDS, fuzz
from tests.managers import start_manager
from trainwright.controller.runtime.testing import ControlPlane

pytestmark = pytest.mark.real_control_plane("JobSet's manager")

PAIRS = 200
SEED = 20261121


def test_whatever_is_written_is_refused_or_runs_or_says_why_not() -> None:
    with ControlPlane(crds=CRDS, jobset=True) as plane:
        start_manager(plane, webhooks=True)
        findings = asyncio.run(fuzz(plane, SEED, PAIRS))
    assert findings.wrong == []
    assert findings.counts["runs"] > PAIRS / 4, findings.counts
    assert findings.counts["refused by the schema"] > 0, findings.counts
    assert findings.counts["refused by a webhook"] > 0, findings.counts
