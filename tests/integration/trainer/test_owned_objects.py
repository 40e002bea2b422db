# SPDX-License-Identifier: Apache-2.0
"""What a job owns is made again when it is deleted, for each plugin and each kind: over the local API server.

When all is quiet, what is stored is what a manager that starts then would apply: it has nothing to write.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.trainer.reporting import definitions
from tests.repository import ROOT, documents
from trainwright.api.config.v1alpha1 import Configuration
from trainwright.api.jobset.v1alpha2 import JobSet
from trainwright.api.kubernetes.core.v1 import ConfigMap, Namespace, Secret
from trainwright.api.objects import controller_of, name_of, uid_of
from trainwright.api.scheduling.v1alpha1 import PodGroup
from trainwright.api.trainer.v1alpha1 import TrainingRuntime, TrainJob
from trainwright.api.volcano.v1beta1 import PodGroup as VolcanoPodGroup
from trainwright.controller.local.cluster import RunningServer, api_server, install
from trainwright.controller.runtime import Client, Manager, NotFound
from trainwright.controller.runtime.manager.manager import ProcessSettings
from trainwright.controller.runtime.tasks import TaskScope
from trainwright.controller.runtime.testing.ports import free_port
from trainwright.controller.runtime.testing.settle import settle_manager
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.trainer.assembly.manager import make_manager
from trainwright.controller.trainer.assembly.settings import settings_of
from trainwright.controller.trainer.build import objects

KINDS = {kind.RESOURCE.api_version: kind.RESOURCE for kind in (PodGroup, VolcanoPodGroup, JobSet)}
OWNED = (ConfigMap.RESOURCE, Secret.RESOURCE, *KINDS.values())
STEP = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}


def replicated(name: str, metadata: dict[str, Any] = STEP) -> dict[str, Any]:
    pod = {"containers": [{"name": "node", "image": "i"}]}
    return {"name": name, "template": {"metadata": metadata, "spec": {"template": {"spec": pod}}}}


def runtime(*jobs: dict[str, Any], policy: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"annotations": {"of": "the runtime"}},
        "spec": {"replicatedJobs": list(jobs) or [replicated("node")]},
    }
    return {"mlPolicy": {"numNodes": 2, **(policy or {})}, "template": template, **spec}


MPI = {"mpi": {"mpiImplementation": "OpenMPI", "runLauncherAsNode": True}}
RUNTIMES = {
    "torch": runtime(policy={"torch": {}}),
    "coscheduling": runtime(podGroupPolicy={"coscheduling": {}}),
    "volcano": runtime(podGroupPolicy={"volcano": {}}),
    "mpi": runtime(replicated("launcher"), replicated("node", {}), policy=MPI),
    "flux": runtime(policy={"flux": {}}),
    "tune": runtime(policy={"torch": {}}),
}
CERTIFICATES = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeflow-system"}},
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "kubeflow-trainer-webhook-cert", "namespace": "kubeflow-system"},
        "data": {"ca.crt": "Y2VydGlmaWNhdGU="},
    },
)
"""What the status server is verified with."""
COMMON = {("ConfigMap", "job-tls-config"), ("ConfigMap", "job-runtime-snapshot"), ("JobSet", "job")}
MADE = {
    "torch": COMMON,
    "coscheduling": COMMON | {("PodGroup", "job")},
    "volcano": COMMON | {("PodGroup", "job")},
    "mpi": COMMON | {("ConfigMap", "job-mpi-hostfile"), ("Secret", "job-mpi-ssh-auth")},
    "flux": COMMON | {("ConfigMap", "job-flux-entrypoint"), ("Secret", "job-flux-curve")},
    "tune": COMMON | {("ConfigMap", "job-progress-writer")},
}
"""Kind and name of what a job of each runtime owns."""


def changed(resource: Any, obj: dict[str, Any]) -> dict[str, Any]:
    """A patch of what the manager sets of an object and may set again while its job is suspended."""
    if resource == ConfigMap.RESOURCE and not obj["metadata"]["name"].endswith("-runtime-snapshot"):
        return {"data": dict.fromkeys(obj["data"], "other")}
    if resource == JobSet.RESOURCE:
        return {"metadata": {"annotations": {"of": "somebody else"}}}
    return {"spec": {"minMember": 7}} if resource.kind == "PodGroup" else {}


class World:
    """An API server, a manager beside it, and a user."""

    def __init__(self, api: RunningServer, tasks: TaskScope) -> None:
        self.api, self._tasks = api, tasks
        self.client = Client(api.transport(), user_agent="user")
        self._port = free_port()
        self.space = "default"
        self._spaces = [self.space]

    async def move(self, space: str) -> None:
        """Go on in a new namespace."""
        await self.client.create({"metadata": {"name": space}}, kind=Namespace.RESOURCE)
        self.space = space
        self._spaces.append(space)

    async def start(self, *, settled: bool = True) -> Manager:
        """A manager that starts now, at rest unless `settled` is False."""
        configuration = {
            "health": {"healthProbeBindAddress": "0"},
            "featureGates": {"TrainJobStatus": True, "ProgressPull": True},
            "statusServer": {"port": self._port},
        }
        settings = settings_of(msgspec.convert(configuration, Configuration))
        manager = await make_manager(
            self.api.config,
            settings,
            user_agent="manager",
            transport=self.api.transport(),
            process=ProcessSettings(detect_mutation=True),
        )
        self._tasks.start("manager", manager.run())
        await manager.wait_ready()
        if settled:
            await settle_manager(manager)
        return manager

    async def create(self, kind: Any, name: str, spec: dict[str, Any], annotations: dict[str, str]) -> None:
        document = {"apiVersion": kind.RESOURCE.api_version, "kind": kind.RESOURCE.kind, "spec": spec}
        metadata = {"name": name, "namespace": self.space, "annotations": annotations}
        await self.client.create({**document, "metadata": metadata}, kind=kind.RESOURCE)

    async def job(self, name: str, **spec: Any) -> None:
        """A job `job` of one of `RUNTIMES`."""
        await self.create(TrainingRuntime, "runtime", RUNTIMES[name], {})
        reference = {"kind": "TrainingRuntime", "name": "runtime"}
        trainer = {"trainer": {"command": ["tune", "run"]}} if name == "tune" else {}
        annotations = {"trainwright.dev/progress": "file"} if name == "tune" else {}
        await self.create(TrainJob, "job", {"runtimeRef": reference, **trainer, **spec}, annotations)

    async def serves_all(self) -> bool:
        """Raises NotFound while a kind is not served."""
        for resource in (*OWNED, TrainJob.RESOURCE, TrainingRuntime.RESOURCE):
            await self.client.list(resource, self.space)
        return True

    async def owned(self) -> dict[tuple[Any, str], Any]:
        """What the job `job` of the present namespace owns, by kind and name."""
        return await self._owned(self.space)

    async def versions(self) -> dict[tuple[str, Any, str], tuple[str, Any]]:
        """What the jobs of all namespaces own: each with uid and version."""
        found = {space: await self._owned(space) for space in self._spaces}
        return {
            (space, *key): (uid_of(obj), obj["metadata"]["resourceVersion"])
            for space, owned in found.items()
            for key, obj in owned.items()
        }

    async def _owned(self, space: str) -> dict[tuple[Any, str], Any]:
        found = {}
        for resource in OWNED:
            for obj in (await self.client.list(resource, space)).items:
                controller = controller_of(obj)
                if controller is not None and controller.name == "job":
                    found[resource, name_of(obj)] = obj
        return found

    async def blocked(self) -> str:
        """The message of the job's condition `Blocked`; empty without one."""
        status = (await self.client.get(TrainJob.RESOURCE, "job", self.space)).get("status", {})
        found = [one["message"] for one in status.get("conditions", ()) if one["type"] == "Blocked"]
        return found[0] if found else ""

    async def label(self, resource: Any, name: str, **labels: str | None) -> None:
        await self.client.patch(resource, name, self.space, {"metadata": {"labels": labels}})


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[World]:
    groups = documents(*sorted((ROOT / "tests/conformance/crds").glob("*.yaml")))
    async with api_server(folder, memory=True) as api, TaskScope("test") as tasks:
        world = World(api, tasks)
        await install(world.client, [*definitions(), *groups, *CERTIFICATES], owner="test")
        # A definition is served a moment after it is stored.
        await eventually(world.serves_all, bool, ignore=(NotFound,))
        yield world


