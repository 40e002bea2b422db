# SPDX-License-Identifier: Apache-2.0
"""Which container of a job failed first, and which logs are read, from what its pods say."""

import json
from typing import Any

import pytest

from tests import builders
from tests.unit.trainer.test_last_words import CASES
from trainwright.api.objects import Document
from trainwright.controller.cli.local.pods import failed_runs, first_failure, is_starting, runs_with_logs
from trainwright.controller.trainer.failures.first import written_failures


def ended(code: int, run: int = 0, at: str = "2026-11-25T04:30:00Z", **more: str) -> Document:
    return {"exitCode": code, "reason": "Error", "finishedAt": at, "containerID": f"local://u/node/{run}", **more}


def pod(index: int, *, written: list[dict[str, Any]] | None = None, restarts: int = 0, **states: Any) -> Document:
    return builders.pod(
        index,
        job="job",
        uid=str(index),
        annotations={} if written is None else {"node.trainwright.dev/failures": json.dumps(written)},
        containers=[{"name": "node", "restartCount": restarts, **states}],
    )


def failed(index: int, code: int, at: str, **more: Any) -> Document:
    entry = {"container": "node", "run": 0, "exitCode": code, "at": f"2026-11-25T04:30:{at}Z", **more}
    return pod(index, written=[entry], state={"terminated": ended(code)})


def test_the_node_knows_the_order_within_a_second() -> None:
    found = first_failure([failed(0, 10, "00.020000"), failed(1, 11, "00.019999"), failed(2, 12, "00.900000")])
    assert found is not None
    assert found.code == 11
    assert found.message.endswith("failed with exit code 11 (Error)")


def test_a_container_that_was_stopped_is_no_cause() -> None:
    victim, cause = failed(0, 143, "00.000001", stopped=True), failed(1, 3, "00.000002")
    assert (found := first_failure([victim, cause])) is not None
    assert found.code == 3
    assert (found := first_failure([victim])) is not None
    assert found.code == 143


def test_the_first_failure_is_known_after_later_runs() -> None:
    written = [
        {"container": "node", "run": 0, "exitCode": 4, "at": "2026-11-25T04:30:00.100000Z"},
        {"container": "node", "run": 1, "exitCode": 5, "at": "2026-11-25T04:30:01.100000Z"},
    ]
    again = pod(0, written=written, restarts=2, state={"running": {}}, lastState={"terminated": ended(5, 1)})
    assert (found := first_failure([failed(1, 6, "00.500000"), again])) is not None
    assert found.code == 4
    assert failed_runs(again) == [("node", 0), ("node", 1)]


def test_without_what_the_node_wrote_the_status_counts() -> None:
    pods = [
        pod(0, state={"terminated": ended(10, at="2026-11-25T04:30:02Z")}),
        pod(1, state={"running": {}}, restarts=1, lastState={"terminated": ended(11, at="2026-11-25T04:30:01Z")}),
        pod(2, state={"terminated": ended(0, at="2026-11-25T04:30:00Z")}),
    ]
    assert (found := first_failure(pods)) is not None
    assert found.code == 11
    assert first_failure([pods[2]]) is None


def test_a_program_that_does_not_exist_is_named() -> None:
    lost = pod(0, state={"terminated": ended(128) | {"reason": "StartError", "message": "no such file"}})
    assert (found := first_failure([lost])) is not None
    assert found.message.endswith("failed with exit code 128 (StartError): no such file")


@pytest.mark.parametrize("text", ["{}x", "[1]", '[{"container": "node"}]', '{"a": 1}', "null"])
def test_what_was_changed_by_hand_is_not_read(text: str) -> None:
    changed = pod(0, state={"terminated": ended(3)})
    changed["metadata"]["annotations"] = {"node.trainwright.dev/failures": text}
    assert written_failures(changed) == []
    assert (found := first_failure([changed])) is not None
    assert found.code == 3


