# SPDX-License-Identifier: Apache-2.0
"""What the log says of a job that was blocked, and what the notes of events hold."""

import logging
from unittest.mock import MagicMock

import pytest

from trainwright.controller.runtime import NO_SERVERS, Key, Manager
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.testing.scripted import ScriptedTransport
from trainwright.controller.trainer.job.events import EVENT_POD_FAILED, JobEvents
from trainwright.controller.trainer.job.obstacles import Defects
from trainwright.controller.trainer.job.records import Transition
from trainwright.controller.trainer.job.status import StateReason
from trainwright.plugins.contract import JobState
from trainwright.plugins.testing import train_job

PENDING, BLOCKED = StateReason(JobState.PENDING), StateReason(JobState.BLOCKED, "ApplyRefused")
OTHER = StateReason(JobState.BLOCKED, "BuildFailed")


@pytest.mark.parametrize(
    ("before", "after", "leads", "logged"),
    [
        pytest.param(BLOCKED, PENDING, True, ["n/j: no longer blocked, now Pending"], id="goes-on"),
        pytest.param(BLOCKED, PENDING, False, [], id="another-replica-leads"),
        pytest.param(BLOCKED, OTHER, True, [], id="another-reason"),
        pytest.param(None, BLOCKED, True, [], id="seen-first"),
        pytest.param(BLOCKED, None, True, [], id="deleted"),
        pytest.param(PENDING, BLOCKED, True, [], id="blocked"),
        pytest.param(BLOCKED, StateReason(JobState.DELETING), True, [], id="to-be-deleted"),
    ],
)
async def test_the_log_says_that_a_blocked_job_goes_on(
    before: StateReason | None,
    after: StateReason | None,
    leads: bool,
    logged: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager = Manager(ClusterConfig(server="http://script"), transport=ScriptedTransport(), servers=NO_SERVERS)
    events = JobEvents(manager, Defects(manager.metrics.registry), lambda: leads)
    with caplog.at_level(logging.INFO, logger="trainwright.controller.trainer.job.events"):
        events(Transition(key=Key("n", "j"), job=train_job(), before=before, after=after))
    assert [record.getMessage() for record in caplog.records] == logged
    await manager.client.close()


def test_a_note_holds_nothing_that_acts_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = MagicMock()
    monkeypatch.setattr("trainwright.controller.trainer.job.events.EventRecorder", lambda *_, **__: recorder)
    events = JobEvents(MagicMock(), MagicMock())
    events.warn(train_job(), EVENT_POD_FAILED, "it says: \x1b[31mno\x1b[0m\n\x00data\x9b2J")
    (call,) = recorder.event.call_args_list
    assert "it says: no data" in call.args
