# SPDX-License-Identifier: Apache-2.0
"""What no real controller can be compared with, or what only shows with ours: claims, restarts, other namespaces."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.integration.local.controllers.comparison import settled
from tests.integration.local.controllers.conftest import (
    CONTAINER,
    World,
    conditions,
    job_spec,
    jobset_spec,
    living,
    replicated_job,
)
from trainwright.api.objects import name_of, resource_version_of, uid_of
from trainwright.controller.local.controllers import CONTROLLERS
from trainwright.controller.local.controllers.objects import (
    ACCOUNT,
    CLAIM,
    CONFIG_MAP,
    JOB,
    JOBSET,
    NAMESPACE,
    POD,
    SERVICE,
    VOLUME,
)
from trainwright.controller.runtime.testing import ControlPlane
from trainwright.controller.runtime.testing.waiting import eventually


@pytest.fixture(scope="module")
def alone(new_control_plane: type[ControlPlane], jobset_crd: Path) -> Iterator[ControlPlane]:
    """An API server on which our controllers may work in all namespaces."""
    with new_control_plane(crds=[jobset_crd]) as running:
        yield running


@pytest.fixture
async def world(alone: ControlPlane) -> AsyncIterator[World]:
    """A namespace with all our controllers."""
    async with living(alone, alone.create_namespace(), tuple(CONTROLLERS)) as found:
        yield found


async def test_a_restart_writes_nothing(alone: ControlPlane) -> None:
    namespace = alone.create_namespace()
    async with living(alone, namespace, tuple(CONTROLLERS)) as world:
        await world.create(JOBSET, "train", jobset_spec(replicated_job("node", 2)))
        await world.create(JOB, "done", job_spec())
        await world.create(JOB, "large", job_spec(parallelism=30, completions=30))
        (done,) = [pod for pod in await world.running(8) if name_of(pod).startswith("done")]
        world.end(done)
        await world.until(JOB, "done", lambda job: "Complete" in conditions(job))
        await settled(world)
        before = await versions(world)
    async with living(alone, namespace, tuple(CONTROLLERS)) as world:
        await settled(world)
        assert await versions(world) == before
        await world.client.delete(NAMESPACE, namespace)
        await world.gone(NAMESPACE, namespace)


async def versions(world: World) -> dict[str, str]:
    """The versions of all objects of the namespace."""
    kinds = (JOBSET, JOB, SERVICE, POD, ACCOUNT, CONFIG_MAP)
    return {f"{k.kind} {name_of(obj)}": resource_version_of(obj) for k in kinds for obj in await world.all(k)}


async def test_a_claim_gets_a_folder_for_as_long_as_it_lives(world: World) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await world.create(CLAIM, "data", spec)
    claim = await world.until(CLAIM, "data", lambda claim: claim["status"].get("phase") == "Bound")
    assert claim["status"]["capacity"] == {"storage": "1Gi"}
    volume = await world.client.get(VOLUME, claim["spec"]["volumeName"])
    folder = Path(volume["spec"]["hostPath"]["path"])
    await eventually(folder.is_dir)
    (folder / "weights").write_text("1")
    pod = {"containers": [CONTAINER], "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}
    await world.create(POD, "user", {**pod, "terminationGracePeriodSeconds": 1})
    (user,) = await world.running(1)
    await world.client.delete(CLAIM, "data", world.namespace)
    held = await world.until(CLAIM, "data", lambda claim: "deletionTimestamp" in claim["metadata"])
    assert held["metadata"]["finalizers"], "a pod uses it"
    assert await asyncio.to_thread(folder.is_dir)
    world.end(user)
    await world.gone(CLAIM, "data")
    await eventually(lambda: not folder.exists(), what="the folder is gone")

    async def volumes() -> list[str]:
        return [name_of(obj) for obj in (await world.client.list(VOLUME)).items]

    await eventually(volumes, lambda names: name_of(volume) not in names)


async def test_an_absent_owner_is_remembered_by_its_place(world: World, alone: ControlPlane) -> None:
    """Its uid alone would not do: the object exists in another namespace."""
    other = alone.create_namespace()
    owner = await world.client.create({"metadata": {"name": "owner", "namespace": other}}, kind=CONFIG_MAP)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid_of(owner)}
    await world.create(CONFIG_MAP, "strayed", {}, ownerReferences=[reference])
    await world.gone(CONFIG_MAP, "strayed")
    mine = {"metadata": {"name": "mine", "namespace": other, "ownerReferences": [reference]}}
    await world.client.create(mine, kind=CONFIG_MAP)
    await world.client.delete(CONFIG_MAP, "owner", other, propagation="Orphan")
    kept = await eventually(
        lambda: world.client.get(CONFIG_MAP, "mine", other), lambda found: "ownerReferences" not in found["metadata"]
    )
    assert name_of(kept) == "mine"


async def test_a_kind_that_comes_later_is_collected(world: World, alone: ControlPlane, tmp_path: Path) -> None:
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    file = tmp_path / "gadgets.json"
    file.write_text(json.dumps(definition))
    alone.install_crds(file)
    gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g", "namespace": world.namespace}}
    alone.apply(gadget)
    uid = (alone.stored.get("gadget", "g", world.namespace) or {})["metadata"]["uid"]
    reference = {"apiVersion": "example.com/v1", "kind": "Gadget", "name": "g", "uid": uid}
    await world.create(CONFIG_MAP, "part", {}, ownerReferences=[reference])
    await asyncio.to_thread(alone.stored.delete, "gadget", "g", world.namespace)
    await world.gone(CONFIG_MAP, "part")
    await asyncio.to_thread(alone.stored.delete, "crd", "gadgets.example.com")
    await world.create(
        CONFIG_MAP, "other", {}, ownerReferences=[{**reference, "kind": "ConfigMap", "apiVersion": "v1"}]
    )
    await world.gone(CONFIG_MAP, "other")
