# SPDX-License-Identifier: Apache-2.0
"""Controllers in virtual time: a laptop that is closed for six hours, and roles that are behind at the start."""

from typing import Any

import pytest

from trainwright.api.objects import Document
from trainwright.api.times import LOOK_SECONDS
from trainwright.controller.local.controllers.roles import RoleController
from trainwright.controller.runtime import NO_SERVERS, Manager
from trainwright.controller.simulation.node import PodLives
from trainwright.controller.simulation.virtual import VirtualCluster
from trainwright.controller.simulation.world import CONFIG, PROCESS, Process

AWAKE, ASLEEP = 60.0, 6 * 3600.0
SPEC: Document = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
LONG = pytest.mark.virtual_cluster(controllers=True, lives=PodLives(runs=(1e6, 1e6)))
SHORT = pytest.mark.virtual_cluster(controllers=True, lives=PodLives(runs=(5.0, 6.0)))


def create(cluster: VirtualCluster, api_version: str, kind: str, spec: Document) -> None:
    metadata = {"name": "it", "namespace": "default"}
    cluster.stored.create({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
    cluster.stored.advance(AWAKE)


def sleep(cluster: VirtualCluster) -> None:
    """The clock of the event loop stands still, that of the wall goes on."""
    cluster.world.sleep(ASLEEP)
    cluster.stored.advance(LOOK_SECONDS + 1)


@LONG
@pytest.mark.parametrize(("deadline", "reason"), [({}, None), ({"activeDeadlineSeconds": 3600}, "DeadlineExceeded")])
def test_a_deadline_counts_by_the_wall_clock(
    virtual_cluster: VirtualCluster, deadline: Document, reason: str | None
) -> None:
    create(virtual_cluster, "batch/v1", "Job", {**SPEC, **deadline})
    sleep(virtual_cluster)
    found = virtual_cluster.stored.get("job", "it", "default") or {}
    assert [one["reason"] for one in found["status"].get("conditions", ())][:1] == ([reason] if reason else [])
    assert found["status"].get("active") == (None if reason else 1)


@SHORT
@pytest.mark.parametrize(("to_live", "is_gone"), [(3600, True), (8 * 3600, False)])
@pytest.mark.parametrize(
    ("api_version", "kind", "spec"),
    [
        ("batch/v1", "Job", SPEC),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [{"name": "a", "template": {"spec": SPEC}}]}),
    ],
)
def test_what_is_finished_goes_when_its_time_to_live_is_over(
    virtual_cluster: VirtualCluster, api_version: str, kind: str, spec: Document, to_live: int, is_gone: bool
) -> None:
    create(virtual_cluster, api_version, kind, {**spec, "ttlSecondsAfterFinished": to_live})
    assert virtual_cluster.stored.get(kind.lower(), "it", "default")
    sleep(virtual_cluster)
    assert (virtual_cluster.stored.get(kind.lower(), "it", "default") is None) == is_gone


def test_roles_that_are_behind_at_the_start_are_brought_up_to_date(virtual_cluster: VirtualCluster) -> None:
    """One collects what another one has collected, whichever comes first."""
    read = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}

    def role(name: str, *rules: Document, part_of: str = "", collects: str = "") -> None:
        document: dict[str, Any] = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
        document |= {"metadata": {"name": name, "labels": {part_of: "true"} if part_of else {}}, "rules": [*rules]}
        if collects:
            document["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {collects: "true"}}]}
        virtual_cluster.stored.create(document)

    role("a-first", collects="to-first")
    role("b-second", part_of="to-first", collects="to-second")
    role("reads", read, part_of="to-second")

    async def boot(process: Process) -> Manager:
        manager = Manager(
            CONFIG, user_agent=process.name, servers=NO_SERVERS, process=PROCESS, transport=process.network
        )
        RoleController(manager)
        return manager

    written = virtual_cluster.changes("clusterroles.rbac.authorization.k8s.io")
    virtual_cluster.run(boot)
    virtual_cluster.stored.advance(10)
    assert [one.object["metadata"]["name"] for one in written] == ["b-second", "a-first"]
    assert [one.object["rules"] for one in written] == [[read], [read]]