@pytest.mark.parametrize(
    ("states", "restarts", "runs"),
    [
        ({"state": {"waiting": {"reason": "ContainerCreating"}}}, 0, []),
        ({"state": {"running": {}}}, 0, [0]),
        ({"state": {"terminated": ended(1)}}, 0, [0]),
        ({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended(1, 0)}}, 0, [0]),
        ({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended(1, 1)}}, 1, [1]),
        ({"state": {"running": {}}, "lastState": {"terminated": ended(1, 2)}}, 3, [2, 3]),
        ({"state": {"terminated": ended(1, 3)}, "lastState": {"terminated": ended(1, 2)}}, 3, [2, 3]),
        ({"state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1}}}, 3, [2, 3]),
        ({"state": {"terminated": {"exitCode": 1}}}, 3, [3]),
    ],
)
def test_the_runs_whose_logs_can_be_read(states: dict[str, Any], restarts: int, runs: list[int]) -> None:
    assert runs_with_logs(pod(0, restarts=restarts, **states)) == [("node", run) for run in runs]


def test_a_pod_that_has_not_said_that_it_runs_is_waited_for() -> None:
    waiting = pod(0, state={"waiting": {"reason": "ContainerCreating"}})
    assert is_starting(waiting)
    assert not is_starting(pod(0, state={"waiting": {"reason": "CreateContainerError"}}))
    waiting["status"]["phase"] = "Running"
    assert not is_starting(waiting)
    waiting["status"], waiting["spec"] = {}, {}
    assert not is_starting(waiting)


def test_a_rank_that_lost_its_peer_is_a_victim_although_it_ended_first() -> None:
    """A program closes its connections before it ends."""
    words = {
        ("0", "node", 0): ["Traceback (most recent call last):", "ConnectionResetError: [Errno 104] reset by peer"],
        ("1", "node", 0): ["Traceback (most recent call last):", "ValueError: out of data"],
    }
    victim, cause = failed(0, 1, "00.000001"), failed(1, 3, "00.002000")
    assert (found := first_failure([victim, cause], words)) is not None
    assert found.code == 3
    # What ends much later is no reason, and without another failure a lost peer is one.
    late = pod(1, written=[{"container": "node", "run": 0, "exitCode": 3, "at": "2026-11-25T04:32:00.000000Z"}])
    assert (found := first_failure([victim, late], words)) is not None
    assert found.code == 1
    assert (found := first_failure([victim, failed(1, 143, "00.002000", stopped=True)], words)) is not None
    assert found.code == 1
    # torchrun may end late, and its summary says when its process did.
    summary: str = CASES["when_the_process_of_torchrun_ended"][0][0]
    killed = summary.replace("2026-01-15_05:44:28", "2026-11-25_04:30:00").split("\n")
    for launcher in (late, failed(1, 3, "00.002000", stopped=True)):
        assert (found := first_failure([victim, launcher], {**words, ("1", "node", 0): killed})) is not None
        assert found.message == "rank 1 failed with exit code 3 (Error): torchrun: rank 1, exit code -9, signal 9"


@pytest.mark.parametrize(
    ("code", "reason", "message", "text"),
    [
        (137, "Error", "", "rank 0 failed with exit code 137 (SIGKILL)"),
        (139, "Error", "quoted elsewhere", "rank 0 failed with exit code 139 (SIGSEGV)"),
        (
            137,
            "OOMKilled",
            "the kernel killed it for lack of memory",
            "rank 0 failed with exit code 137 (OOMKilled), SIGKILL: the kernel killed it for lack of memory",
        ),
        (255, "Error", "", "rank 0 failed with exit code 255 (Error)"),
    ],
)
def test_the_signal_is_named(code: int, reason: str, message: str, text: str) -> None:
    one = failed(0, code, "00.000001")
    one["status"]["containerStatuses"][0]["state"]["terminated"] |= {"reason": reason, "message": message}
    assert (found := first_failure([one])) is not None
    assert found.message == text
