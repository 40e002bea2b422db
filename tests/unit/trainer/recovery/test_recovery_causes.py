# SPDX-License-Identifier: Apache-2.0
"""Why an attempt ended, from what its pods and the log of its culprit show."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest

from tests import builders
from tests.builders import ended
from trainwright.api.objects import Document
from trainwright.api.trainer.v1alpha1.recovery import Declaration
from trainwright.controller.trainer.failures.first import failures_by_attempt
from trainwright.controller.trainer.failures.record import Entry
from trainwright.controller.trainer.recovery.causes import (
    Attribution,
    FailureCause,
    Witness,
    attribute,
    fingerprint,
)

WANTED = Declaration(mode="gang", no_retry=(3,), free=(75,))
PEER = "RuntimeError: Connection closed by peer [10.0.0.7]:4711"


def pod(
    rank: int,
    *,
    code: int | None = None,
    reason: str = "Error",
    at: str = "10:00:00",
    message: str = "",
    deleted: str = "",
    node: str = "gpu-1",
    limited: bool = False,
    status: Mapping[str, Any] = MappingProxyType({}),
) -> Document:
    """A pod as the cache keeps it; with a code, its container has ended."""
    how = {"reason": reason, **({"message": message} if message else {})}
    over = [] if code is None else [{"name": "node", "state": ended(code, at=f"2026-11-25T{at}Z", **how)}]
    found = builders.pod(rank, jobset_uid="", nodeName=node, containers=over, meta=_deleted(deleted), status=status)
    found["spec"]["memoryLimited"] = ["node"] if limited else []
    return found


def _deleted(at: str) -> Document:
    return {"deletionTimestamp": f"2026-11-25T{at}Z", "deletionGracePeriodSeconds": 0} if at else {}


def disrupted(reason: str, at: str = "09:59:59") -> dict[str, Any]:
    when = f"2026-11-25T{at}Z"
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "lastTransitionTime": when}
    return {"conditions": [condition]}


KILLED = (
    "Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 0)\n  exitcode  : -9 (pid: 7)\n"
    "  traceback : Signal 9 (SIGKILL) received by PID 7"
)


def cause_of(*looks: list[Document], log: str = "", culprit: int = 0, **how: bool) -> Attribution:
    """The cause, if the pods are seen so one look after the other; `culprit`: which failure was recorded."""
    witness, entry = Witness(), None
    for pods in looks:
        witness.see(pods)
        found = failures_by_attempt(pods).get(0)
        if found and entry is None:
            entry = Entry.of(found[culprit], log)
    return attribute(entry, witness, WANTED, **how)


@pytest.mark.parametrize(
    ("pods", "log", "cause"),
    [
        pytest.param([pod(0), pod(1, code=1)], "ValueError: bad shape", "Code", id="exit code 1"),
        pytest.param([pod(1, code=127)], "", "Configuration", id="a program that the shell does not find"),
        pytest.param([pod(1, code=3)], "", "Configuration", id="a no-retry code"),
        pytest.param([pod(1, code=75)], "", "Infrastructure", id="a free code"),
        pytest.param(
            [pod(1, code=128, reason="StartError", message='exec: "x": executable file not found in $PATH')],
            "",
            "Configuration",
            id="a program that the image does not have",
        ),
        pytest.param(
            [pod(1, code=128, reason="StartError", message="error running hook #0: nvidia: driver error")],
            "",
            "Infrastructure",
            id="a hook of a device",
        ),
        pytest.param([pod(1, code=137, reason="OOMKilled", limited=True)], "", "Memory", id="out of its own memory"),
        pytest.param([pod(1, code=137, reason="OOMKilled")], "", "Infrastructure", id="out of the node's memory"),
        pytest.param([pod(1, code=1)], KILLED, "Code", id="torchrun whose worker was killed"),
        pytest.param(
            [pod(1, code=1, message="the kernel killed 1 process of this cluster for lack of memory meanwhile")],
            KILLED,
            "Memory",
            id="torchrun whose worker the kernel killed for memory",
        ),
        pytest.param([pod(1, code=1, reason="OOMKilled", limited=True)], KILLED, "Memory", id="as a kubelet says it"),
        pytest.param(
            [pod(1, code=1)],
            "RuntimeError: CUDA error: uncorrectable ECC error encountered",
            "Infrastructure",
            id="ECC",
        ),
        pytest.param([pod(1, code=1)], "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus", "Infrastructure"),
        pytest.param(
            [pod(0, code=1, at="10:00:20"), pod(1, status=disrupted("EvictionByEvictionAPI"))],
            PEER,
            "Infrastructure",
            id="an eviction, of which a peer has failed first",
        ),
        pytest.param(
            [pod(0, code=1, at="10:00:20"), pod(1, status=disrupted("PreemptionByScheduler"))], PEER, "Preempted"
        ),
        pytest.param(
            [pod(1, status={"phase": "Failed", "reason": "NodeShutdown"})],
            "",
            "Infrastructure",
            id="the node shuts down",
        ),
        pytest.param([pod(0), pod(1, deleted="10:00:00")], "", "Infrastructure", id="a pod deleted by hand"),
        pytest.param(
            [pod(0, code=1), pod(1, status=disrupted("EvictionByEvictionAPI", at="10:02:00"))],
            "ValueError: bad shape",
            "Code",
            id="an eviction long after",
        ),
    ],
)
def test_the_cause_by_what_is_shown(pods: list[Document], log: str, cause: str) -> None:
    """Scenarios 10, 11, 12, 20, 21."""
    assert cause_of(pods, log=log).cause == cause


def test_an_eviction_counts_also_if_it_is_seen_after_the_failure_of_a_peer() -> None:
    """Scenario 13: the peer has ended while the evicted pod has its grace."""
    peer = pod(0, code=1, at="10:00:20")
    first = cause_of([peer, pod(1)], log=PEER)
    assert (first.cause, first.is_certain) == (FailureCause.CODE, False)
    then = cause_of([peer, pod(1)], [peer, pod(1, status=disrupted("DeletionByTaintManager", at="10:01:10"))], log=PEER)
    assert then.cause is FailureCause.INFRASTRUCTURE


def test_a_lost_node_takes_the_charge_back() -> None:
    """Scenario 18: the node is NotReady 50 s after the peers have failed."""
    witness = Witness()
    pods = [pod(0, code=1), pod(1, node="gpu-2")]
    witness.see(pods)
    entry = Entry.of(failures_by_attempt(pods)[0][0], PEER)
    assert not attribute(entry, witness, WANTED).is_certain
    witness.lost("gpu-2", datetime(2026, 11, 25, 10, 0, 50, tzinfo=UTC))
    found = attribute(entry, witness, WANTED)
    assert (found.cause, found.text) == (FailureCause.INFRASTRUCTURE, "node gpu-2: NodeLost")
    late = Witness()
    late.lost("gpu-2", datetime(2026, 11, 25, 10, 1, 50, tzinfo=UTC))
    assert attribute(entry, late, WANTED).cause is FailureCause.CODE


def test_pods_that_are_deleted_because_a_rank_failed_are_no_reason() -> None:
    """The Job deletes the others at once, and both may be seen in one look."""
    ended = [pod(0, code=1), pod(1, deleted="10:00:00")]
    assert cause_of(ended, log="ValueError: bad shape").cause is FailureCause.CODE
    assert cause_of([pod(0), pod(1)], ended, log="ValueError: bad shape").cause is FailureCause.CODE
    # The next look shows the deletion alone.
    assert cause_of([pod(0, code=1), pod(1)], [pod(1, deleted="10:00:01")], log="ValueError").cause is FailureCause.CODE


def test_a_deleted_pod_is_the_reason_for_its_peers_end() -> None:
    """Scenario 15, with the peers' words: they lost the deleted one."""
    gone = pod(1, deleted="10:00:00")
    found = cause_of([pod(0), gone], [pod(0, code=1, at="10:00:01"), gone], log=PEER)
    assert (found.cause, found.text) == (FailureCause.INFRASTRUCTURE, "rank 1 was deleted")


