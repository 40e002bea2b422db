# SPDX-License-Identifier: Apache-2.0
"""The samples of the dashboard's answers, which the tests of the page use, fit the contract exactly."""

import json
from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest

from trainwright.controller.dashboard import contract, curves
from trainwright.controller.views.comparison import JobComparison
from trainwright.plugins.contract import JobState

SAMPLES = Path(__file__).parent / "samples"
KINDS: dict[str, type[contract.PageAnswer | JobComparison]] = {
    "comparison": JobComparison,
    "jobs": contract.JobList,
    "rows": contract.Rows,
    "connection": contract.Connection,
    "heartbeat": contract.Heartbeat,
    "gone": contract.JobGone,
    "problem": contract.PageProblem,
    "session": contract.PageSession,
    "actions": contract.Actions,
    "done": contract.ActionDone,
    "lines": contract.Lines,
    "found": contract.Found,
    "job": contract.Job,
    "series": curves.JobSeries,
    "points": curves.Points,
    "objects": contract.ObjectsView,
}
EVENTS: dict[str, type[contract.PageAnswer]] = {
    "snapshot": contract.JobList,
    "rows": contract.Rows,
    "connection": contract.Connection,
    "heartbeat": contract.Heartbeat,
    "bye": contract.Heartbeat,
    "job": contract.Job,
    "points": curves.Points,
    "gone": contract.JobGone,
}


@pytest.mark.parametrize("file", sorted(SAMPLES.glob("*.json")), ids=lambda file: file.stem)
def test_every_sample_has_exactly_the_fields_of_its_struct(file: Path) -> None:
    given = json.loads(file.read_text())

    decoded = msgspec.convert(given, KINDS[file.stem.partition("_")[0]])

    assert msgspec.to_builtins(decoded) == given


def test_every_kind_of_answer_has_a_sample() -> None:
    assert {file.stem.partition("_")[0] for file in SAMPLES.glob("*.json")} == KINDS.keys()


@pytest.mark.parametrize("name", ["jobs_stream", "job_stream"])
def test_the_streams_hold_events_of_the_contract(name: str) -> None:
    blocks = (SAMPLES / f"{name}.txt").read_text().strip().split("\n\n")[1:]
    assert blocks
    for block in blocks:
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        msgspec.json.decode(fields["data"], type=EVENTS[fields["event"]])


def test_the_states_are_those_of_every_view_of_a_job() -> None:
    assert get_type_hints(contract.JobRow)["state"] is JobState


def test_the_samples_show_every_state() -> None:
    rows = msgspec.json.decode((SAMPLES / "jobs.json").read_bytes(), type=contract.JobList).jobs

    assert {row.state for row in rows} == set(JobState) - {JobState.STUCK, JobState.RESTARTING, JobState.PENDING}
    assert any(row.stalled for row in rows)
    assert any(row.waiting for row in rows)
