# SPDX-License-Identifier: Apache-2.0
"""The status of a pod from the state of its containers: phases, conditions and container statuses."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cases import cases
from tests.unit.local.node.pods import Document, container, pod
from trainwright.controller.local.node.document import should_restart
from trainwright.controller.local.node.node import STOPPED
from trainwright.controller.local.node.status import (
    ContainerState,
    PhaseVerdict,
    PodState,
    Running,
    State,
    Terminated,
    Waiting,
    differs,
    status_document,
)

CASES = cases(__file__)

NOW = datetime(2026, 11, 22, 10, 0, 0, tzinfo=UTC)
TEXT = "2026-11-22T10:00:00Z"
CREATING, CRASHED = Waiting("ContainerCreating"), Waiting("CrashLoopBackOff", "back-off 10s")
RUNNING = Running(NOW)


def ended(code: int, reason: str = "") -> Terminated:
    return Terminated(
        exit_code=code, reason=reason or ("Error" if code else "Completed"), started_at=NOW, finished_at=NOW
    )


def state(
    *main: State | tuple[State, Terminated], init: tuple[State, ...] = (), over: bool = False, **more: Any
) -> PodState:
    return PodState(
        {f"i{index}": _container(one) for index, one in enumerate(init)},
        {f"m{index}": _container(one) for index, one in enumerate(main)},
        NOW,
        over=over,
        **more,
    )


def _container(one: State | tuple[State, Terminated]) -> ContainerState:
    return ContainerState(*one) if isinstance(one, tuple) else ContainerState(one)


def document(policy: str, mains: int, *init: str, **status: Any) -> Document:
    """A pod with so many containers; `init` names the restart policy of each init container."""
    made = pod(
        *(container(f"m{index}") for index in range(mains)),
        restartPolicy=policy,
        initContainers=[
            container(f"i{index}", **({"restartPolicy": one} if one else {})) for index, one in enumerate(init)
        ],
    )
    return made | {"status": status}


@pytest.mark.parametrize(
    ("policy", "init", "found", "wanted"),
    [
        ("Never", (), state(CREATING), "Pending"),
        ("Never", (), state(RUNNING), "Running"),
        ("Never", (), state(RUNNING, CREATING), "Pending"),
        ("Never", (), state(ended(0), over=True), "Succeeded"),
        ("Never", (), state(ended(0), ended(1), over=True), "Failed"),
        ("Never", (), state(ended(1), RUNNING), "Running"),
        # Nothing is reported as over before it is.
        ("Never", (), state(ended(0)), "Running"),
        ("Never", (), state(ended(1)), "Running"),
        ("OnFailure", (), state(ended(1)), "Running"),
        ("OnFailure", (), state((CRASHED, ended(1))), "Running"),
        ("OnFailure", (), state(ended(0), over=True), "Succeeded"),
        ("Always", (), state(ended(0)), "Running"),
        # Stopped before its restart: a deletion.
        ("Always", (), state(ended(0), over=True), "Succeeded"),
        ("OnFailure", (), state(ended(143), over=True), "Failed"),
        # Init containers.
        ("Never", ("",), state(CREATING, init=(RUNNING,)), "Pending"),
        ("Never", ("",), state(CREATING, init=(ended(0),)), "Pending"),
        ("Never", ("",), state(RUNNING, init=(ended(0),)), "Running"),
        ("Never", ("",), state(CREATING, init=(ended(1),), over=True), "Failed"),
        ("Never", ("",), state(CREATING, init=(ended(1),)), "Pending"),
        ("OnFailure", ("",), state(CREATING, init=(ended(1),)), "Pending"),
        # Sidecars.
        ("Never", ("Always",), state(CREATING, init=(RUNNING,)), "Pending"),
        ("Never", ("Always",), state(ended(0), init=(RUNNING,)), "Running"),
        ("Never", ("Always",), state(ended(0), init=(ended(1),), over=True), "Succeeded"),
    ],
)
def test_phases(policy: str, init: tuple[str, ...], found: PodState, wanted: str) -> None:
    one = document(policy, len(found.main), *init)
    assert status_document(one, found, NOW)["phase"] == wanted


def test_a_terminal_phase_is_never_left() -> None:
    one = document("Always", 1, phase="Failed", reason="Evicted")
    assert status_document(one, state(RUNNING), NOW)["phase"] == "Failed"


def test_a_verdict_is_reported_when_everything_has_ended() -> None:
    one, verdict = document("Always", 1), PhaseVerdict("Failed", "DeadlineExceeded", "too long")
    running = status_document(one, state(RUNNING, verdict=verdict), NOW)
    assert (running["phase"], running.get("reason")) == ("Running", None)
    over = status_document(one, state(ended(143), over=True, verdict=verdict), NOW)
    assert (over["phase"], over["reason"], over["message"]) == ("Failed", "DeadlineExceeded", "too long")


def test_a_condition_keeps_its_time_until_it_changes() -> None:
    old = "2026-01-01T00:00:00Z"
    stored = [{"type": kind, "status": "True", "lastTransitionTime": old} for kind in ("Ready", "Initialized")]
    found = status_document(document("Never", 1, conditions=stored), state(CREATING), NOW)["conditions"]
    times = {one["type"]: one["lastTransitionTime"] for one in found}
    assert (times["Initialized"], times["Ready"]) == (old, TEXT)


def test_a_sidecar_that_is_not_ready_holds_a_pod_back() -> None:
    found = state(RUNNING, init=(RUNNING,))
    found.init["i0"].ready = False
    seen = {each["type"]: each for each in status_document(document("Never", 1, "Always"), found, NOW)["conditions"]}
    assert seen["ContainersReady"]["message"] == "containers with unready status: [i0]"
    found = state(CREATING, init=(RUNNING,))
    found.init["i0"].started = False
    seen = {each["type"]: each for each in status_document(document("Never", 1, "Always"), found, NOW)["conditions"]}
    assert seen["Initialized"]["message"] == "containers with incomplete status: [i0]"
    # Once a container has run, it stays initialized.
    found = state(RUNNING, init=(ended(1),))
    seen = {each["type"]: each for each in status_document(document("Never", 1, "Always"), found, NOW)["conditions"]}
    assert seen["Initialized"]["status"] == "True"


def test_the_shutdown_of_the_node_is_a_disruption() -> None:
    """As a kubelet's, so that a `podFailurePolicy` can ignore it."""
    found = state(ended(143))
    found.verdict, found.over = STOPPED, True
    seen = status_document(document("Never", 1), found, NOW)
    assert (seen["phase"], seen["reason"]) == ("Failed", "Terminated")
    (condition,) = [one for one in seen["conditions"] if one["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"]) == ("True", "TerminationByKubelet")
    assert condition["message"] == "Pod was terminated in response to imminent node shutdown."
    # It had ended before: the phase that the server has stays.
    before = document("Never", 1) | {"status": {"phase": "Succeeded"}}
    seen = status_document(before, found, NOW)
    assert seen["phase"] == "Succeeded"
    assert not [one for one in seen["conditions"] if one["type"] == "DisruptionTarget"]