def test_a_suspension_is_ours() -> None:
    stopped = [pod(0, deleted="10:00:00"), pod(1, deleted="10:00:00")]
    assert cause_of(stopped, suspended=True).cause is FailureCause.SUSPENDED


def test_the_text_names_rank_code_and_words() -> None:
    """Text T1 without its first half."""
    found = cause_of([pod(1, code=1)], log="loading\nValueError: bad shape\n")
    assert found.text == "rank 1 failed with exit code 1; its log ends with: ValueError: bad shape"
    assert found.is_certain


def test_a_launcher_that_ends_since_its_node_was_evicted_is_not_to_blame() -> None:
    """Scenario 53: any pod of a JobSet may be the reason, and the launcher of MPI ends before its node has."""
    launcher = pod(0, code=1)
    launcher["metadata"]["name"] = "j-launcher-0-0"
    launcher["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] = "launcher"
    found = cause_of([pod(0, status=disrupted("EvictionByEvictionAPI")), launcher], log="mpirun: a daemon died")
    assert (found.cause, found.charged, found.text) == (
        FailureCause.INFRASTRUCTURE,
        "infrastructure",
        "rank 0: EvictionByEvictionAPI",
    )


def test_the_same_culprit_in_any_order_of_pods() -> None:
    """Scenario 24: all end in one second."""
    pods = [pod(rank, code=137 if rank == 2 else 1) for rank in range(5)]
    chance, seen = random.Random(7), set()
    for _ in range(50):
        chance.shuffle(pods)
        seen.add(failures_by_attempt(pods)[0][0].pod)
    assert len(seen) == 1


def fingerprint_of(log: str, code: int = 1) -> str:
    return fingerprint(Entry.of(failures_by_attempt([pod(1, code=code)])[0][0], log))


def test_failures_are_alike_but_for_their_numbers() -> None:
    assert fingerprint_of("KeyError: 17 at 0x7f00") == fingerprint_of("KeyError: 4 at 0x7fa1") != ""
    assert fingerprint_of("KeyError: 17", code=2) != fingerprint_of("KeyError: 17")
    # These do not say what was wrong.
    assert [fingerprint_of(PEER), fingerprint_of("step 12", code=137), fingerprint_of("")] == ["", "", ""]


def test_pods_that_are_deleted_to_hold_an_attempt_back_are_no_reason() -> None:
    """A pod of the next attempt may exist when that is held back; it is deleted, and may be seen for long."""
    gone = pod(1, deleted="10:00:00")
    witness = Witness()
    witness.see([gone], is_ours=True)
    witness.see([gone])
    witness.see([pod(0, code=1, at="10:05:00")])
    entry = Entry.of(failures_by_attempt([pod(0, code=1, at="10:05:00")])[0][0], "ValueError: bad shape")
    assert attribute(entry, witness, WANTED).cause is FailureCause.CODE
