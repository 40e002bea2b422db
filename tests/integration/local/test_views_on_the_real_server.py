# SPDX-License-Identifier: Apache-2.0
"""How we show and find objects, beside the real API server: tables, protobuf, discovery, OpenAPI.

Our functions get what the real server has; what they make is compared with its answers. Descriptions of columns are
left out: ours are empty.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.local.things import built_in, custom, resource
from trainwright.api.times import wall_clock
from trainwright.controller.local.apiserver.http.pages import version as version_page
from trainwright.controller.local.apiserver.kinds.definitions import served_versions
from trainwright.controller.local.apiserver.request.info import ServerRequest
from trainwright.controller.local.apiserver.request.protobuf import MEDIA_TYPE, decode
from trainwright.controller.local.apiserver.views import discovery
from trainwright.controller.local.apiserver.views.discovery import AGGREGATED_TYPE, DiscoveryGroup, groups_of
from trainwright.controller.local.apiserver.views.openapi import document, document_path
from trainwright.controller.local.apiserver.views.tables import table_format, table_of
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane

Document = dict[str, Any]

JSON, MERGE = {"Content-Type": "application/json"}, {"Content-Type": "application/merge-patch+json"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
FILE = Path(__file__).with_name("view_objects.yaml")
OBJECTS: dict[str, Any] = yaml.safe_load(FILE.read_text())
TRAINER = "trainer.kubeflow.org"
PAST = "2024-02-03T04:05:06Z"


class Server:
    """The real API server."""

    def __init__(self, transport: HTTPTransport, namespace: str) -> None:
        self.transport, self.namespace = transport, namespace

    async def get(self, path: str, *, headers: dict[str, str] | None = None, **query: str) -> Document:
        got = await self.transport.send(Request("GET", path, query, headers or {}))
        found: Document = json.loads(got.body)
        return found

    async def write(self, method: str, path: str, body: Document, **query: str) -> Document:
        content = MERGE if method == "PATCH" else JSON
        got = await self.transport.send(Request(method, path, query, content, json.dumps(body).encode()))
        made: Document = json.loads(got.body)
        assert made["kind"] != "Status", made["message"]
        return made

    async def create(self, path: str, documents: list[Document], prefix: str) -> None:
        """Create objects, with their status if they have one."""
        for index, one in enumerate(documents):
            metadata = {**one.get("metadata", {}), "name": f"{prefix}{index}"}
            await self.write("POST", path, {**one, "metadata": metadata})
            if "status" in one:
                await self.write("PATCH", f"{path}/{metadata['name']}/status", {"status": one["status"]})

    def objects(self) -> Iterator[tuple[str, str, str, list[Document]]]:
        """Path, apiVersion, kind and objects of the resources of the file."""
        for scope in ("namespaced", "cluster"):
            for name, documents in OBJECTS[scope].items():
                group, version, kind, plural = name.split("/")
                root, api_version = f"/apis/{group}/{version}", f"{group}/{version}"
                if group == "api":
                    root, api_version = "/api/v1", version
                inside = f"/namespaces/{self.namespace}" if scope == "namespaced" else ""
                for one in documents:
                    # Events are in the namespace of what they are about.
                    for reference in one.keys() & {"involvedObject", "regarding"}:
                        one[reference]["namespace"] = self.namespace
                yield f"{root}{inside}/{plural}", api_version, kind, documents


@pytest.fixture
async def server(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Server]:
    transport = HTTPTransport(load_config(control_plane.kubeconfig))
    yield Server(transport, namespace)
    await transport.close()


# ------------------------------------------------------------------ tables


def comparable(table: Document) -> Document:
    columns = [{**column, "description": ""} for column in table["columnDefinitions"]]
    return {**table, "columnDefinitions": columns}


async def assert_alike(both: Callable[[], Awaitable[tuple[Document, Document]]]) -> None:
    """Ages may change between the two, so a difference is looked at again."""
    ours, real = await both()
    for _ in range(20):
        if ours == real:
            return
        ours, real = await both()
    assert ours["rows"] == real["rows"]
    assert ours == real


async def test_tables_of_built_in_kinds(server: Server) -> None:
    for path, api_version, kind, documents in server.objects():
        await server.create(path, documents, f"{server.namespace}-{api_version[:3].lower()}-")
        how, listed = table_format(resource(api_version, kind)), await server.get(path)

        async def both() -> tuple[Document, Document]:
            real = comparable(await server.get(path, headers=TABLE))  # noqa: B023 - called in this turn
            items = listed["items"]  # noqa: B023
            return comparable(table_of(how, items, real["metadata"], now=wall_clock())), real  # noqa: B023

        await assert_alike(both)
        for item in listed["items"][:1]:
            place = f"{path}/{item['metadata']['name']}"
            real = comparable(await server.get(place, headers=TABLE, includeObject="None"))
            ours = comparable(table_of(how, [item], item["metadata"], now=wall_clock(), include="None"))
            assert [row["object"] for row in ours["rows"]] == [row["object"] for row in real["rows"]] == [None]
            assert ours["metadata"] == real["metadata"]


async def test_a_default_storage_class_is_marked(server: Server) -> None:
    """Only tried (`dryRun`): one that is stored would give its name to the claims of all other tests."""
    path, annotations = (
        "/apis/storage.k8s.io/v1/storageclasses",
        {"storageclass.kubernetes.io/is-default-class": "true"},
    )
    body = {"provisioner": "p", "metadata": {"name": server.namespace, "annotations": annotations}}
    made = await server.write("POST", path, body, dryRun="All")
    query = {"dryRun": "All", "includeObject": "None"}
    got = await server.transport.send(Request("POST", path, query, JSON | TABLE, json.dumps(body).encode()))
    ours = table_of(table_format(resource("storage.k8s.io/v1", "StorageClass")), [made], {}, now=wall_clock())
    # A dry run has no time of creation, so what differs is the age, the last column.
    real = json.loads(got.body)["rows"][0]["cells"]
    assert real[0] == f"{server.namespace} (default)"
    assert ours["rows"][0]["cells"][:-1] == real[:-1]


async def train_jobs(server: Server) -> Document:
    """The definition, as it is stored."""
    return await server.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/trainjobs.{TRAINER}")


async def test_tables_of_custom_resources(server: Server) -> None:
    how = table_format(served_versions((await train_jobs(server))["spec"])[0])
    path = f"/apis/{TRAINER}/v1alpha1/namespaces/{server.namespace}/trainjobs"
    condition = {"type": "Suspended", "status": "True", "reason": "R", "message": "", "lastTransitionTime": PAST}
    job = {"apiVersion": f"{TRAINER}/v1alpha1", "kind": "TrainJob", "spec": {"runtimeRef": {"name": "x"}}}
    await server.create(path, [{**job, "status": {"conditions": [condition]}}], "t")
    listed = await server.get(path)

    async def both() -> tuple[Document, Document]:
        real = await server.get(path, headers=TABLE, includeObject="Object")
        ours = table_of(how, listed["items"], real["metadata"], now=wall_clock(), include="Object")
        # The name's description is Kubernetes' API documentation.
        real["columnDefinitions"][0]["description"] = ""
        return ours, real

    await assert_alike(both)


# ------------------------------------------------------------------ protobuf


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


async def test_protobuf(server: Server) -> None:
    """What the real server encodes in protobuf is decoded to what it encodes in JSON."""
    for path, api_version, _, documents in server.objects():
        wanted = [OBJECTS["pod"]] if path.endswith("/pods") else documents
        for index, one in enumerate(wanted):
            name = f"{server.namespace}-p{api_version[:3].lower()}-{index}"
            await server.write("POST", path, {**one, "metadata": {**one.get("metadata", {}), "name": name}})
        items = (await server.get(path))["items"]
        assert len(items) >= len(wanted)
        for item in items:
            place = f"{path}/{item['metadata']['name']}"
            encoded = (await server.transport.send(Request("GET", place, headers={"Accept": MEDIA_TYPE}))).body
            assert without_nulls(decode(encoded)) == without_nulls(await server.get(place)), place


# ------------------------------------------------------------------ discovery


V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
CUSTOM = [
    custom(TRAINER, "ClusterTrainingRuntime", name="v1alpha1", scope="Cluster"),
    custom(TRAINER, "TrainingRuntime", name="v1alpha1"),
    custom(TRAINER, "TrainJob", name="v1alpha1", subresources={"status": {}}),
]
SERVED = groups_of([*built_in(), *CUSTOM])


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


def ours_at(path: str, accept: str = "", address: str = "x") -> Document:
    made = discovery.discovered(path, SERVED, accept, address)
    assert made is not None
    return made


async def test_aggregated(server: Server) -> None:
    for path in ("/api", "/apis"):
        ours, got = ours_at(path, V2), await server.transport.send(Request("GET", path, headers={"Accept": V2}))
        real = json.loads(got.body)
        assert got.headers["content-type"] == AGGREGATED_TYPE
        by_name = {group.name: group for group in SERVED}
        items = [item for item in real["items"] if item["metadata"].get("name", "") in by_name]
        kept = [only_ours(item, by_name[item["metadata"].get("name", "")]) for item in items]
        for item in [*kept, *ours["items"]]:
            if item["metadata"].get("name") == TRAINER:  # see test_one_by_one
                item["versions"][0]["resources"].sort(key=lambda one: one["resource"])
        for found in (kept, ours["items"]):
            found.sort(key=lambda item: str(item["metadata"].get("name")))
        assert ours == {**real, "items": kept}


async def test_one_by_one(server: Server) -> None:
    real = await server.get("/api")
    address = real["serverAddressByClientCIDRs"][0]["serverAddress"]
    assert ours_at("/api", address=address) == real
    real = await server.get("/apis")
    names_of_ours = {group.name for group in SERVED}
    known = [without_old_versions(group) for group in real["groups"] if group["name"] in names_of_ours]
    listed = ours_at("/apis")
    for groups in (listed["groups"], known):
        groups.sort(key=lambda group: str(group["name"]))
    assert listed == {**real, "groups": known}
    for group in SERVED:
        if group.name:
            real = await server.get(f"/apis/{group.name}")
            assert ours_at(f"/apis/{group.name}") == without_old_versions(real)
        path = f"/apis/{group.name}/{group.preferred}" if group.name else "/api/v1"
        real = await server.get(path)
        known = [one for one in real["resources"] if one["name"] in names(group)]
        ours = ours_at(path)
        if group.name == TRAINER:
            # The real server lists a group's definitions in the order of a Go map.
            known.sort(key=lambda one: one["name"])
            ours["resources"].sort(key=lambda one: one["name"])
        assert ours == {**real, "resources": known}


async def test_version(server: Server) -> None:
    made = version_page(ServerRequest(method="GET", path="/version"))
    assert made is not None
    real, ours = await server.get("/version"), json.loads(made.body)
    assert ours.keys() == real.keys()
    assert {key: ours[key] for key in ours if "jor" in key or "nor" in key} == {
        key: real[key] for key in real if "jor" in key or "nor" in key
    }


# ------------------------------------------------------------------ OpenAPI


async def documents_of(server: Server) -> dict[str, Document]:
    schema = (await train_jobs(server))["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    job = custom(TRAINER, "TrainJob", name="v1alpha1", subresources={"status": {}})
    return {
        document_path(group.name, version): document(resources, "1.36")
        for group in groups_of([*built_in(), replace(job, schema=schema)])
        for version, resources in group.versions.items()
    }


async def test_documents(server: Server) -> None:
    """What there is of operations is as on the real server: the kind, and what a patch takes."""
    for path, ours in (await documents_of(server)).items():
        real = await server.get(f"/openapi/v3/{path}")
        for place, item in ours["paths"].items():
            for method, found in item.items():
                if method == "patch" and "{name}" not in place:
                    assert real["paths"][place].keys() & {"post", "patch"} == {"post"}
                    continue  # ours alone, for kubectl
                expected = real["paths"][place][method]
                kind = "x-kubernetes-group-version-kind"
                assert found[kind] == expected[kind], (place, method)
                parameters = {one["name"]: one["schema"]["type"] for one in expected.get("parameters", ())}
                for one in found.get("parameters", ()):
                    assert one["schema"]["type"] == parameters[one["name"]], (place, method)
                assert found.get("requestBody", {"content": {}})["content"].items() <= (
                    expected.get("requestBody", {}).get("content", {}).items()
                ), (place, method)


async def test_models_of_custom_resources(server: Server) -> None:
    def structure(schema: Any) -> Any:
        if isinstance(schema, dict):
            kept = {key: structure(value) for key, value in schema.items()}
            if isinstance(kept.get("description"), str):
                del kept["description"]
            return kept
        return [structure(one) for one in schema] if isinstance(schema, list) else schema

    real = await server.get(f"/openapi/v3/apis/{TRAINER}/v1alpha1")
    ours = (await documents_of(server))[f"apis/{TRAINER}/v1alpha1"]
    for name in ("org.kubeflow.trainer.v1alpha1.TrainJob", "org.kubeflow.trainer.v1alpha1.TrainJobList"):
        assert structure(ours["components"]["schemas"][name]) == structure(real["components"]["schemas"][name])
