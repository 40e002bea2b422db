# SPDX-License-Identifier: Apache-2.0
"""What the commands about jobs say when their cluster goes away."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from trainwright.controller.cli import state
from trainwright.controller.cli.local import local_jobs
from trainwright.controller.cli.main import main
from trainwright.controller.runtime.errors import ConnectionLost


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """A cluster that breaks each connection, and that has ended by then if the test says so."""

    def broken(folder: Path, namespace: str) -> local_jobs.LocalJobs:
        raise ConnectionLost("cannot connect to 127.0.0.1:1: Connection refused")

    def lose(ended: bool) -> None:
        monkeypatch.setattr(state, "running", lambda _: cast("state.ClusterRun", object()))
        monkeypatch.setattr(state, "has_ended", lambda _: ended)
        monkeypatch.setattr(local_jobs, "jobs_of", broken)

    return lose


@pytest.mark.parametrize(
    "arguments", [("logs", "job", "--follow"), ("wait", "job"), ("jobs",)], ids=lambda arguments: arguments[0]
)
def test_a_cluster_that_ends_under_a_command_is_said_in_a_sentence(
    lost: Callable[[bool], None], capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    lost(True)
    assert main(["local", *arguments, "--name=mine"]) == 1
    said = "error: cluster mine has ended, and its pods with it; start it with: trainwright local up --name=mine\n"
    assert capsys.readouterr().err == said


def test_a_cluster_that_runs_and_does_not_answer_is_said_with_the_request(
    lost: Callable[[bool], None], capsys: pytest.CaptureFixture[str]
) -> None:
    lost(False)
    assert main(["local", "jobs"]) == 1
    assert capsys.readouterr().err == "error: cannot connect to 127.0.0.1:1: Connection refused\n"
