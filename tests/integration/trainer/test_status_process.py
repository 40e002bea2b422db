# SPDX-License-Identifier: Apache-2.0
"""Reports to a manager that is a process beside the real API server: signals, outages, an election it does not win."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import train_job
from tests.managers import MANAGER, start_manager
from tests.reports import Reply, audience, path_of, progress, send
from tests.repository import ROOT
from trainwright.api.kubernetes.core.v1 import ServiceAccount
from trainwright.api.objects import wire
from trainwright.api.times import format_micro_time, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Client, HTTPTransport, load_config
from trainwright.controller.runtime.testing import ControlPlane, ControlPlaneComponent
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.waiting import eventually, eventually_sync

ACCOUNT = "reporter"


@pytest.fixture(scope="module")
def own(new_control_plane: type[ControlPlane], jobset_crd: Path) -> Iterator[ControlPlane]:
    """A control plane that a test may stop parts of."""
    with new_control_plane(crds=[ROOT / "config" / "crd", jobset_crd], audit=True) as control_plane:
        yield control_plane


class Trainings:
    """TrainJobs that no controller touches, and a manager that takes their reports."""

    def __init__(self, control_plane: ControlPlane, client: Client) -> None:
        self.control_plane = control_plane
        self.client = client
        self.namespace = control_plane.create_namespace()
        self.port = free_port()
        self.tokens: dict[str, str] = {}

    def start(self, **configuration: Any) -> ControlPlaneComponent:
        return start_manager(
            self.control_plane,
            featureGates={"TrainJobStatus": True},
            statusServer={"port": self.port},
            webhook={"host": "127.0.0.1"},
            **configuration,
        )

    async def create(self, *names: str) -> None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}}
        account["metadata"] |= {"namespace": self.namespace}  # type: ignore[operator]
        if not self.tokens:
            await self.client.create(account, kind=ServiceAccount.RESOURCE)
        for name in names:
            job = train_job(name, self.namespace, uid="", managedBy="kueue.x-k8s.io/multikueue")
            await self.client.create(wire(job), kind=TrainJob.RESOURCE)
            spec = {"audiences": [audience(self.namespace, name)], "expirationSeconds": 3600}
            request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
            answer = await self.client.post_subresource(ServiceAccount, ACCOUNT, self.namespace, "token", request)
            self.tokens[name] = answer["status"]["token"]

    async def report(self, name: str, percentage: int) -> Reply:
        path, body = path_of(self.namespace, name), progress(percentage)
        return await asyncio.to_thread(send, self.port, path, body, token=self.tokens[name])

    async def stored(self) -> dict[str, int | None]:
        """The percentages of all TrainJobs."""
        found: dict[str, int | None] = {}
        for job in (await self.client.list(TrainJob.RESOURCE, self.namespace)).items:
            status = job.get("status", {}).get("trainerStatus", {})
            found[job["metadata"]["name"]] = status.get("progressPercentage")
        return found

    async def settled(self, name: str, percentage: int) -> None:
        await eventually(self.stored, lambda found: found[name] == percentage)

    def writes(self) -> int:
        calls = self.control_plane.audit_log.calls(user_agent="trainwright")
        return sum(1 for call in calls if "trainer-status" in call.uri and call.namespace == self.namespace)


@pytest.fixture
async def trainings(own: ControlPlane) -> AsyncIterator[Trainings]:
    client = Client(HTTPTransport(load_config(own.kubeconfig)))
    try:
        yield Trainings(own, client)
    finally:
        await client.close()
        if MANAGER in own.components:
            own.stop_program(MANAGER)


def signalled(manager: ControlPlaneComponent, number: int) -> None:
    """Send a signal to the program and wait for its end."""
    os.kill(manager.program_pid, number)
    eventually_sync(lambda: not manager.running, what="the end of the manager")


async def test_a_manager_that_is_terminated_writes_all_that_it_accepted(trainings: Trainings) -> None:
    names = [f"job-{number}" for number in range(60)]
    await trainings.create(*names)
    manager = trainings.start(progress={"interval": "300s"})
    for name in names:
        for percentage in range(1, 6):
            assert (await trainings.report(name, percentage)).code == 200
    assert set((await trainings.stored()).values()) != {5}
    await asyncio.to_thread(signalled, manager, signal.SIGTERM)
    assert await trainings.stored() == dict.fromkeys(names, 5)


async def test_the_next_report_repairs_what_a_killed_manager_did_not_write(trainings: Trainings) -> None:
    await trainings.create("a")
    manager = trainings.start(progress={"interval": "300s"})
    for percentage in range(1, 6):
        await trainings.report("a", percentage)
    await trainings.report("a", 100)
    assert await trainings.stored() == {"a": 100}
    await trainings.report("a", 50)
    await asyncio.to_thread(signalled, manager, signal.SIGKILL)
    assert await trainings.stored() == {"a": 100}
    trainings.control_plane.stop_program(MANAGER)
    trainings.start()
    await trainings.report("a", 51)
    await trainings.settled("a", 51)


async def test_a_manager_that_does_not_lead_stores_reports(trainings: Trainings) -> None:
    now = format_micro_time(wall_clock())
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "another", "namespace": trainings.namespace},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 36000, "acquireTime": now, "renewTime": now},
    }
    await asyncio.to_thread(trainings.control_plane.apply, lease)
    await trainings.create("a")
    election = {"leaderElect": True, "resourceName": "another", "resourceNamespace": trainings.namespace}
    trainings.start(leaderElection=election)
    assert (await trainings.report("a", 100)).code == 200
    assert await trainings.stored() == {"a": 100}


async def test_reports_go_on_while_the_api_server_is_silent_and_the_newest_is_stored(trainings: Trainings) -> None:
    await trainings.create("a", "b")
    trainings.start(progress={"interval": "2s"})
    for name in ("a", "b"):
        assert (await trainings.report(name, 1)).code == 200
    # Both are written, so that neither counts below.
    await trainings.settled("a", 1)
    await trainings.settled("b", 1)
    before, server = trainings.writes(), trainings.control_plane.components["kube-apiserver"].program_pid
    os.kill(server, signal.SIGSTOP)
    try:
        for percentage in range(2, 20):
            assert (await trainings.report("a", percentage)).code == 200
        # It waits three seconds for what is not stored; tests/unit/trainer/test_coalescer.py has that in virtual time.
        assert (await trainings.report("b", 100)).code == 200
    finally:
        os.kill(server, signal.SIGCONT)
    await trainings.settled("a", 19)
    await trainings.settled("b", 100)
    assert trainings.writes() - before <= 4
