# SPDX-License-Identifier: Apache-2.0
"""Requests on behalf of another user."""

import json
from pathlib import Path

import pytest

from tests.cases import cases
from tests.unit.local.identity.conftest import AUTHENTICATION, Asker, Document
from trainwright.controller.local.apiserver.errors import StatusError
from trainwright.controller.local.apiserver.http.server import impersonation
from trainwright.controller.local.apiserver.request.info import ANONYMOUS, ServerRequest, User
from trainwright.controller.local.cluster import api_server
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request

CASES = cases(__file__)

REVIEWS = f"/apis/{AUTHENTICATION}/selfsubjectreviews"
AUTHENTICATED, ACCOUNT = "system:authenticated", "system:serviceaccount:ns:a"


def asked(*headers: tuple[str, str]) -> User | None:
    found = impersonation(ANONYMOUS, headers)
    return found[0] if found is not None else None


@pytest.mark.parametrize(("name", "headers", "groups"), CASES["groups"])
def test_groups(name: str, headers: list[str], groups: list[str]) -> None:
    found = asked(("impersonate-user", name), *(("impersonate-group", group) for group in headers))
    assert found is not None
    assert (found.name, list(found.groups)) == (name, groups)


def test_uid_and_extra() -> None:
    found = asked(
        ("impersonate-uid", "u"),
        ("impersonate-extra-example.com%2fscopes", "view"),
        ("impersonate-extra-example.com%2fscopes", "edit"),
        ("impersonate-user", "system:node:n"),
    )
    assert found is not None
    assert (found.uid, found.extra) == ("u", {"example.com/scopes": ("view", "edit")})
    assert found.groups == (AUTHENTICATED,), "a node has its group only if no more than its name is given"


def test_without_a_name() -> None:
    assert asked() is None
    assert asked(("impersonate-user", "")) is None
    with pytest.raises(StatusError) as failed:
        asked(("impersonate-group", "g"), ("impersonate-extra-a", "1"))
    assert (failed.value.code, failed.value.reason) == (400, "BadRequest")


async def test_who_cannot_impersonate_and_who_has_no_rights(ask: Asker) -> None:
    as_bob, as_nobody = [("impersonate-user", "bob")], [("impersonate-user", "system:anonymous")]

    async def status(path: str, impersonation: list[tuple[str, str]], token: str) -> int:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        request = ServerRequest(method="GET", path=path, headers=headers, impersonation=impersonation)
        return (await ask.api.server.handle(request)).status

    assert await status("/api/v1/nodes", as_bob, ask.admin) == 200
    assert await status("/healthz", as_nobody, ask.admin) == 200
    assert await status("/api/v1/nodes", as_nobody, ask.admin) == 403
    assert await status("/healthz", as_bob, "") == 403


async def test_over_https_and_in_the_request_log(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with api_server(tmp_path / "state", memory=True, request_log=log) as api:
        transport = HTTPTransport(load_config(api.kubeconfig))
        headers = {"Content-Type": "application/json", "Impersonate-User": "bob", "Impersonate-Group": "g"}
        answer = await transport.send(Request("POST", REVIEWS, headers=headers, body=b"{}"))
        await transport.close()
    bob: Document = {"username": "bob", "groups": ["g", AUTHENTICATED]}
    assert json.loads(answer.body)["status"] == {"userInfo": bob}
    line = json.loads(log.read_text().splitlines()[-1])
    assert (line["user"]["username"], line["impersonatedUser"]) == ("kubernetes-admin", bob)
