# SPDX-License-Identifier: Apache-2.0
"""What the manager does when: the timelines of tests/timelines, each a test."""

from pathlib import Path

import pytest

from tests.lined import CaseError
from tests.timelines.format import FOLDER, Case, cases_of
from tests.timelines.running import Timeline
from tests.virtual_trainer import VirtualTrainer

CASES = [(path.stem, case) for path in sorted(FOLDER.glob("*.yaml")) for case in cases_of(path)]


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{subject}: {case.name}") for subject, case in CASES])
def test_timeline(case: Case, trainer: VirtualTrainer) -> None:
    Timeline(trainer, case).live()


def test_a_mistake_in_a_timeline_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("cases:\n- name: a job runs\n  steps:\n  - at: 1\n    do: {jump: 3}\n")
    with pytest.raises(CaseError, match=r"^wrong.yaml:5: Additional properties .*'jump' was unexpected"):
        cases_of(file)
