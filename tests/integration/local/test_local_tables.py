# SPDX-License-Identifier: Apache-2.0
"""Our tables beside those of the real API server, for every kind with columns of its own (`table_objects.yaml`).

Descriptions of columns are left out: ours are empty.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.local.things import resource
from trainwright.api.times import wall_clock
from trainwright.controller.local.apiserver.kinds.definitions import served_versions
from trainwright.controller.local.apiserver.views.tables import (
    table_format,
    table_of,
)
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane

Document = dict[str, Any]

JSON = {"Content-Type": "application/json"}

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
PAST = "2024-02-03T04:05:06Z"
FILE = Path(__file__).with_name("table_objects.yaml")
OBJECTS: dict[str, dict[str, list[Document]]] = yaml.safe_load(FILE.read_text())


@pytest.fixture
async def transport(control_plane: ControlPlane) -> AsyncIterator[HTTPTransport]:
    made = HTTPTransport(load_config(control_plane.kubeconfig))
    yield made
    await made.close()


async def send(transport: HTTPTransport, request: Request) -> Document:
    found: Document = json.loads((await transport.send(request)).body)
    return found


async def create(transport: HTTPTransport, path: str, documents: list[Document], prefix: str) -> None:
    for index, document in enumerate(documents):
        metadata = {**document.get("metadata", {}), "name": f"{prefix}{index}"}
        body = json.dumps({**document, "metadata": metadata}).encode()
        made = await send(transport, Request("POST", path, {}, JSON, body))
        assert made["kind"] != "Status", made["message"]
        if "status" in document:
            merge = {"Content-Type": "application/merge-patch+json"}
            status = json.dumps({"status": document["status"]}).encode()
            place = f"{path}/{metadata['name']}/status"
            made = await send(transport, Request("PATCH", place, {}, merge, status))
            assert made["kind"] != "Status", made["message"]


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


async def compare(transport: HTTPTransport, path: str, api_version: str, kind: str) -> None:
    how = table_format(resource(api_version, kind))
    listed = await send(transport, Request("GET", path))

    async def both() -> tuple[Document, Document]:
        real = comparable(await send(transport, Request("GET", path, headers=TABLE)))
        ours = comparable(table_of(how, listed["items"], real["metadata"], now=wall_clock()))
        return ours, real

    await assert_alike(both)
    for item in listed["items"][:1]:
        place = f"{path}/{item['metadata']['name']}"
        real = comparable(await send(transport, Request("GET", place, {"includeObject": "None"}, TABLE)))
        ours = comparable(table_of(how, [item], item["metadata"], now=wall_clock(), include="None"))
        assert [row["object"] for row in ours["rows"]] == [row["object"] for row in real["rows"]] == [None]
        assert ours["metadata"] == real["metadata"]


async def test_built_in_kinds(transport: HTTPTransport, namespace: str) -> None:
    for name, documents in (OBJECTS["namespaced"] | OBJECTS["cluster"]).items():
        group, version, kind, plural = name.split("/")
        api_version, root = (
            (version, "/api/v1") if group == "api" else (f"{group}/{version}", f"/apis/{group}/{version}")
        )
        inside = f"/namespaces/{namespace}" if name in OBJECTS["namespaced"] else ""
        path = f"{root}{inside}/{plural}"
        for document in documents:
            # Events are in the namespace of what they are about.
            for reference in document.keys() & {"involvedObject", "regarding"}:
                document[reference]["namespace"] = namespace
        await create(transport, path, documents, f"{namespace}-{group[:3]}-")
        await compare(transport, path, api_version, kind)


async def test_a_default_storage_class_is_marked(transport: HTTPTransport, namespace: str) -> None:
    """Only tried (`dryRun`): one that is stored would give its name to the claims of all other tests."""
    path, kind = "/apis/storage.k8s.io/v1/storageclasses", "StorageClass"
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    body = json.dumps({"provisioner": "p", "metadata": {"name": namespace, "annotations": annotations}}).encode()
    query = {"dryRun": "All", "includeObject": "None"}
    made = await send(transport, Request("POST", path, {"dryRun": "All"}, JSON, body))
    real = await send(transport, Request("POST", path, query, JSON | TABLE, body))
    how = table_format(resource("storage.k8s.io/v1", kind))
    ours = table_of(how, [made], {}, now=wall_clock(), include="None")
    # A dry run has no time of creation, so what differs is the age, the last column.
    assert real["rows"][0]["cells"][0] == f"{namespace} (default)"
    assert ours["rows"][0]["cells"][:-1] == real["rows"][0]["cells"][:-1]


async def test_custom_resources(transport: HTTPTransport, namespace: str) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/trainjobs.trainer.kubeflow.org"
    definition = await send(transport, Request("GET", definitions))
    how = table_format(served_versions(definition["spec"])[0])
    path = f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs"
    kind = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    await create(transport, path, [{**kind, "spec": {"runtimeRef": {"name": "x"}}}], "t")
    condition = {"type": "Suspended", "status": "True", "reason": "R", "message": "", "lastTransitionTime": PAST}
    merge = {"Content-Type": "application/merge-patch+json"}
    status = json.dumps({"status": {"conditions": [condition]}}).encode()
    await send(transport, Request("PATCH", f"{path}/t0/status", {}, merge, status))
    listed = await send(transport, Request("GET", path))

    async def both() -> tuple[Document, Document]:
        real = await send(transport, Request("GET", path, {"includeObject": "Object"}, TABLE))
        ours = table_of(how, listed["items"], real["metadata"], now=wall_clock(), include="Object")
        # The name's description is Kubernetes' API documentation.
        real["columnDefinitions"][0]["description"] = ""
        return ours, real

    await assert_alike(both)
