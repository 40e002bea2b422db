# SPDX-License-Identifier: Apache-2.0
"""The client against a script: retries, errors, options."""

import asyncio
import re
from typing import Any

import pytest

import trainwright
from trainwright.api.base import Resource
from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.kubernetes.meta.v1 import ObjectMeta
from trainwright.api.objects import Key
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.credentials import TokenFile
from trainwright.controller.runtime.client.session import WriteDefaults
from trainwright.controller.runtime.client.transport import Request, object_path
from trainwright.controller.runtime.context import Reconcile, current_reconcile
from trainwright.controller.runtime.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    ConfigurationError,
    Conflict,
    ConnectionLost,
    DecodeError,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    RequestTimeout,
    ServerError,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from trainwright.controller.runtime.testing.clock import jumping
from trainwright.controller.runtime.testing.objects import build, config_map
from trainwright.controller.runtime.testing.scripted import ScriptedTransport, is_list, is_write, listing, status_body

FOREVER = float("inf")
MAP = ConfigMap(metadata=ObjectMeta(name="a", namespace="default"))


def now() -> float:
    return asyncio.get_running_loop().time()


def made(**options: Any) -> tuple[Client, ScriptedTransport]:
    transport = ScriptedTransport()
    return Client(transport, **options), transport


@jumping
async def test_a_write_is_repeated_when_the_server_asks_for_it() -> None:
    client, transport = made()
    transport.answer(is_write, status_body(429, "TooManyRequests"), status=429, headers={"retry-after": "2"})
    transport.answer(is_write, config_map("a", version="1"))
    await client.create(MAP)
    assert transport.times == [0, 2]


@jumping
@pytest.mark.parametrize("headers", [{}, {"retry-after": "²"}], ids=["without", "no number"])
async def test_without_retry_after_nothing_is_repeated(headers: dict[str, str]) -> None:
    client, transport = made()
    transport.answer(is_write, status_body(429, "TooManyRequests"), status=429, headers=headers)
    with pytest.raises(TooManyRequests):
        await client.create(MAP)
    assert len(transport.requests) == 1


@jumping
async def test_a_lost_read_is_repeated_a_lost_write_is_not() -> None:
    client, transport = made()
    transport.fail(is_list, ConnectionLost("reset"))
    transport.answer(is_list, config_map("a", version="1"))
    await client.get(ConfigMap, "a", "default")
    assert transport.times == [0, 1]
    transport.fail(is_write, ConnectionLost("reset"))
    with pytest.raises(ConnectionLost):
        await client.create(MAP)
    transport.fail(is_list, Unreachable("refused"))
    with pytest.raises(Unreachable):
        await client.get(ConfigMap, "a", "default")
    assert len(transport.requests) == 4


@jumping
async def test_repetition_ends() -> None:
    client, transport = made()
    transport.answer(
        is_list, status_body(503, "ServiceUnavailable"), status=503, headers={"retry-after": "0"}, times=99
    )
    with pytest.raises(ServerError) as caught:
        await client.get(ConfigMap, "a", "default")
    assert len(transport.requests) == caught.value.attempts == 11


@jumping
async def test_all_attempts_of_a_request_share_its_limit() -> None:
    client, transport = made(timeout=20.0)
    transport.answer(is_list, delay=FOREVER, times=FOREVER)
    for given, expected in [(None, 20.0), (10.0, 10.0), (300.0, 300.0)]:
        begun = now()
        with pytest.raises(RequestTimeout, match=f"no answer within {expected:g} s"):
            await client.send(Request("GET", "/api/v1/namespaces/default/pods/p/log", timeout=given))
        assert now() == begun + expected
    begun = now()
    with pytest.raises(RequestTimeout):
        await client.get(ConfigMap, "a", "default")
    assert now() == begun + 20.0
    assert len(transport.requests) == 4


@jumping
async def test_a_lost_read_is_repeated_as_long_as_its_limit_allows() -> None:
    client, transport = made(timeout=4.5)
    transport.fail(is_list, ConnectionLost("reset"), delay=0.5, times=FOREVER)
    with pytest.raises(ConnectionLost, match="reset"):
        await client.get(ConfigMap, "a", "default")
    assert transport.times == [0, 1.5, 3.0]
    assert now() == 3.5, "one more wait would end with the limit"


@jumping
async def test_a_retry_that_would_come_too_late_is_not_waited_for() -> None:
    client, transport = made(timeout=30.0)
    transport.answer(
        is_write, status_body(429, "TooManyRequests"), status=429, headers={"retry-after": "20"}, times=FOREVER
    )
    with pytest.raises(TooManyRequests) as caught:
        await client.create(MAP)
    assert (caught.value.attempts, transport.times, now()) == (2, [0, 20], 20)


