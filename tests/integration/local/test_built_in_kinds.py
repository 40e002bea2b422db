# SPDX-License-Identifier: Apache-2.0
"""The strategies of the built-in kinds beside the real API server."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.local import changes, foreign_documents, job_documents, kind_documents, pod_documents
from tests.integration.local.kinds import KINDS, Sides
from trainwright.controller.local.cluster import api_server
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane


@pytest.fixture
async def transport(control_plane: ControlPlane) -> AsyncIterator[HTTPTransport]:
    made = HTTPTransport(load_config(control_plane.kubeconfig))
    yield made
    await made.close()


@pytest.fixture
async def sides(transport: HTTPTransport, namespace: str, tmp_path: Path) -> AsyncIterator[Sides]:
    async with api_server(tmp_path, memory=True, service_accounts=False) as running:
        made = Sides(transport, running.transport(), namespace)
        await made.prepare()
        yield made


@pytest.mark.parametrize(
    "module",
    [pod_documents, job_documents, kind_documents, foreign_documents],
    ids=lambda module: module.__name__,
)
async def test_creations(sides: Sides, module: Any) -> None:
    found = {name: await sides.created(document) for name, document in module.documents(sides.namespace)}
    assert not {name: difference for name, difference in found.items() if difference}


@pytest.mark.parametrize("name", changes.CHANGES)
async def test_updates(sides: Sides, name: str) -> None:
    assert not await changes.run(sides, name)


async def test_discovery(transport: HTTPTransport) -> None:
    """The table says of each kind what the real server's discovery does; of subresources it has those of this one."""
    for version in {api_version for api_version, _ in KINDS}:
        answer = await transport.send(Request("GET", f"/apis/{version}" if "/" in version else f"/api/{version}"))
        resources = {one["name"]: one for one in json.loads(answer.body)["resources"]}
        for kind in KINDS.values():
            if kind.api_version != version:
                continue
            real = resources[kind.plural]
            assert real["kind"] == kind.kind
            assert real["singularName"] == kind.singular
            assert real["namespaced"] == kind.namespaced
            assert tuple(real["verbs"]) == kind.verbs
            assert tuple(real.get("shortNames", ())) == kind.short_names
            assert tuple(real.get("categories", ())) == kind.categories
            for subresource in kind.subresources.values():
                real = resources[f"{kind.plural}/{subresource.name}"]
                assert real["kind"] == subresource.kind
                assert tuple(real["verbs"]) == subresource.verbs
                assert real.get("group", "") == subresource.group
                assert real.get("version", "") == subresource.version
