# SPDX-License-Identifier: Apache-2.0
"""Which nodes a job avoids, and when it stays on one that fails."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.builders import jobset as made_jobset
from tests.unit.trainer.recovery.test_attempts import START, Life
from tests.unit.trainer.recovery.test_recovery_causes import disrupted, pod
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Node
from trainwright.api.trainer.v1alpha1.recovery import Declaration
from trainwright.controller.trainer.recovery.attempts import leave_node
from trainwright.controller.trainer.recovery.nodes import MOST_AVOIDED, still_avoided, why_not
from trainwright.plugins.testing import replicated_job

AVOIDS = Declaration(mode="gang", retries=9, avoids_nodes=True)
XID = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


def node(name: str, *, ready: bool = True, **labels: str) -> Node:
    conditions = [{"type": "Ready", "status": str(ready)}]
    return msgspec.convert({"metadata": {"name": name, "labels": labels}, "status": {"conditions": conditions}}, Node)


NODES = [node(f"gpu-{number}") for number in range(30)]


def jobset(pods: int = 2, **pod_template: Any) -> JobSet:
    node = replicated_job(parallelism=pods)
    node["template"]["spec"]["template"] |= pod_template
    return made_jobset(node)


class Spread(Life):
    """A job whose ranks run on nodes of their own, in a cluster of many."""

    def __init__(self) -> None:
        super().__init__(AVOIDS)
        self.avoided: list[str] = []

    def fail(self, culprit: str, words: str, **how: Any) -> None:
        """Rank 1 fails, on this node; the rules restart all ranks, or make a new JobSet."""
        attempt = self.known.summary.judged
        self.logs[attempt] = words
        self.run(pod(0, node="gpu-9"), pod(1, node=culprit))
        self.run(pod(0, node="gpu-9"), pod(1, node=culprit, code=1, at=f"{self.now:%H:%M:%S}", **how))
        step = self.restart()
        if step.suspect[0]:
            leave_node(self.known, self.glance, step, NODES)
            self.known.summary = step.summary
            self.avoided.append(step.avoided)
        self.now += timedelta(minutes=10)
        if self.known.summary.replace == self.uid:
            self.follow(self.known.summary.judged)


def test_the_second_first_failure_of_one_node_makes_a_job_leave_it() -> None:
    """Scenario 42, text T6."""
    life = Spread()
    life.fail("gpu-7", "ValueError: a")
    assert life.avoided == []
    life.fail("gpu-7", "ValueError: b")
    assert life.avoided == [
        "node gpu-7 failed first in two attempts, attempt 3 avoids it: ask its administrator to look at it"
    ]
    assert list(life.known.summary.avoided) == ["gpu-7"]
    assert (life.uid, life.base, life.known.summary.judged) == ("s1+", 2, 2)
    # The next one begins as any other: what was before is over.
    life.fail("gpu-8", "ValueError: c")
    assert len(life.avoided) == 1
    assert life.known.summary.judged == 3
    life.fail("gpu-8", "ValueError: d")
    assert list(life.known.summary.avoided) == ["gpu-7", "gpu-8"]


def test_broken_hardware_is_left_at_once() -> None:
    life = Spread()
    life.fail("gpu-7", XID)
    (told,) = life.avoided
    assert told == (
        "the log of an attempt on node gpu-7 reports broken hardware, attempt 2 avoids it: "
        "ask its administrator to look at it"
    )
    assert life.entries[0].node == "gpu-7"


def test_what_does_not_blame_a_node() -> None:
    """Failures on two nodes; a drain; ranks that lost their peers; and ranks that all run on one node."""
    life = Spread()
    for culprit in ("gpu-7", "gpu-8", "gpu-7", "gpu-8"):
        life.fail(culprit, f"ValueError: on {culprit}")
    drained = Spread()
    peers = Spread()
    for _ in range(3):
        drained.fail("gpu-7", "", status=disrupted("EvictionByEvictionAPI"))
        peers.fail("gpu-7", "RuntimeError: Connection closed by peer [10.0.0.7]:4711")
    alone = Spread()
    for number in range(3):
        alone.fail("gpu-9", f"ValueError: {'abc'[number]}")
    assert life.avoided == drained.avoided == peers.avoided == alone.avoided == []


def test_it_is_told_once_that_a_node_is_kept() -> None:
    life = Spread()
    life.replaceable = False
    for number in range(4):
        life.fail("gpu-7", f"ValueError: {'abcd'[number]}")
    (told,) = life.avoided
    assert told == (
        "node gpu-7 failed first in two attempts, and attempt 3 does not avoid it: "
        "its JobSet makes the volumes of its claims, which a new one could not keep"
    )
    assert life.known.summary.avoided == {}


ZONE = {"key": "zone", "operator": "In", "values": ["a"]}


@pytest.mark.parametrize(
    ("made", "avoided", "started", "nodes", "why"),
    [
        pytest.param(jobset(), 0, 2, NODES, "", id="left"),
        pytest.param(jobset(), 0, 2, NODES[:3], "", id="just-enough"),
        pytest.param(jobset(), 0, 2, NODES[6:8], "1 matching node would be left for 2 pods", id="fewer-than-pods"),
        pytest.param(jobset(4), 0, 1, NODES, "only 1 of its 4 pods had started", id="few-had-started"),
        pytest.param(jobset(), 3, 2, NODES, "it avoids 3 of 30 matching nodes already", id="a-tenth"),
        pytest.param(
            jobset(),
            MOST_AVOIDED,
            2,
            [node(str(number)) for number in range(200)],
            "it avoids 8 of 200 matching nodes already",
            id="eight",
        ),
        pytest.param(
            jobset(metadata={"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}),
            0,
            2,
            NODES,
            "its queue chooses nodes by topology",
            id="topology",
        ),
        pytest.param(
            jobset(spec={"containers": [], "nodeSelector": {"gpu": "a"}}),
            0,
            2,
            [*NODES, node("a", gpu="a"), node("gpu-7", gpu="a"), node("c", ready=False, gpu="a")],
            "1 matching node would be left for 2 pods",
            id="selector",
        ),
        pytest.param(
            jobset(
                spec={
                    "containers": [],
                    "affinity": {
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [{"matchExpressions": [ZONE]}]
                            }
                        }
                    },
                }
            ),
            0,
            2,
            [*NODES, node("x", zone="a"), node("y", zone="b"), node("gpu-7", zone="a")],
            "1 matching node would be left for 2 pods",
            id="affinity",
        ),
    ],
)
def test_when_a_job_stays_on_a_suspect_node(
    made: JobSet, avoided: int, started: int, nodes: list[Node], why: str
) -> None:
    """Scenario 43."""
    assert why_not(made, nodes, [f"old-{number}" for number in range(avoided)], "gpu-7", started) == why


def test_a_node_is_used_again_after_a_day() -> None:
    avoided = {"b": "2026-11-24T10:00:00Z", "a": "2026-11-24T09:59:59Z"}
    assert still_avoided(avoided, START) == ["b"]
