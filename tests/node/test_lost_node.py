# SPDX-License-Identifier: Apache-2.0
"""A node whose kubelet was killed: what is said of a job on it. Alone in its module, since the node is lost for all."""

from collections.abc import Iterator

import pytest

from hack.node.cluster import NODE, NodeCluster
from tests.node.conftest import Containers
from trainwright.controller.runtime.testing.component import has_condition
from trainwright.controller.runtime.testing.waiting import eventually_sync


@pytest.fixture(scope="module")
def without_kubelet(node: NodeCluster) -> Iterator[NodeCluster]:
    """The kubelet is killed; it comes back at the end."""
    command = node.components["kubelet"].command
    node.stop_program("kubelet", kill=True)
    yield node
    node.launch("kubelet", command, ready=lambda: is_ready(node))


def is_ready(node: NodeCluster) -> bool:
    found = node.stored.get("node", NODE)
    return found is not None and has_condition(found, "Ready")


def test_a_node_that_is_lost(containers: Containers, without_kubelet: NodeCluster) -> None:
    eventually_sync(lambda: is_ready(without_kubelet), lambda ready: not ready, seconds=120)
    job = containers.one("stranded", "true")
    containers.told(job, NODE)
