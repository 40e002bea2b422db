# SPDX-License-Identifier: Apache-2.0
"""Subresources of built-in kinds: which verbs they have, and which objects they take."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.local.identity.conftest import PODS, Asker
from trainwright.controller.local.cluster import api_server

FINALIZE = "/api/v1/namespaces/default/finalize"


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    """Asks a server with a pod `p`."""
    async with api_server(tmp_path / "state", memory=True) as api:
        asker = Asker(api)
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert (await asker("POST", PODS, pod))[0] == 201
        yield asker


@pytest.mark.parametrize("method", ["GET", "PATCH", "POST", "DELETE"])
async def test_finalize_can_only_be_updated(ask: Asker, method: str) -> None:
    status, answer = await ask(method, FINALIZE, {})
    assert (status, answer["reason"]) == (405, "MethodNotAllowed")
    assert (await ask("PUT", FINALIZE, {"metadata": {"name": "default"}}))[0] == 200


async def test_a_status_can_be_read(ask: Asker) -> None:
    assert (await ask("GET", f"{PODS}/p/status"))[0] == 200
    assert (await ask("DELETE", f"{PODS}/p/status"))[0] == 405


@pytest.mark.parametrize("subresource", ["binding", "eviction"])
async def test_the_object_is_in_the_namespace_of_the_url(ask: Asker, subresource: str) -> None:
    target = {"kind": "Node", "name": "n"} if subresource == "binding" else None
    body = {"metadata": {"name": "p", "namespace": "other"}, **({"target": target} if target else {})}
    status, answer = await ask("POST", f"{PODS}/p/{subresource}", body)
    assert (status, answer["message"]) == (
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    )
    body["metadata"]["namespace"] = "default"
    assert (await ask("POST", f"{PODS}/p/{subresource}", body))[0] == 201