def content(obj: Any) -> dict[str, Any]:
    """What a user of the object sees of it."""
    kept = {name: value for name, value in obj.items() if name not in {"metadata", "status"}}
    return {**kept, **{name: obj["metadata"].get(name) for name in ("labels", "annotations", "ownerReferences")}}


async def contents(world: World) -> dict[tuple[Any, str], dict[str, Any]]:
    return {key: content(obj) for key, obj in (await world.owned()).items()}


async def nothing_is_left_to_do(world: World, manager: Manager) -> None:
    """A manager that starts now changes nothing."""
    await settle_manager(manager)
    manager.stop()
    before = await world.versions()
    fresh = await world.start()
    assert await world.versions() == before
    fresh.stop()


@pytest.mark.parametrize("name", RUNTIMES)
async def test_each_object_of_a_job_is_made_again_and_put_right(name: str, tmp_path: Path) -> None:
    """Lives of a job, each in a namespace of its own, with one manager; then one that starts has nothing to do."""
    async with running(tmp_path) as world:
        manager = await world.start()
        for life in (deleted_twice, deleted_after_a_change, changed_while_suspended):
            await world.move(life.__name__.replace("_", "-"))
            await life(world, manager, name)
        await nothing_is_left_to_do(world, manager)


async def deleted_twice(world: World, manager: Manager, name: str) -> None:
    objects = await made(world, manager, name)
    # The first of them in a new life is the PodGroup, if there is one.
    for resource, own in sorted(objects, key=str, reverse=True):
        for _ in range(2):
            await delete(world, manager, resource, own, objects)


