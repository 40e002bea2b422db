# SPDX-License-Identifier: Apache-2.0
"""What is recorded is compared twice: `make test` replays it on the local server, `make parity` on the real one."""

import re

import pytest

from tests.integration.local.test_recorded_cases import CASES
from tests.repository import ROOT

INTEGRATION = "tests/integration/local"
PAIRS: list[tuple[str, str]] = [
    (f"{INTEGRATION}/test_recorded_cases.py", "tests/e2e/test_conformance.py"),
    (f"{INTEGRATION}/test_local_scenarios.py", f"{INTEGRATION}/test_local_recordings.py"),
    (f"{INTEGRATION}/controllers/test_on_our_server.py", f"{INTEGRATION}/controllers/test_same_as_the_real_ones.py"),
]
PARITY = re.compile(r"^(?:pytestmark = |@)pytest\.mark\.parity$", re.MULTILINE)
REAL = re.compile(r"\bControlPlane\(|\breal_side\b|\bwith_real_ones\b|scenarios\.record\b")


@pytest.mark.parametrize(("here", "there"), PAIRS, ids=[here for here, _ in PAIRS])
def test_recordings_are_replayed_on_both(here: str, there: str) -> None:
    local, real = (ROOT / here).read_text(), (ROOT / there).read_text()
    assert not PARITY.search(local)
    assert not REAL.search(local.replace("LocalControlPlane(", ""))
    assert PARITY.search(real)
    assert REAL.search(real.replace("LocalControlPlane(", ""))


def test_all_recorded_cases_are_replayed() -> None:
    """Both replays take the whole folder; the local one has a test for each case without feature gates."""
    files = list((ROOT / "tests" / "conformance" / "cases").glob("*/case.yaml"))
    assert len(files) > 220
    assert len(CASES) == sum("featureGates" not in file.read_text() for file in files)
    text = (ROOT / PAIRS[0][1]).read_text()
    assert "replay.py" in text
    assert "--only" not in text
    assert "--cases" not in text
