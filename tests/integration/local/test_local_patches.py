# SPDX-License-Identifier: Apache-2.0
"""Our patches beside those of the real API server: their results, and what is said of wrong ones.

A patch is sent to the server as a dry run. Ours is applied to the stored object, and what it makes is sent as a dry run
of an update, so that defaults, conversion and validation are the server's in both.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.cases import cases
from tests.scenarios.comparison import SENTENCES
from trainwright.controller.local.apiserver.errors import StatusError
from trainwright.controller.local.apiserver.merge.patch import json_patch, merge_patch, read_patch
from trainwright.controller.local.apiserver.merge.strategic import strategic_merge_patch
from trainwright.controller.local.types.model import Types
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane

Document = dict[str, Any]

JSON, MERGE, STRATEGIC = "json-patch", "merge-patch", "strategic-merge-patch"
MODELS = {
    "configmaps": "io.k8s.api.core.v1.ConfigMap",
    "services": "io.k8s.api.core.v1.Service",
    "pods": "io.k8s.api.core.v1.Pod",
    "podtemplates": "io.k8s.api.core.v1.PodTemplate",
    "jobs": "io.k8s.api.batch.v1.Job",
}
CASES = cases(__file__)
OBJECTS: dict[str, Document] = CASES["objects"]


@pytest.fixture
async def transport(control_plane: ControlPlane) -> AsyncIterator[HTTPTransport]:
    made = HTTPTransport(load_config(control_plane.kubeconfig))
    yield made
    await made.close()


async def answer(transport: HTTPTransport, method: str, path: str, body: bytes, kind: str = "") -> Document:
    query = {} if method == "POST" else {"dryRun": "All"}
    content = {"Content-Type": f"application/{kind}+json" if kind else "application/json"}
    got = await transport.send(Request(method, path, query, headers=content, body=body))
    found: Document = json.loads(got.body)
    found.get("metadata", {}).pop("managedFields", None)
    return found


def ours(live: Document, kind: str, body: bytes, models: Document, model: str) -> Document:
    if kind == JSON:
        made: Document = json_patch(live, body)
        return made
    if kind == MERGE:
        return merge_patch(live, read_patch(body))
    return strategic_merge_patch(live, read_patch(body) or {}, Types(models).named(model))


def without_sentence(answer: Document) -> Document:
    """Errors about what a client sent have other words here: docs/local-differences.md."""
    if answer["kind"] != "Status" or answer["code"] not in SENTENCES:
        return answer
    return {key: value for key, value in answer.items() if key != "message"}


async def compare(
    transport: HTTPTransport, namespace: str, cases: list[tuple[str, str, bytes]]
) -> list[tuple[str, Document, Document]]:
    """The cases in which the two differ, with our answer and the real one."""
    different: list[tuple[str, Document, Document]] = []
    models: Document = {}
    for group in ("api/v1", "apis/batch/v1"):
        got = await transport.send(Request("GET", f"/openapi/v3/{group}"))
        models |= json.loads(got.body)["components"]["schemas"]
    for plural in sorted({plural for plural, _, _ in cases}):
        group = "/apis/batch/v1" if plural == "jobs" else "/api/v1"
        folder = f"{group}/namespaces/{namespace}/{plural}"
        created = {**OBJECTS[plural], "metadata": {"name": "a", **OBJECTS[plural].get("metadata", {})}}
        live = await answer(transport, "POST", folder, json.dumps(created).encode())
        assert live["kind"] != "Status", live
        for _, kind, body in (case for case in cases if case[0] == plural):
            real = await answer(transport, "PATCH", f"{folder}/a", body, kind)
            try:
                made = ours(live, kind, body, models, MODELS[plural])
            except StatusError as error:
                found = error.document()
            else:
                found = await answer(transport, "PUT", f"{folder}/a", json.dumps(made).encode())
            if without_sentence(found) != without_sentence(real):
                different.append((f"{plural} {kind} {body.decode()}", found, real))
    return different


async def test_strategic_merge_patches(transport: HTTPTransport, namespace: str) -> None:
    sent = [(plural, STRATEGIC, json.dumps(patch).encode()) for plural, patch in CASES["strategic"]]
    assert not await compare(transport, namespace, sent)


async def test_bodies(transport: HTTPTransport, namespace: str) -> None:
    assert not await compare(
        transport, namespace, [("configmaps", kind, body.encode()) for kind, body in CASES["bodies"]]
    )