@jumping
async def test_a_limit_is_counted_like_a_lost_connection() -> None:
    seen: list[int | None] = []

    class Counts:
        def attempt(self, request: Request, status: int | None) -> None:  # noqa: ARG002 - see RequestObserver
            seen.append(status)

    client, transport = made(timeout=5.0, requests=Counts())
    transport.answer(is_list, delay=FOREVER)
    with pytest.raises(RequestTimeout):
        await client.get(ConfigMap, "a", "default")
    assert seen == [None]


@jumping
async def test_a_log_has_the_limit_of_the_client_unless_it_is_followed() -> None:
    client, transport = made(timeout=20.0)
    transport.answer(is_list, delay=FOREVER)
    with pytest.raises(RequestTimeout, match="no answer within 20 s"):
        _ = [chunk async for chunk in client.logs("p", "default")]
    assert now() == 20
    live = transport.stream(is_list, b"one")
    got: list[bytes] = []

    async def read_slowly() -> None:
        async for chunk in client.logs("p", "default"):
            got.append(chunk)
            await asyncio.sleep(100)  # the time of the reader does not count

    with pytest.raises(RequestTimeout):
        await read_slowly()
    assert (got, now()) == ([b"one"], 140)
    assert live.closed.is_set()
    quiet = transport.stream(is_list)
    asyncio.get_running_loop().call_later(3600, quiet.send, b"late")
    asyncio.get_running_loop().call_later(7200, quiet.end)
    assert [chunk async for chunk in client.logs("p", "default", follow=True)] == [b"late"]


@jumping
async def test_a_rotated_token_is_noticed(tmp_path: Any) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    source = TokenFile(str(path))
    assert (await source.credential()).header == "Bearer one"
    path.write_text("two\n")
    assert (await source.credential()).header == "Bearer one"
    await asyncio.sleep(60)
    assert (await source.credential()).header == "Bearer two"
    path.write_text("three\n")
    refused = await source.credential()
    assert await source.renew(refused)
    assert (await source.credential()).header == "Bearer three"
    assert await source.renew(refused)  # another request, refused at the same time
    refused = await source.credential()
    assert not await source.renew(refused)
    path.unlink()
    assert not await source.renew(refused)
    assert (await source.credential()).header == "Bearer three"
    with pytest.raises(ConfigurationError, match="No such file"):
        await TokenFile(str(path)).credential()


@jumping
async def test_warnings_of_the_server_are_logged(caplog: Any) -> None:
    client, transport = made()
    transport.answer(is_list, config_map("a", version="1"), headers={"warning": "old API"})
    await client.get(ConfigMap, "a", "default")
    assert caplog.messages == ["GET /api/v1/namespaces/default/configmaps/a: warning of the API server: old API"]


@pytest.mark.parametrize(
    ("code", "reason", "leaf"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (413, "RequestEntityTooLarge", TooLarge),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ServerError),
        (504, "Timeout", ServerError),
        (418, "Teapot", ApiError),
    ],
)
def test_each_answer_has_its_error(code: int, reason: str, leaf: type[ApiError]) -> None:
    @jumping
    async def check() -> None:
        client, transport = made()
        causes = [{"reason": "FieldValueInvalid", "field": "spec.x", "message": "too big"}]
        body = status_body(code, reason, "because", causes=causes, retryAfterSeconds=3)
        transport.answer(is_list, body, status=code)
        with pytest.raises(ApiError) as caught:
            await client.get(ConfigMap, "a", "default")
        error = caught.value
        assert type(error) is leaf
        assert str(error) == "GET /api/v1/namespaces/default/configmaps/a: because"
        assert (error.status, error.reason, error.retry_after) == (code, reason, 3)
        assert [(c.field, c.message) for c in error.causes] == [("spec.x", "too big")]

    check()


@jumping
async def test_an_answer_that_is_no_status_is_still_an_error() -> None:
    client, transport = made()
    transport.answer(is_list, b"<html>bad gateway</html>", status=502)
    with pytest.raises(ServerError, match="bad gateway"):
        await client.get(ConfigMap, "a", "default")
    transport.answer(is_list, b"{}", status=404)
    with pytest.raises(NotFound):
        await client.get(ConfigMap, "a", "default")
    transport.answer(is_list, b'{"data": 7}')
    with pytest.raises(DecodeError, match=r"configmaps: .*data"):
        await client.get(ConfigMap, "a", "default")
    transport.answer(is_list, b"[]")
    with pytest.raises(DecodeError, match="not a list"):
        await client.list(ConfigMap)


@jumping
async def test_a_list_reads_all_pages() -> None:
    client, transport = made()
    transport.answer(is_list, listing("5", config_map("a", version="1"), continue_token="more"))
    transport.answer(is_list, listing("5", config_map("b", version="2")))
    result = await client.list(ConfigMap, "default", label_selector="a=b", limit=1)
    assert [o.name for o in result.items] == ["a", "b"]
    assert [o.kind for o in result.items] == ["ConfigMap", "ConfigMap"]
    assert result.resource_version == "5"
    assert transport.requests[1].query == {"labelSelector": "a=b", "limit": "1", "continue": "more"}


