# SPDX-License-Identifier: Apache-2.0
"""The logs of pods that are gone: kept for their top owner, and no longer than that."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainwright.api.base import Resource
from trainwright.controller.local.node import folders
from trainwright.controller.local.node.folders import EndedLogs, ended_pods, remove_logs
from trainwright.controller.runtime.errors import ConnectionLost, NotFound

OWNERS = {"Pod": ("Job", "j-node-0"), "Job": ("JobSet", "j"), "JobSet": ("TrainJob", "j")}
SERVED = {"Job", "JobSet", "TrainJob"}


def made(kind: str, name: str, uid: str = "") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "n", "uid": uid or f"uid-of-{kind}"}
    if kind in OWNERS:
        owner, owner_name = OWNERS[kind]
        reference = {"apiVersion": "v1", "kind": owner, "name": owner_name, "uid": f"uid-of-{owner}"}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


class World:
    """An API server with the owners of pods, and a folder of logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.objects: Mapping[str, dict[str, Any]] = {
            kind: made(kind, name) for kind, name in (("Job", "j-node-0"), ("JobSet", "j"), ("TrainJob", "j"))
        }
        self.served = set(SERVED)
        self.present: set[str] = set()
        client: Any = SimpleNamespace(get=self._get)
        self.logs = EndedLogs(client, folder, self.present.__contains__)
        discovery: Any = SimpleNamespace(resource=self._resource)
        self.logs._discovery = discovery

    async def _resource(self, api_version: str, kind: str) -> Resource:
        if kind not in self.served:
            raise NotFound("the server has no such kind", code=404, reason="NotFound")
        return Resource(group="", version=api_version, kind=kind, plural=kind.lower(), namespaced=True)

    async def _get(self, resource: Resource, name: str, namespace: str) -> dict[str, Any]:
        assert namespace == "n"
        found = self.objects.get(resource.kind)
        if found is None or found["metadata"]["name"] != name:
            raise NotFound(f"{name} not found", code=404, reason="NotFound")
        return found

    async def pod(self, uid: str, text: str = "out of data\n") -> dict[str, Any]:
        """A pod that begins, and writes."""
        pod = made("Pod", f"j-node-0-{uid}", uid)
        folder = self.folder / f"n_j-node-0-{uid}_{uid}" / "main"
        folder.mkdir(parents=True)
        (folder / "0.log").write_text(text)
        await self.logs.begin(pod)
        return pod

    def left(self) -> list[str]:
        return sorted(folder.name.rpartition("_")[2] for folder in self.folder.iterdir())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_logs_stay_until_the_top_owner_is_deleted(world: World) -> None:
    pod = await world.pod("a")
    # The Job and the JobSet delete their pods, and go.
    world.objects = {"TrainJob": made("TrainJob", "j")}
    remove_logs(world.folder, "a", {**pod, "status": {"phase": "Failed"}})
    await world.logs.sweep()
    (kept,) = ended_pods(world.folder, "uid-of-TrainJob")
    assert (kept.top.kind, kept.top.name, kept.document["status"]) == ("TrainJob", "j", {"phase": "Failed"})
    assert world.logs.find("n", "j-node-0-a") == kept.document
    assert world.logs.find("n", "j-node-0") is None
    assert ended_pods(world.folder, "another") == []
    # Another TrainJob of that name is another owner.
    world.objects = {"TrainJob": made("TrainJob", "j", "later")}
    await world.logs.sweep()
    assert world.left() == []


@pytest.mark.parametrize(
    ("phase", "line", "left"), [("Pending", "", []), ("Failed", "", ["a"]), ("Pending", "x", ["a"])]
)
async def test_of_a_pod_that_never_began_nothing_is_kept(world: World, phase: str, line: str, left: list[str]) -> None:
    """It was made for an attempt that the manager then did not let begin. A pod that could not start has an end."""
    pod = await world.pod("a")
    if not line:
        (world.folder / "n_j-node-0-a_a" / "main" / "0.log").unlink()
    remove_logs(world.folder, "a", {**pod, "status": {"phase": phase}})
    assert world.left() == left


async def test_logs_of_pods_that_are_there_are_left_to_them(world: World) -> None:
    await world.pod("a")
    world.present.add("a")
    world.objects = {}
    await world.logs.sweep()
    assert world.left() == ["a"]


async def test_nothing_is_removed_while_the_kind_of_the_owner_is_not_served(world: World) -> None:
    """A cluster serves the kinds of definitions a moment after its start."""
    await world.pod("a")
    world.served.clear()
    await world.logs.sweep()
    assert world.left() == ["a"]


async def test_a_pod_without_an_owner_takes_its_logs_along(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OWNERS, "Pod", OWNERS["Pod"])
    monkeypatch.delitem(OWNERS, "Pod")
    pod = await world.pod("a")
    remove_logs(world.folder, "a", pod)
    assert world.left() == []


async def test_a_sweep_that_fails_is_done_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[Exception] = [KeyError("uid"), OSError("input/output error"), ConnectionLost("lost")]
    again = asyncio.Event()

    async def fail() -> None:
        world.logs.notice()
        if errors:
            raise errors.pop()
        again.set()

    monkeypatch.setattr(world.logs, "sweep", fail)
    monkeypatch.setattr(folders, "LOOK_SECONDS", 0.01)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(world.logs.run())
        await again.wait()
        running.cancel()
    assert errors == []
