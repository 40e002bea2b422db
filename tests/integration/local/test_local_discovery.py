# SPDX-License-Identifier: Apache-2.0
"""Our discovery documents beside those of the real API server, for what both serve."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.local.things import built_in, custom
from trainwright.controller.local.apiserver.views import discovery
from trainwright.controller.local.apiserver.views.discovery import DiscoveryDocument, DiscoveryGroup, groups_of
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane

Document = dict[str, Any]

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TRAINER = "trainer.kubeflow.org"
CUSTOM = [
    custom(TRAINER, "ClusterTrainingRuntime", name="v1alpha1", scope="Cluster"),
    custom(TRAINER, "TrainingRuntime", name="v1alpha1"),
    custom(TRAINER, "TrainJob", name="v1alpha1", subresources={"status": {}}),
]
SERVED = groups_of([*built_in(), *CUSTOM])


@pytest.fixture
async def transport(control_plane: ControlPlane) -> AsyncIterator[HTTPTransport]:
    made = HTTPTransport(load_config(control_plane.kubeconfig))
    yield made
    await made.close()


async def get(transport: HTTPTransport, path: str, accept: str) -> tuple[Document, str]:
    got = await transport.send(Request("GET", path, headers={"Accept": accept}))
    return json.loads(got.body), got.headers["content-type"]


def names(group: DiscoveryGroup) -> set[str]:
    """The resources and subresources that ours has in the first version."""
    served = group.versions[group.preferred]
    return {one.plural for one in served} | {f"{one.plural}/{sub}" for one in served for sub in one.subresources}


def only_ours(item: Document, group: DiscoveryGroup) -> Document:
    """An aggregated group of the real server, without what ours leaves out."""
    known = names(group)
    versions = []
    for version in item["versions"]:
        if version["version"] not in group.versions:
            continue
        resources = [one for one in version["resources"] if one["resource"] in known]
        for one in resources:
            if "subresources" in one:
                one["subresources"] = [
                    sub for sub in one["subresources"] if f"{one['resource']}/{sub['subresource']}" in known
                ]
                if not one["subresources"]:
                    del one["subresources"]
        versions.append({**version, "resources": resources})
    return {**item, "versions": versions}


def without_old_versions(item: Document) -> Document:
    """An unaggregated group of the real server, without the versions that ours does not serve."""
    [ours] = [group for group in SERVED if group.name == item["name"]]
    return {**item, "versions": [one for one in item["versions"] if one["version"] in ours.versions]}


def ours_at(path: str, accept: str = "", address: str = "x") -> DiscoveryDocument:
    made = discovery.discovered(path, SERVED, accept, address)
    assert made is not None
    return made


async def test_aggregated(transport: HTTPTransport) -> None:
    for path in ("/api", "/apis"):
        ours, (real, content_type) = ours_at(path, V2), await get(transport, path, V2)
        assert content_type == ours.content_type
        by_name = {group.name: group for group in SERVED}
        items = [item for item in real["items"] if item["metadata"].get("name", "") in by_name]
        kept = [only_ours(item, by_name[item["metadata"].get("name", "")]) for item in items]
        for item in [*kept, *ours.document["items"]]:
            if item["metadata"].get("name") == TRAINER:  # see test_one_by_one
                item["versions"][0]["resources"].sort(key=lambda one: one["resource"])
        assert ours.document == {**real, "items": kept}


async def test_one_by_one(transport: HTTPTransport) -> None:
    real, _ = await get(transport, "/api", "application/json")
    address = real["serverAddressByClientCIDRs"][0]["serverAddress"]
    assert ours_at("/api", address=address).document == real
    real, _ = await get(transport, "/apis", "application/json")
    names_of_ours = {group.name for group in SERVED}
    known = [without_old_versions(group) for group in real["groups"] if group["name"] in names_of_ours]
    assert ours_at("/apis").document == {**real, "groups": known}
    for group in SERVED:
        if group.name:
            real, _ = await get(transport, f"/apis/{group.name}", "application/json")
            assert ours_at(f"/apis/{group.name}").document == without_old_versions(real)
        path = f"/apis/{group.name}/{group.preferred}" if group.name else "/api/v1"
        real, _ = await get(transport, path, "application/json")
        known = [one for one in real["resources"] if one["name"] in names(group)]
        ours = ours_at(path).document
        if group.name == TRAINER:
            # The real server lists a group's definitions in the order of a Go map.
            known.sort(key=lambda one: one["name"])
            ours["resources"].sort(key=lambda one: one["name"])
        assert ours == {**real, "resources": known}


async def test_version(transport: HTTPTransport) -> None:
    real, _ = await get(transport, "/version", "")
    made = (real[key] for key in ("gitVersion", "goVersion", "platform", "buildDate"))
    ours = discovery.version("", *made).document
    build = {key: real[key] for key in ("gitCommit", "gitTreeState", "compiler")}
    assert ours | build == real
