# SPDX-License-Identifier: Apache-2.0
"""Which ranks have ended while others of their kind run on, and when that is told."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests import builders
from tests.builders import running
from trainwright.api.objects import Document
from trainwright.controller.trainer.job.pods import trimmed
from trainwright.controller.trainer.job.stall import ended_ranks, ended_ranks_message

NOW = datetime(2026, 11, 25, 14, 0, tzinfo=UTC)


def pod(rank: int, *, ended: float | None = None, code: int = 0, container: str = "node", **more: Any) -> Document:
    """A pod; `ended`: so many seconds before now."""
    state = running() if ended is None else builders.ended(code, at=NOW - timedelta(seconds=ended))
    name = f"j-{more.get('role', 'node')}-{more.get('replica', 0)}-{rank}-{more.get('attempt', 0)}"
    return builders.pod(rank, containers=[{"name": container, "state": state}], **{"name": name, **more})


def told(*pods: dict[str, Any], after: float = 600) -> str:
    found = ended_ranks_message(ended_ranks(pods), after, NOW)[0]
    # The cache of a manager keeps less of a pod, and must say the same.
    assert ended_ranks_message(ended_ranks(map(trimmed, pods)), after, NOW)[0] == found
    return found


def test_a_rank_that_ended_is_named_with_code_and_time() -> None:
    assert told(pod(0), pod(1, ended=700), pod(2)) == (
        "rank 1 ended with exit code 0 at 2026-11-25T13:48:20Z, and 2 others run on; "
        "look at their logs, they may wait for it"
    )
    assert told(pod(0), pod(1, ended=700, code=3)).startswith("rank 1 ended with exit code 3 at ")
    assert "and 1 other runs on;" in told(pod(0), pod(1, ended=700))


def test_the_first_one_is_told_and_the_others_are_counted() -> None:
    found = told(pod(0, ended=650), pod(1, ended=700), pod(2, ended=10), pod(3))
    assert found.startswith("rank 1 ended with exit code 0 at 2026-11-25T13:48:20Z, and 1 other runs on (1 more ended")


def test_time_until_the_next_look() -> None:
    ended = ended_ranks([pod(0), pod(1, ended=500), pod(2, ended=590)])
    assert ended_ranks_message(ended, 600, NOW) == ("", 10.0)
    assert ended_ranks_message(ended_ranks([pod(0), pod(1)]), 600, NOW) == ("", None)


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param((pod(0), pod(1)), id="all run"),
        pytest.param((pod(0), pod(1, ended=599)), id="not for so long"),
        pytest.param((pod(0, ended=700), pod(1, ended=700)), id="all have ended"),
        pytest.param((pod(0), pod(0, role="dataset-initializer", ended=5000)), id="an initializer ends first"),
        pytest.param((pod(0, role="launcher", ended=700), pod(0), pod(1)), id="another step"),
        pytest.param((pod(0, attempt=1), pod(1, ended=900), pod(1, attempt=1)), id="an earlier attempt"),
        pytest.param((pod(0), pod(1, ended=700, code=1, name="a"), pod(1, name="b")), id="another pod took its place"),
        pytest.param(
            (pod(0), pod(1, ended=700, code=1, name="a"), pod(1, name="b", phase="Pending")), id="another pod comes"
        ),
        pytest.param((pod(0, deleted="2026-11-25T13:59:00Z"), pod(1, ended=700)), id="the others end"),
        pytest.param((pod(0, phase="Pending"), pod(1, ended=700)), id="the others have not begun"),
        pytest.param((pod(0), pod(1, ended=700, code=1, phase="Running")), id="its container starts again"),
        pytest.param((pod(0), pod(1, ended=700, phase="Running", container="logs")), id="a container beside it"),
    ],
)
def test_no_alarm(pods: tuple[dict[str, Any], ...]) -> None:
    assert told(*pods) == ""


def test_a_container_that_trains_counts_though_others_of_its_pod_run() -> None:
    assert told(pod(0), pod(1, ended=700, phase="Running")).startswith("rank 1 ended with exit code 0")


def test_replicas_are_told_apart() -> None:
    assert told(pod(0), pod(0, replica=1, ended=700)).startswith("node 1, rank 0 ended")
    assert told(pod(0, role="worker"), pod(1, role="worker", ended=700)).startswith("worker, rank 1 ended")
