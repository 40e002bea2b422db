# SPDX-License-Identifier: Apache-2.0
"""Our OpenAPI documents: beside those of the real API server, and as kubectl reads them."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.unit.local.things import built_in, custom
from trainwright.controller.local.apiserver.views import discovery
from trainwright.controller.local.apiserver.views.discovery import groups_of
from trainwright.controller.local.apiserver.views.openapi import document, document_path, index
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane

Document = dict[str, Any]

TRAINER = "trainer.kubeflow.org"
TRAIN_JOB = custom(TRAINER, "TrainJob", name="v1alpha1", subresources={"status": {}})
SERVED = groups_of([*built_in(), TRAIN_JOB])
METHODS = ("get", "put", "post", "patch", "delete")


@pytest.fixture
async def transport(control_plane: ControlPlane) -> AsyncIterator[HTTPTransport]:
    made = HTTPTransport(load_config(control_plane.kubeconfig))
    yield made
    await made.close()


async def get(transport: HTTPTransport, path: str) -> Document:
    found: Document = json.loads((await transport.send(Request("GET", path))).body)
    return found


async def train_job_schema(transport: HTTPTransport) -> Document:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    found = await get(transport, f"{definitions}/trainjobs.{TRAINER}")
    schema: Document = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


async def documents(transport: HTTPTransport) -> dict[str, Document]:
    served = groups_of([*built_in(), replace(TRAIN_JOB, schema=await train_job_schema(transport))])
    return {
        document_path(group.name, version): document(resources, "1.36")
        for group in served
        for version, resources in group.versions.items()
    }


async def test_documents(transport: HTTPTransport) -> None:
    for path, ours in (await documents(transport)).items():
        real = await get(transport, f"/openapi/v3/{path}")
        for place, item in ours["paths"].items():
            for method in METHODS:
                if method not in item:
                    continue
                if method == "patch" and "{name}" not in place:
                    assert "create" in item["post"]["operationId"]
                    continue  # ours alone, for kubectl
                found, expected = item[method], real["paths"][place][method]
                for key in ("operationId", "x-kubernetes-action", "x-kubernetes-group-version-kind"):
                    assert found[key] == expected[key], (place, method)
                parameters = {
                    (one["name"], one["in"], one["schema"]["type"])
                    for level in (expected, real["paths"][place])
                    for one in level.get("parameters", ())
                }
                for one in (*found.get("parameters", ()), *item["parameters"]):
                    assert (one["name"], one["in"], one["schema"]["type"]) in parameters, (place, method)
                bodies = expected.get("requestBody", {}).get("content", {})
                for kind, body in found.get("requestBody", {}).get("content", {}).items():
                    assert body == (bodies.get(kind) or bodies.get("*/*")), (place, method)


async def test_models_of_custom_resources(transport: HTTPTransport) -> None:
    def structure(schema: Any) -> Any:
        if isinstance(schema, dict):
            kept = {key: structure(value) for key, value in schema.items()}
            if isinstance(kept.get("description"), str):
                del kept["description"]
            return kept
        return [structure(one) for one in schema] if isinstance(schema, list) else schema

    real = await get(transport, f"/openapi/v3/apis/{TRAINER}/v1alpha1")
    ours = (await documents(transport))[f"apis/{TRAINER}/v1alpha1"]
    for name in ("org.kubeflow.trainer.v1alpha1.TrainJob", "org.kubeflow.trainer.v1alpha1.TrainJobList"):
        assert structure(ours["components"]["schemas"][name]) == structure(real["components"]["schemas"][name])


@pytest.fixture
async def server(transport: HTTPTransport) -> AsyncIterator[str]:
    """A server of nothing but our discovery and OpenAPI documents."""
    made = await documents(transport)

    async def answer(request: web.Request) -> web.Response:
        accept, path = request.headers.get("Accept", ""), request.path.strip("/")
        if path.startswith("openapi/v3"):
            name = path.removeprefix("openapi/v3").strip("/")
            found = made.get(name) if name else index(dict.fromkeys(made, "x"))
            if found is None:
                raise web.HTTPNotFound
            return web.Response(body=msgspec.json.encode(found), content_type="application/json")
        got = discovery.discovered(path, SERVED, accept, "x")
        if got is None:
            raise web.HTTPNotFound
        headers = {"Content-Type": got.content_type}
        return web.Response(body=msgspec.json.encode(got.document), headers=headers)

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    yield f"http://127.0.0.1:{port}"
    await runner.cleanup()


async def test_kubectl(server: str, control_plane: ControlPlane, tmp_path: Path) -> None:
    config = {"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "a", "cluster": {"server": server}}]}
    context = {"contexts": [{"name": "a", "context": {"cluster": "a", "user": ""}}], "current-context": "a"}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config | context))

    async def kubectl(*arguments: str) -> str:
        cache = f"--cache-dir={tmp_path / 'cache'}"
        return await asyncio.to_thread(control_plane.kubectl, cache, *arguments, kubeconfig=kubeconfig)

    explained = await kubectl("explain", "job.spec.completions")
    assert "GROUP:      batch" in explained
    assert "FIELD: completions <integer>" in explained
    assert "fieldRef\t<ObjectFieldSelector>" in await kubectl("explain", "pods.spec.containers.env.valueFrom")
    explained = await kubectl("explain", "trainjobs.spec.trainer", "--recursive")
    assert "numNodes\t<integer>" in explained
    listed = await kubectl("api-resources", "--no-headers", "-o", "name")
    assert {"pods", "jobs.batch", "trainjobs.trainer.kubeflow.org"} <= set(listed.split())
    assert "jobs.batch" in await kubectl("api-resources", "--no-headers", "-o", "name", "--categories=all")
