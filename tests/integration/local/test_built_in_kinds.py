# SPDX-License-Identifier: Apache-2.0
"""The strategies of the built-in kinds beside the real API server."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.local import changes, job_documents, kind_documents, pod_documents
from tests.integration.local.kinds import KINDS, Sides, differences
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane

Document = dict[str, Any]

# The real server shows its internal structs of pod templates, with all fields in Go's order.
_STRUCT = re.compile(r"Invalid value: [{\[].*?[}\]]: (?=field is immutable|only additions|no additions)")
_DIFFERENCE = re.compile(r"\n@@ .*?\n(?=$|, )|\n@@ .*$", re.DOTALL)


@pytest.fixture
async def transport(control_plane: ControlPlane) -> AsyncIterator[HTTPTransport]:
    made = HTTPTransport(load_config(control_plane.kubeconfig))
    yield made
    await made.close()


def normal(document: Document) -> Document:
    """Without structs and differences of pod specifications in messages."""
    if document.get("kind") != "Status":
        return document
    made: Document = json.loads(json.dumps(document))
    made["message"] = _DIFFERENCE.sub("", _STRUCT.sub("Invalid value: {}: ", made["message"]))
    for cause in (made.get("details") or {}).get("causes") or []:
        cause["message"] = _DIFFERENCE.sub("", _STRUCT.sub("Invalid value: {}: ", cause["message"]))
    return made


@pytest.mark.parametrize("module", [pod_documents, job_documents, kind_documents], ids=lambda module: module.__name__)
async def test_creations(transport: HTTPTransport, namespace: str, module: Any) -> None:
    sides = Sides(transport, namespace)
    found: dict[str, str] = {}
    for name, document in module.documents(namespace):
        real, ours = await sides.create(document)
        difference = differences(normal(real), normal(ours))
        if difference:
            found[name] = difference
    assert not found


async def test_updates(transport: HTTPTransport, namespace: str) -> None:
    sides = Sides(transport, namespace)
    found: dict[str, str] = {}
    for name, (document, subresource, states) in changes.CHANGES.items():
        found |= await changes.run(sides, name, document, subresource, states, normal)
    assert not found


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
            for subresource in kind.subresources:
                real = resources[f"{kind.plural}/{subresource.name}"]
                assert real["kind"] == subresource.kind
                assert tuple(real["verbs"]) == subresource.verbs
                assert real.get("group", "") == subresource.group
                assert real.get("version", "") == subresource.version
