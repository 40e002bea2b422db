# SPDX-License-Identifier: Apache-2.0
"""Both charts, installed with the commands of the page, on a cluster of their own: real pods of the manager train."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.node import images
from hack.node.cluster import NodeCluster
from tests.e2e.chart_admin import INSTALL, UPGRADE, Admin, commands
from tests.installation import NAME, NAMESPACE, forbidden
from tests.node.conftest import Containers, managers
from trainwright.controller.runtime.testing.waiting import eventually_sync

HOME = f"--namespace={NAMESPACE}"
UPGRADED = {"registry.example.com/trainwright:2"}


@pytest.fixture
def cluster() -> Iterator[NodeCluster]:
    """A node with our image under the names of the page, and nothing installed."""
    with NodeCluster(audit=True) as cluster:
        cluster.load(images.ours())
        for tag in ("1", "2"):
            name = f"registry.example.com/trainwright:{tag}"
            cluster.spaces.run("ctr", "--namespace=k8s.io", "images", "tag", images.MANAGER, name)
        yield cluster


def test_the_charts_train_are_upgraded_and_go(cluster: NodeCluster, tmp_path: Path) -> None:
    admin = Admin(cluster, tmp_path)
    (install,) = commands(INSTALL, "With Helm")
    admin.types(install)
    assert len(managers(cluster)) == 2
    containers = Containers(cluster, cluster.create_namespace())
    first = containers.one("first", "true")
    assert containers.ends(first) == "Complete", containers.explain(first)

    (upgrade,) = commands(UPGRADE, "With Helm")
    admin.types(upgrade)
    eventually_sync(
        lambda: {pod["spec"]["containers"][0]["image"] for pod in managers(cluster)},
        lambda found: found == UPGRADED,
        seconds=120,
    )
    second = containers.sample("09-xgboost.yaml")
    assert containers.ends(second) == "Complete", containers.explain(second)
    # Without its webhooks, which are asked by the name of the Service, no job could be created.
    webhooks = cluster.kubectl("get", "validatingwebhookconfigurations", "--output=yaml")
    assert f"name: {NAME}" in webhooks
    assert "failurePolicy: Ignore" not in webhooks
    assert forbidden(cluster) == []

    _, remove = commands(INSTALL, "Remove")
    admin.types(remove)
    eventually_sync(lambda: managers(cluster), lambda pods: not pods, seconds=120)
    assert cluster.kubectl("get", "deployments", HOME, "--output=name") == ""
    assert containers.conditions(first)["Complete"][0] == "True"
    assert NAME not in cluster.kubectl("get", "clusterroles", "--output=name")
