# SPDX-License-Identifier: Apache-2.0
"""The TrainJob controller on a real API server, with the test in the part of the JobSet controller."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from trainwright.api.config.v1alpha1 import Configuration
from trainwright.controller.runtime import Manager, load_config
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.binaries import provide
from trainwright.controller.trainer.manager import make_manager

STEP = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
POD = {"containers": [{"name": "node", "image": "example.com/none"}]}
TEMPLATE = {
    "spec": {"replicatedJobs": [{"name": "node", "template": {"metadata": STEP, "spec": {"template": {"spec": POD}}}}]}
}
TIME = "2026-01-02T03:04:05Z"


@pytest.fixture(scope="session")
def with_jobsets(control_plane: ControlPlane) -> ControlPlane:
    """The shared API server with JobSet's definition, which does no other test any harm."""
    control_plane.install_crds(provide(["jobset-manager"]).manifests["jobset-crd.yaml"])
    return control_plane


@pytest.fixture
async def user(with_jobsets: ControlPlane, namespace: str) -> "AsyncIterator[User]":
    """Somebody who works in one namespace while the manager runs."""
    configuration = Configuration()
    configuration.set_defaults()
    assert configuration.health is not None
    configuration.health.health_probe_bind_address = "0"
    manager = await make_manager(load_config(with_jobsets.kubeconfig), configuration, user_agent=f"test/{namespace}")
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run(), name="manager")
        await manager.wait_ready()
        yield User(with_jobsets, namespace, manager)
        manager.stop()


class User:
    def __init__(self, control_plane: ControlPlane, namespace: str, manager: Manager) -> None:
        self.control_plane = control_plane
        self.namespace = namespace
        self.manager = manager

    async def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return await asyncio.to_thread(
            self.control_plane.kubectl, "--namespace", self.namespace, *arguments, stdin=stdin
        )

    async def create(
        self, kind: str, name: str, spec: dict[str, Any], *, api: str = "trainer.kubeflow.org/v1alpha1"
    ) -> None:
        document = {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}
        await self.kubectl("create", "--filename=-", stdin=json.dumps(document))

    async def job(self, name: str, **spec: Any) -> None:
        await self.create("TrainJob", name, {"runtimeRef": {"kind": "TrainingRuntime", "name": "runtime"}, **spec})

    async def runtime(self) -> None:
        await self.create("TrainingRuntime", "runtime", {"mlPolicy": {"numNodes": 1}, "template": TEMPLATE})

    async def get(self, kind: str, name: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = json.loads(
            await self.kubectl("get", kind, name, "--ignore-not-found", "--show-managed-fields", "--output=json")
            or "null"
        )
        return found

    async def patch(self, kind: str, name: str, body: dict[str, Any], *options: str) -> None:
        await self.kubectl("patch", kind, name, "--type=merge", "--patch", json.dumps(body), *options)

    async def until(self, kind: str, name: str, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait for an object that satisfies the condition."""
        async with asyncio.timeout(60):
            while True:
                found = await self.get(kind, name)
                if found is not None and holds(found):
                    return found


def conditions(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {condition["type"]: condition for condition in job.get("status", {}).get("conditions", [])}


async def test_the_jobset_holds_what_runtime_and_job_say(user: User) -> None:
    await user.runtime()
    await user.job("job", trainer={"numNodes": 3, "image": "example.com/mine", "command": ["run"]})
    jobset = await user.until("jobset", "job", bool)
    (replicated,) = jobset["spec"]["replicatedJobs"]
    assert (replicated["name"], replicated["replicas"]) == ("node", 1)
    assert replicated["template"]["spec"]["parallelism"] == replicated["template"]["spec"]["completions"] == 3
    (container,) = replicated["template"]["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["command"]) == ("example.com/mine", ["run"])
    (owner,) = jobset["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("TrainJob", "job", True)
    assert {entry["manager"] for entry in jobset["metadata"]["managedFields"]} == {"trainer"}


@pytest.mark.parametrize(("theirs", "ours"), [("Completed", "Complete"), ("Failed", "Failed")])
async def test_the_jobsets_end_is_the_jobs(user: User, theirs: str, ours: str) -> None:
    await user.runtime()
    await user.job("job")
    await user.until("jobset", "job", bool)
    end = {"type": theirs, "status": "True", "reason": "Because", "message": "so", "lastTransitionTime": TIME}
    counts = {"name": "node", "ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 0}
    status = {"conditions": [end], "replicatedJobsStatus": [counts], "restarts": 0}
    await user.patch("jobset", "job", {"status": status}, "--subresource=status")
    job = await user.until("trainjob", "job", lambda job: ours in conditions(job))
    assert conditions(job)[ours] == end | {"type": ours}
    assert job["status"]["jobsStatus"] == [counts]
    # A finished job is over: its JobSet may go, and does not come back.
    await user.kubectl("delete", "jobset", "job")
    await user.patch("trainjob", "job", {"metadata": {"labels": {"looked": "at"}}})
    await user.job("later")
    await user.until("jobset", "later", bool)
    assert await user.get("jobset", "job") is None


async def test_a_jobset_of_somebody_else_is_left_alone_and_named(user: User) -> None:
    await user.runtime()
    spec = {"replicatedJobs": [{"name": "theirs", "template": {"spec": {"template": {"spec": POD}}}}]}
    await user.create("JobSet", "job", spec, api="jobset.x-k8s.io/v1alpha2")
    before = await user.get("jobset", "job")
    await user.job("job")
    job = await user.until("trainjob", "job", lambda job: "Blocked" in conditions(job))
    assert conditions(job)["Blocked"]["reason"] == "ApplyRefused"
    assert "JobSet" in conditions(job)["Blocked"]["message"]
    assert await user.get("jobset", "job") == before
    await user.kubectl("delete", "jobset", "job")
    job = await user.until("trainjob", "job", lambda job: "Blocked" not in conditions(job))
    assert (await user.until("jobset", "job", bool))["spec"]["replicatedJobs"][0]["name"] == "node"


async def test_a_reference_to_something_that_is_no_runtime_blocks(user: User) -> None:
    await user.create("TrainJob", "job", {"runtimeRef": {"apiGroup": "apps", "kind": "Deployment", "name": "x"}})
    job = await user.until("trainjob", "job", lambda job: "Blocked" in conditions(job))
    blocked = conditions(job)["Blocked"]
    assert (blocked["reason"], blocked["message"]) == (
        "BuildFailed",
        "spec.runtimeRef names Deployment.apps, which is no runtime: TrainingRuntime and ClusterTrainingRuntime are",
    )


async def test_a_job_that_is_fine_gets_no_status_before_its_jobset_has_one(user: User) -> None:
    await user.runtime()
    await user.job("job")
    await user.until("jobset", "job", bool)
    await user.job("later")
    await user.until("jobset", "later", bool)
    job = await user.get("trainjob", "job")
    assert job is not None
    assert "status" not in job