def test_only_differences_are_written() -> None:
    one, found = document("Never", 1), state(RUNNING)
    document_ = status_document(one, found, NOW)
    assert differs(one, document_)
    foreign = {"type": "DisruptionTarget", "status": "True"}
    kept = {key: value for key, value in document_.items() if key != "conditions"}
    conditions = [{key: value for key, value in each.items() if value is not None} for each in document_["conditions"]]
    stored = one | {"status": kept | {"conditions": [*conditions, foreign], "qosClass": "BestEffort"}}
    assert not differs(stored, status_document(stored, found, NOW))
    assert differs(stored, status_document(stored, state(ended(0)), NOW))


@pytest.mark.parametrize(("policy", "more", "code", "wanted"), CASES["restarts"])
def test_restarts(policy: str, more: dict[str, Any], code: int, wanted: bool) -> None:
    one = container(**more)
    assert should_restart(pod(one, restartPolicy=policy), one, code) is wanted


@pytest.mark.parametrize(("policy", "own", "code", "wanted"), CASES["restarts_of_init_containers"])
def test_restarts_of_init_containers(policy: str, own: str | None, code: int, wanted: bool) -> None:
    one = container("init", **({"restartPolicy": own} if own else {}))
    assert should_restart(pod(initContainers=[one], restartPolicy=policy), one, code) is wanted


def test_a_container_that_waits_in_vain_shows_its_last_two_runs() -> None:
    one = ContainerState(CREATING)
    for code in (1, 2):
        one.begin(NOW, f"local://{code}")
        one.end(ended(code))
        one.wait("CrashLoopBackOff")
    assert one.last == ended(2)
    one.settle()
    assert (one.state, one.last) == (ended(2), ended(1))
