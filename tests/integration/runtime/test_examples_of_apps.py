# SPDX-License-Identifier: Apache-2.0
"""The operators in examples/, each run as its user would be, and in virtual time."""

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trainwright.api.objects import wire
from trainwright.controller.local.testing.cluster import LocalCluster
from trainwright.controller.runtime import NO_SERVERS, Client, HTTPTransport, Manager, load_config
from trainwright.controller.runtime.testing.operators import running
from trainwright.controller.runtime.testing.waiting import equals, eventually_sync, has_length
from trainwright.controller.simulation.virtual import VirtualCluster
from trainwright.controller.simulation.world import CONFIG, PROCESS, Process

EXAMPLES = Path(__file__).parents[3] / "examples"
pytestmark = pytest.mark.local_cluster(rbac=True)


@pytest.fixture
def example(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of an example, as `python NAME.py` would have it."""
    name = request.param
    monkeypatch.syspath_prepend(str(EXAMPLES / name))
    before = {*sys.modules}
    yield importlib.import_module(name)
    for added in {*sys.modules} - before:
        if added.split(".")[0] in {name, "api"}:
            del sys.modules[added]


def named(api_version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", **fields.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


@pytest.mark.parametrize("example", ["web"], indirect=True)
def test_a_config_map_becomes_a_service(local_cluster: LocalCluster, example: ModuleType) -> None:
    with running(example.app, local_cluster):
        local_cluster.apply(named("v1", "ConfigMap", "shop", metadata={"labels": {"web": "yes"}}))
        service = eventually_sync(lambda: local_cluster.stored.get("service", "shop", "default"))
        assert service is not None
        assert service["spec"]["selector"] == {"app": "shop"}


@pytest.mark.parametrize("example", ["databases"], indirect=True)
def test_a_database_is_made_and_dropped(
    local_cluster: LocalCluster, example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASES", str(tmp_path))
    local_cluster.install_crds(example.app.crds)

    def status() -> Any:
        return (local_cluster.stored.get("database", "shop", "default") or {}).get("status")

    with running(example.app, local_cluster):
        local_cluster.apply(named("data.example.com/v1", "Database", "shop", spec={"owner": "ada"}))
        eventually_sync(status, equals({"state": "Ready", "tables": 0}))
        assert [file.name for file in tmp_path.iterdir()] == ["default-shop.sqlite"]
        events = eventually_sync(lambda: local_cluster.stored.list("event", "default"), has_length(1))
        assert (events[0]["reason"], events[0]["message"]) == ("Created", "The database of ada is there.")
        local_cluster.stored.delete("database", "shop", "default", wait=False)
        eventually_sync(lambda: local_cluster.stored.get("database", "shop", "default") is None)
        assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("example", ["boats"], indirect=True)
def test_versions_are_converted_defaulted_and_validated(local_cluster: LocalCluster, example: ModuleType) -> None:
    local_cluster.install_crds(example.app.crds)

    def boat(name: str, kind: Any = example.v2.Boat) -> Any:
        async def read() -> Any:
            client = Client(HTTPTransport(load_config(local_cluster.kubeconfig)))
            try:
                found = await client.get(kind, name, "default")
            finally:
                await client.close()
            return wire(found)

        found = asyncio.run(read())
        return found.get("spec"), found.get("status")

    with running(example.app, local_cluster):
        local_cluster.apply(named("sea.example.com/v1", "Boat", "old", spec={"length": "100 ft"}))
        eventually_sync(lambda: boat("old"), equals(({"meters": 30.48, "crew": 1}, {"aboard": 1})))
        assert boat("old", example.v1.Boat) == ({"length": "30.48 m"}, None)
        local_cluster.apply(named("sea.example.com/v2", "Boat", "new", spec={"meters": 35}))
        eventually_sync(lambda: boat("new"), equals(({"meters": 35, "crew": 4}, {"aboard": 4})))
        with pytest.raises(Exception, match=r"spec\.meters: 500 is longer than any boat"):
            local_cluster.apply(named("sea.example.com/v2", "Boat", "huge", spec={"meters": 500}))
        with pytest.raises(Exception, match="write a number and m or ft"):
            local_cluster.apply(named("sea.example.com/v1", "Boat", "odd", spec={"length": "long"}))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("example", ["fanout"], indirect=True)
def test_a_thousand_copies_follow_their_source(local_cluster: LocalCluster, example: ModuleType) -> None:
    def source(copies: int, text: str) -> dict[str, Any]:
        data = {"copies": str(copies), "text": text}
        return named("v1", "ConfigMap", "many", metadata={"labels": {"fanout": "yes"}}, data=data)

    def texts() -> dict[str, int]:
        found: dict[str, int] = {}
        for one in local_cluster.stored.list("configmap", "default"):
            if "ownerReferences" in one["metadata"]:
                found[one["data"]["text"]] = found.get(one["data"]["text"], 0) + 1
        return found

    with running(example.app, local_cluster):
        local_cluster.apply(source(1000, "a"))
        eventually_sync(texts, equals({"a": 1000}), seconds=500)
        local_cluster.apply(source(10, "b"))
        eventually_sync(texts, equals({"b": 10}), seconds=500)


@pytest.mark.parametrize("example", ["website"], indirect=True)
def test_a_website_is_mended_and_counted(local_cluster: LocalCluster, example: ModuleType) -> None:
    local_cluster.install_crds(example.app.crds)
    stored = local_cluster.stored

    def ready() -> Any:
        return (stored.get("website", "home", "default") or {}).get("status")

    with running(example.app, local_cluster):
        local_cluster.apply(named("pages.example.com/v1", "Website", "home", spec={"html": "<h1>Hello</h1>"}))
        eventually_sync(ready, equals({"ready": 0}))
        stored.patch("configmap", "home", {"data": {"index.html": "defaced"}}, "default")
        stored.delete("service", "home", "default", wait=False)
        page = {"index.html": "<h1>Hello</h1>"}
        eventually_sync(lambda: (stored.get("configmap", "home", "default") or {}).get("data"), equals(page))
        eventually_sync(lambda: stored.get("service", "home", "default"))
        status = {"status": {"replicas": 1, "readyReplicas": 1}}
        stored.patch("deployment", "home", status, "default", subresource="status")
        eventually_sync(ready, equals({"ready": 1}))


@pytest.mark.parametrize("example", ["volumes"], indirect=True)
def test_a_claim_follows_size_and_labels_of_its_owner_and_keeps_those_of_others(
    local_cluster: LocalCluster, example: ModuleType
) -> None:
    local_cluster.install_crds(example.app.crds)
    stored = local_cluster.stored

    def claim() -> Any:
        found = stored.get("persistentvolumeclaim", "data", "default")
        return found and (found["spec"]["resources"]["requests"]["storage"], found["metadata"].get("labels") or {})

    def wanted(size: str, **labels: str) -> None:
        local_cluster.apply(
            named("kopf.dev/v1", "EphemeralVolumeClaim", "data", metadata={"labels": labels}, spec={"size": size})
        )

    with running(example.app, local_cluster):
        wanted("1G", owner="me", app="shop")
        eventually_sync(claim, equals(("1G", {"owner": "me", "app": "shop"})))
        stored.patch("persistentvolumeclaim", "data", {"metadata": {"labels": {"theirs": "x"}}}, "default")
        wanted("1G", owner="you")
        eventually_sync(claim, equals(("1G", {"owner": "you", "theirs": "x"})))
        stored.delete("persistentvolumeclaim", "data", "default", wait=False)
        eventually_sync(claim, equals(("1G", {"owner": "you"})))
        # Only a bound claim may grow.
        stored.patch("persistentvolumeclaim", "data", {"status": {"phase": "Bound"}}, "default", subresource="status")
        wanted("2G")
        eventually_sync(claim, equals(("2G", {})))
        with pytest.raises(Exception, match=r"spec\.size: Required value"):
            local_cluster.apply(named("kopf.dev/v1", "EphemeralVolumeClaim", "bad", spec={}))


VIRTUAL = {
    "web": (named("v1", "ConfigMap", "a", metadata={"labels": {"web": "yes"}}), "services", 1),
    "databases": (
        named("data.example.com/v1", "Database", "a", spec={"owner": "ada"}),
        "databases.data.example.com",
        1,
    ),
    "boats": (named("sea.example.com/v2", "Boat", "a", spec={"meters": 9, "crew": 3}), "boats.sea.example.com", 1),
    "fanout": (
        named("v1", "ConfigMap", "a", metadata={"labels": {"fanout": "yes"}}, data={"copies": "20"}),
        "configmaps",
        20,
    ),
    "volumes": (named("kopf.dev/v1", "EphemeralVolumeClaim", "a", spec={"size": "1G"}), "persistentvolumeclaims", 1),
    "website": (named("pages.example.com/v1", "Website", "a", spec={"html": ""}), "deployments.apps", 1),
}
"""What a user makes, and the kind and the number of objects that the operator writes."""


@pytest.mark.virtual_cluster(crds=[*EXAMPLES.glob("*/crds")])
@pytest.mark.parametrize(("example", "case"), [*VIRTUAL.items()], ids=[*VIRTUAL], indirect=["example"])
def test_a_day_passes_and_a_restart_writes_nothing(
    virtual_cluster: VirtualCluster,
    example: ModuleType,
    case: tuple[dict[str, Any], str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document, kind, number = case
    monkeypatch.setenv("DATABASES", str(tmp_path))

    async def boot(process: Process) -> Manager:
        manager: Manager = example.app.manager(CONFIG, servers=NO_SERVERS, process=PROCESS, transport=process.network)
        return manager

    operator = virtual_cluster.run(boot)
    virtual_cluster.stored.create(document)
    changes = virtual_cluster.changes(kind)
    virtual_cluster.stored.advance(60)
    written = {(one.object["metadata"]["name"], one.type) for one in changes}
    assert len({name for name, _ in written}) >= number
    settled = len(changes)
    virtual_cluster.stored.advance(24 * 3600)
    virtual_cluster.kill(operator)
    virtual_cluster.run(boot)
    virtual_cluster.stored.advance(3600)
    assert len(changes) == settled
