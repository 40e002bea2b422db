# SPDX-License-Identifier: Apache-2.0
"""What the tests of the writer share."""

from pathlib import Path

import pytest

from tests.unit.progress.reporters import configure
from trainwright import progress
from trainwright.controller.runtime.testing.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock[float]:
    return ManualClock(1000.0)


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the environment names as the only place for reports."""
    monkeypatch.setattr(progress, "DEFAULT_FILE", str(tmp_path / "absent" / "progress.json"))
    path = tmp_path / "progress.json"
    configure(monkeypatch, TRAINWRIGHT_PROGRESS_FILE=path)
    return path
