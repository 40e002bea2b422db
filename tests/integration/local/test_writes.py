# SPDX-License-Identifier: Apache-2.0
"""The recorded writes of built-in kinds, on the local API server and on the real one: the same answers."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.local.writes import ANSWERS, KINDS, Answers, answers
from trainwright.controller.local.cluster import api_server
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing import ControlPlane


@pytest.fixture
async def transport(control_plane: ControlPlane) -> AsyncIterator[HTTPTransport]:
    made = HTTPTransport(load_config(control_plane.kubeconfig))
    yield made
    await made.close()


async def test_the_recorded_answers_are_those_of_the_real_server(transport: HTTPTransport) -> None:
    assert _differences(await answers(transport)) == ""


@pytest.mark.local_is_enough
async def test_the_local_server_answers_as_recorded(tmp_path: Path) -> None:
    async with api_server(tmp_path, memory=True, service_accounts=False) as running:
        assert _differences(await answers(running.transport())) == ""


def _differences(found: Answers) -> str:
    recorded: Answers = json.loads(ANSWERS.read_text())
    told = [(group, name) for group, of_group in recorded.items() for name in of_group]
    assert len(told) > 400
    assert [(group, name) for group, of_group in found.items() for name in of_group] == told
    return "\n".join(
        f"{group}, {name}:\n    {recorded[group][name]}\n    {found[group][name]}"
        for group, name in told
        if recorded[group][name] != found[group][name]
    )


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
