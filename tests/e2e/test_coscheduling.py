# SPDX-License-Identifier: Apache-2.0
"""The scheduler of the scheduler plugins starts all pods of our TrainJobs, or none.

Kubernetes' controllers and JobSet are the real ones. Nodes pretend: their pods run until the test lets them end.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests import coscheduling
from tests.e2e.conftest import Trainer
from tests.installation import forbidden, install
from tests.managers import MANAGER
from tests.pretending import pods_run_on
from tests.repository import ROOT
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import equals, eventually_sync
from trainwright.plugins.testing import replicated_job, runtime_document

Json = dict[str, Any]
SECONDS = 90.0
NODES = ("pretend-0", "pretend-1")
CPUS = 4
"""Of each of the nodes."""

pytestmark = [
    pytest.mark.real_control_plane("scheduler-plugins"),
    pytest.mark.only_where(not (reason := coscheduling.why_not()), reason),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    """The whole chain and the gang scheduler, on two nodes with four processors each."""
    with ControlPlane(controller_manager=True, scheduler=True, jobset=True, kwok_nodes=len(NODES), audit=True) as plane:
        pods_run_on(plane)
        plane.install_crds(ROOT / "config" / "crd")
        coscheduling.install(plane)
        install(plane).start()
        coscheduling.start(plane)
        yield plane
        plane.stop_program(MANAGER)
        assert forbidden(plane) == []


class Gangs(Trainer):
    """A namespace, and the nodes with nothing on them."""

    patience = SECONDS

    def __init__(self, cluster: ControlPlane) -> None:
        super().__init__(cluster, cluster.create_namespace())
        self.resize(CPUS)

    def resize(self, cpus: int) -> None:
        """Give each node so many processors."""
        for name in NODES:
            self.cluster.stored.patch(
                "nodes",
                name,
                {"status": {kind: {"cpu": str(cpus)} for kind in ("capacity", "allocatable")}},
                subresource="status",
            )

    def gang(self, name: str, nodes: int, cpus: int, *, seconds: int = 10, **spec: Any) -> str:
        """Create a TrainJob whose nodes ask for so many processors each; returns its name."""
        pod = {"schedulerName": coscheduling.SCHEDULER}
        policy = {"coscheduling": {"scheduleTimeoutSeconds": seconds}}
        runtime = runtime_document(name, replicated_job(pod=pod), podGroupPolicy=policy)
        self.create("TrainingRuntime", name, runtime["spec"])
        trainer = {"numNodes": nodes, "resourcesPerNode": {"requests": {"cpu": str(cpus)}}}
        self.job(name, name, trainer=trainer, **spec)
        return name

    def bound(self, name: str) -> list[bool]:
        """Whether each pod of a TrainJob has a node."""
        return [
            "nodeName" in pod["spec"]
            for pod in self.pods()
            if pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] == name
        ]

    def runs(self, name: str, nodes: int) -> None:
        """Wait until all pods of a TrainJob have a node."""
        eventually_sync(lambda: self.bound(name), equals([True] * nodes), seconds=SECONDS, what=f"{name} runs")

    def waits(self, name: str, nodes: int) -> None:
        """Wait until the scheduler has turned away all pods of a TrainJob."""

        def turned_away() -> int:
            reasons = [
                condition["reason"]
                for pod in self.pods()
                if pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] == name
                for condition in pod.get("status", {}).get("conditions", ())
                if condition["type"] == "PodScheduled" and condition["status"] == "False"
            ]
            return reasons.count("Unschedulable")

        eventually_sync(turned_away, equals(nodes), seconds=SECONDS, what=f"{name} waits")
        assert not any(self.bound(name))

    def end(self, name: str) -> None:
        """Let the pods of a TrainJob succeed."""
        for pod in self.pods():
            if pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] == name:
                self.patch("pods", pod["metadata"]["name"], {"status": {"phase": "Succeeded"}}, subresource="status")
        done = ("True", "AllJobsCompleted")
        eventually_sync(lambda: self.conditions(name).get("Complete"), equals(done), seconds=SECONDS)


def test_a_gang_that_fits_starts(cluster: ControlPlane) -> None:
    gangs = Gangs(cluster)
    gangs.gang("fits", nodes=4, cpus=2)
    gangs.runs("fits", 4)
    group = gangs.get("podgroups.scheduling.x-k8s.io", "fits")
    assert group is not None
    assert group["spec"]["minMember"] == 4
    assert group["spec"]["minResources"]["cpu"] == "8"
    gangs.end("fits")


def test_no_pod_starts_until_all_can(cluster: ControlPlane) -> None:
    gangs = Gangs(cluster)
    gangs.gang("large", nodes=3, cpus=4)
    gangs.waits("large", 3)
    gangs.told("large", "all 3 pods have to start at the same time", "the nodes lack 4 cpu")
    gangs.resize(2 * CPUS)
    gangs.runs("large", 3)
    gangs.end("large")


def test_two_gangs_do_not_hold_each_other_up(cluster: ControlPlane) -> None:
    gangs = Gangs(cluster)
    with gangs.one_file():
        for name in ("one", "two"):
            gangs.gang(name, nodes=3, cpus=2)

    def running() -> set[str]:
        bound = {name: gangs.bound(name) for name in ("one", "two")}
        return {name for name, found in bound.items() if len(found) == 3 and all(found)}

    first = next(iter(eventually_sync(running, bool, seconds=SECONDS)))
    (second,) = {"one", "two"} - {first}
    gangs.waits(second, 3)
    gangs.told(second, "all 3 pods have to start at the same time")
    gangs.end(first)
    gangs.runs(second, 3)
    gangs.end(second)


def test_a_suspended_gang_takes_no_place(cluster: ControlPlane) -> None:
    gangs = Gangs(cluster)
    gangs.gang("later", nodes=4, cpus=2, suspend=True)
    gangs.gang("now", nodes=4, cpus=2)
    gangs.runs("now", 4)
    gangs.end("now")
    gangs.patch("trainjob", "later", {"spec": {"suspend": False}})
    gangs.runs("later", 4)
    gangs.patch("trainjob", "later", {"spec": {"suspend": True}})
    eventually_sync(
        gangs.pods, lambda pods: not [one for one in pods if "later" in one["metadata"]["name"]], seconds=SECONDS
    )
    gangs.patch("trainjob", "later", {"spec": {"suspend": False}})
    gangs.runs("later", 4)
    gangs.end("later")


def test_the_shipped_sample_starts(cluster: ControlPlane) -> None:
    gangs = Gangs(cluster)
    gangs.resize(2 * CPUS)
    for document in yaml.safe_load_all((ROOT / "config" / "samples" / "06-gang-coscheduling.yaml").read_text()):
        document["metadata"]["namespace"] = gangs.namespace
        cluster.stored.create(document)
    gangs.runs("gang", 4)
    gangs.end("gang")
