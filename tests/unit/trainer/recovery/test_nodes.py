# SPDX-License-Identifier: Apache-2.0
"""When a job stays on a node that fails; nodes.yaml has which ones it avoids."""

from typing import Any

import msgspec
import pytest

from tests.builders import jobset as made_jobset
from tests.unit.trainer.recovery.test_attempts import START
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import Node
from trainwright.api.trainer.v1alpha1.recovery import Declaration
from trainwright.controller.trainer.recovery.progression import MOST_AVOIDED, why_not
from trainwright.controller.trainer.recovery.verdict import Summary
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
    assert Summary(avoided=avoided).avoids(START) == ["b"]
