# SPDX-License-Identifier: Apache-2.0
"""The samples of the dashboard's answers, which the tests of the page use, fit the contract exactly."""

import json
from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest

from trainwright.controller.dashboard import contract, curves
from trainwright.controller.views.comparison import JobComparison
from trainwright.controller.views.rendered import ObjectsView
from trainwright.plugins.contract import JobState

SAMPLES = Path(__file__).parent / "samples"
KINDS: dict[str, type[msgspec.Struct]] = {
    "comparison": JobComparison,
    "jobs": contract.JobList,
    "connection": contract.Connection,
    "problem": contract.PageProblem,
    "session": contract.PageSession,
    "actions": contract.Actions,
    "done": contract.ActionDone,
    "job": contract.Job,
    "series": curves.JobSeries,
    "objects": ObjectsView,
}


@pytest.mark.parametrize("file", sorted(SAMPLES.glob("*.json")), ids=lambda file: file.stem)
def test_every_sample_has_exactly_the_fields_of_its_struct(file: Path) -> None:
    given = json.loads(file.read_text())

    decoded = msgspec.convert(given, KINDS[file.stem.partition("_")[0]])

    assert msgspec.to_builtins(decoded) == given


def test_the_states_are_those_of_every_view_of_a_job() -> None:
    assert get_type_hints(contract.JobRow)["state"] is JobState


def test_the_samples_show_every_state() -> None:
    rows = msgspec.json.decode((SAMPLES / "jobs.json").read_bytes(), type=contract.JobList).jobs

    assert {row.state for row in rows} == set(JobState) - {JobState.STUCK, JobState.RESTARTING, JobState.PENDING}
    assert any(row.stalled for row in rows)
    assert any(row.waiting for row in rows)
