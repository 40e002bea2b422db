# SPDX-License-Identifier: Apache-2.0
"""What the tests of the writer share."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.progress.reporters import StillReporter, configure
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


@pytest.fixture
def make(clock: ManualClock[float], target: Path) -> Iterator[Callable[..., StillReporter]]:
    made: list[StillReporter] = []

    def reporter(**settings: Any) -> StillReporter:
        made.append(StillReporter(clock, **settings))
        return made[-1]

    yield reporter
    for one in reversed(made):  # each has put its handler of SIGTERM before the one of the one before
        one.drop()
