# SPDX-License-Identifier: Apache-2.0
"""What the body and the query of a deletion say, and what it does when another one overtakes it."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from trainwright.controller.local.apiserver.request.info import Query, ServerRequest
from trainwright.controller.local.apiserver.store import ObjectName
from trainwright.controller.local.cluster import RunningServer, api_server

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server with a ConfigMap `a`."""
    async with api_server(tmp_path / "state", memory=True) as running:
        made = await asked(running, "POST", CONFIG_MAPS, body=b'{"metadata":{"name":"a"}}')
        assert made[0] == 201
        yield running


async def asked(
    api: RunningServer,
    method: str,
    path: str = f"{CONFIG_MAPS}/a",
    *,
    query: Query = (),
    body: bytes = b"",
    media: str = "application/json",
) -> tuple[int, str]:
    """Status and message."""
    headers = {"authorization": f"Bearer {api.config.token}", "content-type": media}
    request = ServerRequest(method=method, path=path, query=query, headers=headers, body=body)
    answer = await api.server.handle(request)
    return answer.status, msgspec.json.decode(answer.body).get("message", "")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"preconditions":[]}', "preconditions: expected an object"),
        (b'{"orphanDependents":"true"}', "orphanDependents: expected true or false"),
        (b'{"gracePeriodSeconds":"5"}', "gracePeriodSeconds: expected an integer of 64 bits"),
        (b'{"dryRun":"All"}', "dryRun: expected a list"),
        (
            b'{"kind":5}',
            "couldn't get version/kind: kind is not a string",
        ),
    ],
)
async def test_bodies_with_wrong_types(api: RunningServer, body: bytes, message: str) -> None:
    assert await asked(api, "DELETE", body=body) == (400, message)


async def test_other_bodies(api: RunningServer) -> None:
    status, message = await asked(api, "DELETE", body=b"{}", media="text/plain")
    assert status == 415
    assert message.startswith("the body of the request was in an unknown format - accepted media types include: ")
    assert await asked(api, "DELETE", body=b"null") == (200, "")


async def test_preconditions_in_the_query(api: RunningServer) -> None:
    for name, named in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        status, message = await asked(api, "DELETE", query=[(name, "x")])
        assert status == 409
        assert f"the {named} in the precondition (x) does not match the {named} in record" in message
    assert await asked(api, "DELETE", query=[("uid", "")]) == (200, "")


async def test_another_object_that_got_the_name_stays(api: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = b'{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"a","image":"x"}]}}'
    assert (await asked(api, "POST", PODS, body=pod))[0] == 201
    store, key = api.server.store, ObjectName("default", "p")
    committed = store.committed

    async def overtaken(version: int | None = None) -> None:
        if store.get("pods", key) is None:
            assert (await asked(api, "POST", PODS, body=pod))[0] == 201
        await committed(version)

    monkeypatch.setattr(store, "committed", overtaken)
    assert await asked(api, "DELETE", f"{PODS}/p", query=[("gracePeriodSeconds", "0")]) == (200, "")
    assert (await asked(api, "GET", f"{PODS}/p"))[0] == 200