async def deleted_after_a_change(world: World, manager: Manager, name: str) -> None:
    objects = await made(world, manager, name)
    for resource, own in sorted(objects, key=str):
        await world.label(TrainJob.RESOURCE, "job", changed=own.lower())
        await settle_manager(manager)
        await delete(world, manager, resource, own, objects)


async def made(world: World, manager: Manager, name: str) -> set[tuple[Any, str]]:
    await world.job(name)
    await settle_manager(manager)
    objects = set(await world.owned())
    assert MADE[name] == {(resource.kind, name) for resource, name in objects}
    return objects


async def delete(world: World, manager: Manager, resource: Any, own: str, objects: set[tuple[Any, str]]) -> None:
    await world.client.delete(resource, own, world.space, propagation="Background")
    if resource == Secret.RESOURCE:
        # The manager may not see Secrets. It makes them again when pods of the job are to start.
        await world.client.delete(JobSet.RESOURCE, "job", world.space, propagation="Background")
    await settle_manager(manager)
    assert set(await world.owned()) == objects, f"{world.space}: after {resource.kind} {own} was deleted"


async def changed_while_suspended(world: World, manager: Manager, name: str) -> None:
    await world.job(name, suspend=True)
    await settle_manager(manager)
    before = await world.owned()
    for _ in range(2):
        # The second time, what is seen is what was seen before it was put right.
        for (resource, own), obj in before.items():
            if change := changed(resource, obj):
                await world.client.patch(resource, own, world.space, change)
        await settle_manager(manager)
        assert await contents(world) == {key: content(obj) for key, obj in before.items()}


async def foreign_group(world: World, kind: Any) -> None:
    document = {"apiVersion": kind.RESOURCE.api_version, "kind": "PodGroup", "spec": {"minMember": 1}}
    await world.client.create({**document, "metadata": {"name": "job", "namespace": world.space}}, kind=kind.RESOURCE)


@pytest.mark.parametrize(("name", "kind"), [("coscheduling", PodGroup), ("volcano", VolcanoPodGroup)])
async def test_a_podgroup_of_somebody_else_is_used_until_it_goes(name: str, kind: Any, tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await foreign_group(world, kind)
        await world.job(name)
        manager = await world.start(settled=False)
        theirs = kind.RESOURCE, "job"
        made = await eventually(world.owned, lambda found: (JobSet.RESOURCE, "job") in found)
        assert theirs not in made
        assert (await world.client.get(kind.RESOURCE, "job", world.space))["spec"]["minMember"] == 1
        await world.client.delete(kind.RESOURCE, "job", world.space)
        made = await eventually(world.owned, lambda found: theirs in found)
        assert made[theirs]["spec"]["minMember"] == 2
        await nothing_is_left_to_do(world, manager)


@pytest.mark.parametrize(
    ("name", "secret", "others"),
    [
        ("mpi", "job-mpi-ssh-auth", []),
        ("flux", "job-flux-curve", []),
        ("mpi", "job-mpi-ssh-auth", ["job-mpi-hostfile"]),
    ],
)
async def test_the_secret_of_a_deleted_job_of_that_name_is_waited_out(
    name: str,
    secret: str,
    others: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(objects, "SETTLE_SECONDS", 600.0)
    async with running(tmp_path) as world:
        manager = await world.start()
        owner = {
            "apiVersion": TrainJob.RESOURCE.api_version,
            "kind": "TrainJob",
            "name": "job",
            "uid": "of-the-deleted",
        }
        metadata = {"name": secret, "namespace": world.space, "ownerReferences": [{**owner, "controller": True}]}
        document = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        earlier = await world.client.create(document, kind=Secret.RESOURCE)
        for other in others:
            seen = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "name": other}}
            await world.client.create(seen, kind=ConfigMap.RESOURCE)
        await settle_manager(manager)
        await world.job(name)
        for other in others:
            # The first build has met it: the garbage collector takes it before the Secret.
            await eventually(lambda: f"{other} is controlled by TrainJob job" in caplog.text, bool)  # noqa: B023
            await world.client.delete(ConfigMap.RESOURCE, other, world.space)
        # All ConfigMaps are there, and the Secret of the deleted job is not used.
        before = await eventually(world.owned, lambda found: len(found) == len(MADE[name]) - 1)
        assert (JobSet.RESOURCE, "job") not in before
        await world.client.delete(Secret.RESOURCE, secret, world.space)
        made = await eventually(world.owned, lambda found: (JobSet.RESOURCE, "job") in found)
        assert uid_of(made[Secret.RESOURCE, secret]) != uid_of(earlier)
        await nothing_is_left_to_do(world, manager)