@jumping
async def test_defaults_are_added_and_can_be_overridden() -> None:
    client, transport = made(defaults=WriteDefaults(field_manager="x", field_validation="Strict"))
    dry = client.with_defaults(dry_run=True, user_agent="dry")
    transport.answer(is_write, config_map("a", version="1"), times=FOREVER)
    await dry.create(MAP)
    await dry.update(MAP)
    await dry.patch(ConfigMap, "a", "default", {})
    await dry.apply(MAP, field_manager="y")
    await dry.delete(ConfigMap, "a", "default")
    both = {"fieldManager": "x", "fieldValidation": "Strict", "dryRun": "All"}
    assert [r.query for r in transport.requests[:4]] == [both, both, both, {"fieldManager": "y", "dryRun": "All"}]
    assert b'"dryRun":["All"]' in (transport.requests[4].body or b"")
    assert transport.requests[0].headers["User-Agent"].endswith(" dry")
    await client.create(MAP)
    assert "dryRun" not in transport.requests[5].query
    bare, _ = made()
    with pytest.raises(ConfigurationError, match="pass a field_manager"):
        await bare.apply(MAP)
    with pytest.raises(ConfigurationError, match="apiVersion='v1' kind='ConfigMap' is not a known kind"):
        await bare.create(config_map("a"))
    bare.register(ConfigMap)


@jumping
async def test_the_server_is_told_product_version_controller_and_process() -> None:
    client, transport = made()
    named = client.with_defaults(user_agent="web")
    transport.answer(is_list, config_map("a", version="1"), times=FOREVER)
    await named.get(ConfigMap, "a", "default")
    token = current_reconcile.set(Reconcile("shops", Key("default", "a"), "id"))
    await named.get(ConfigMap, "a", "default")
    current_reconcile.reset(token)
    product = f"trainwright/{trainwright.__version__}"
    agents = [request.headers["User-Agent"] for request in transport.requests]
    assert agents == [f"{product} web", f"{product} (shops) web"]


@jumping
async def test_only_what_is_set_goes_on_the_wire() -> None:
    client, transport = made()
    transport.answer(is_write, config_map("a", version="1"))
    await client.apply(MAP, field_manager="x", force=True)
    request = transport.requests[0]
    assert request.body == b'{"metadata":{"name":"a","namespace":"default"},"apiVersion":"v1","kind":"ConfigMap"}'
    assert request.query == {"fieldManager": "x", "force": "true"}
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"


@jumping
async def test_deletes_carry_preconditions() -> None:
    client, transport = made()
    transport.answer(is_write, {"kind": "Status", "status": "Success"})
    await client.delete(
        ConfigMap, "a", "default", uid="u", resource_version="7", propagation="Foreground", grace_period=0
    )
    body = transport.requests[0].body or b""
    for part in (
        b'"preconditions":{"uid":"u","resourceVersion":"7"}',
        b'"propagationPolicy":"Foreground"',
        b'"gracePeriodSeconds":0',
    ):
        assert part in body


@pytest.mark.parametrize(
    ("name", "namespace", "message"),
    [
        ("", "default", "'' is not a valid name of a ConfigMap"),
        ("..", "default", "'..' is not a valid name"),
        ("a/../../secrets/b", "default", "is not a valid name"),
        ("a%2f..", "default", "is not a valid name"),
        ("a", "x/secrets", "'x/secrets' is not a valid name of a ConfigMap or of its namespace"),
        ("a", "", "ConfigMap 'a' needs a namespace"),
    ],
)
async def test_a_name_leads_nowhere_else(name: str, namespace: str, message: str) -> None:
    client, transport = made()
    obj = build(ConfigMap.RESOURCE, "a")
    obj["metadata"] |= {"name": name, "namespace": namespace}
    with pytest.raises(NotFound, match=re.escape(message)):
        await client.get(ConfigMap, name, namespace)
    for attempt in (
        client.delete(ConfigMap, name, namespace),
        client.patch(ConfigMap, name, namespace, {}),
        client.update(obj, kind=ConfigMap.RESOURCE),
        client.apply(obj, kind=ConfigMap.RESOURCE, field_manager="x"),
        client.get_scale(ConfigMap, name, namespace),
    ):
        with pytest.raises(BadRequest, match=re.escape(message)):
            await attempt
    if namespace == "x/secrets":
        with pytest.raises(BadRequest):
            await client.list(ConfigMap, namespace)
    assert transport.requests == []


def test_names_are_escaped() -> None:
    role = Resource(group="rbac", version="v1", kind="ClusterRole", plural="clusterroles", namespaced=False)
    assert object_path(role, "system:node") == "/apis/rbac/v1/clusterroles/system:node"
    assert object_path(role, "a?b#c d") == "/apis/rbac/v1/clusterroles/a%3Fb%23c%20d"
