# SPDX-License-Identifier: Apache-2.0
"""The request log, read by the test kit's reader of audit logs."""

import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from trainwright.controller.local.apiserver.http.transport import InProcessTransport
from trainwright.controller.local.cluster import RunningServer, api_server
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing.audit import AuditLog

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with api_server(tmp_path / "state", memory=True, request_log=tmp_path / "audit.log") as running:
        yield running


@pytest.fixture
async def transport(api: RunningServer) -> AsyncIterator[HTTPTransport]:
    made = HTTPTransport(load_config(api.kubeconfig))
    yield made
    await made.close()


async def ask(transport: HTTPTransport, method: str, path: str, body: object = None, **query: str) -> int:
    content = "application/merge-patch+json" if method == "PATCH" else "application/json"
    headers = {"User-Agent": "test/1", "Content-Type": content}
    data = None if body is None else json.dumps(body).encode()
    return (await transport.send(Request(method, path, query=query, headers=headers, body=data))).status


async def test_an_answered_call_is_in_the_log(transport: HTTPTransport, tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    await ask(transport, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    await ask(transport, "GET", f"{CONFIG_MAPS}/a")
    await ask(transport, "GET", "/apis/batch/v1/jobs", labelSelector="a=b", limit="1")
    await ask(transport, "PUT", "/api/v1/namespaces/default/pods/p/status", {"metadata": {"name": "p"}})
    await ask(transport, "DELETE", CONFIG_MAPS, fieldSelector="metadata.name=a")
    await ask(transport, "GET", "/version")
    calls = list(log.calls(user_agent="test/"))
    assert [(one.verb, one.group, one.resource, one.subresource, one.name, one.code) for one in calls] == [
        ("create", "", "configmaps", "", "a", 201),
        ("get", "", "configmaps", "", "a", 200),
        ("list", "batch", "jobs", "", "", 200),
        ("update", "", "pods", "status", "p", 404),
        ("deletecollection", "", "configmaps", "", "", 200),
        ("get", "", "", "", "", 200),
    ]
    assert {one.user for one in calls} == {"kubernetes-admin"}
    assert calls[2].uri == "/apis/batch/v1/jobs?labelSelector=a%3Db&limit=1"
    assert calls[0].time < calls[1].time


async def test_refused_credentials_and_calls_from_the_process_are_logged(api: RunningServer, tmp_path: Path) -> None:
    for token in ("wrong", str(api.config.token)):
        await InProcessTransport(api.server, token).send(Request("GET", "/api/v1/nodes"))
    refused, answered = AuditLog(tmp_path / "audit.log").calls()
    assert (refused.user, refused.code) == ("", 401)
    assert (answered.user, answered.code, answered.verb) == ("kubernetes-admin", 200, "list")


async def test_a_watch_is_logged_at_its_start(transport: HTTPTransport, tmp_path: Path) -> None:
    request = Request("GET", CONFIG_MAPS, query={"watch": "true"}, headers={"User-Agent": "test/1"})
    async with transport.open(request):
        (call,) = AuditLog(tmp_path / "audit.log").calls()
        assert (call.verb, call.code, call.decision) == ("watch", 200, "allow")
