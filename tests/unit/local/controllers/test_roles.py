# SPDX-License-Identifier: Apache-2.0
"""Aggregated roles that are there, and behind, when the controller starts."""

import asyncio
from typing import Any

import msgspec
import pytest

from trainwright.api.objects import Document
from trainwright.controller.local.controllers.objects import CLUSTER_ROLE
from trainwright.controller.local.controllers.roles import RoleController
from trainwright.controller.runtime import NO_SERVERS, ClusterConfig, Manager, ProcessSettings
from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.testing.clock import jumping
from trainwright.controller.runtime.testing.scripted import ScriptedTransport, is_list, listing

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
READ = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}


def role(name: str, *rules: Document, part_of: str = "", collects: str = "") -> Document:
    labels = {part_of: "true"} if part_of else {}
    selectors = [{"matchLabels": {collects: "true"}}]
    more = {"aggregationRule": {"clusterRoleSelectors": selectors}} if collects else {}
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": labels}
    return {
        "apiVersion": CLUSTER_ROLE.api_version,
        "kind": CLUSTER_ROLE.kind,
        "metadata": metadata,
        "rules": [*rules],
        **more,
    }


class Server(ScriptedTransport):
    """Keeps the rules that are written."""

    def __init__(self, *roles: Document) -> None:
        super().__init__()
        self.roles = {one["metadata"]["name"]: one for one in roles}
        self.written: list[str] = []

    async def send(self, request: Request) -> Response:
        if request.method != "PATCH":
            return await super().send(request)
        patch: dict[str, Any] = msgspec.json.decode(request.body or b"")
        name = patch["metadata"]["name"]
        self.written.append(name)
        held = self.roles[name]
        version = str(10 + len(self.written))
        held = {**held, "rules": patch["rules"], "metadata": {**held["metadata"], "resourceVersion": version}}
        self.roles[name] = held
        return Response(200, {}, msgspec.json.encode(held))


@jumping
async def test_roles_that_are_behind_at_the_start_are_brought_up_to_date(caplog: pytest.LogCaptureFixture) -> None:
    """One collects what another one has collected, whichever comes first."""
    server = Server(
        role("a-first", collects="to-first"),
        role("b-second", part_of="to-first", collects="to-second"),
        role("reads", READ, part_of="to-second"),
    )
    server.answer(lambda r: r.path == ROLES and is_list(r), listing("9", *server.roles.values()))
    server.stream(lambda r: r.path == ROLES and "watch" in r.query)
    process = ProcessSettings(streaming_lists=False)
    config = ClusterConfig(server="http://script")
    manager = Manager(config, transport=server, field_manager="roles", servers=NO_SERVERS, process=process)
    RoleController(manager)
    running = asyncio.ensure_future(manager.run())
    await asyncio.sleep(10)
    manager.stop()
    await running
    assert server.written == ["b-second", "a-first"]
    assert [server.roles[name]["rules"] for name in ("a-first", "b-second")] == [[READ], [READ]]
    assert caplog.records == []
