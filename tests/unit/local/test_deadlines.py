# SPDX-License-Identifier: Apache-2.0
"""`?timeout=`: how long a request may take."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from tests.unit.local.identity.conftest import Asker, Document
from trainwright.controller.local.apiserver.request.info import ServerRequest
from trainwright.controller.local.apiserver.store import ObjectName
from trainwright.controller.local.cluster import api_server
from trainwright.controller.local.types.go_json import nanoseconds

MAPS = "/api/v1/namespaces/default/configmaps"
SECOND = 10**9


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    async with api_server(tmp_path, memory=True) as api:
        yield Asker(api)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-1s", -SECOND),
        ("1h1.5m", 3690 * SECOND),
        (".5s", SECOND // 2),
        ("1.s", SECOND),
        ("1ns", 1),
        ("1µs", 1000),
        ("1μs", 1000),
        ("0.0000000001s", 0),
        ("00005ms", 5 * 10**6),
        ("9223372036s", 9223372036 * SECOND),
        (f"-{2**63}ns", -(2**63)),
    ],
)
def test_durations(text: str, value: int) -> None:
    assert nanoseconds(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "5x", "5é", '5"x', "1h\0", "1h-1s", "1.5", "1h1", ".s", "-", " 5s", "\N{ARABIC-INDIC DIGIT FIVE}s"),
        *("9223372037s", f"{2**63}ns", "1" * 5000 + "s"),
    ],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as 1h30m"):
        nanoseconds(text)


@pytest.mark.parametrize(("method", "path"), [("GET", MAPS), ("POST", MAPS), ("GET", "/version"), ("GET", "/nope")])
@pytest.mark.parametrize("token", ["", None])
async def test_a_wrong_one_is_refused_before_all_else(ask: Asker, method: str, path: str, token: str | None) -> None:
    status, answer = await ask(method, f"{path}?timeout=5x", {}, token=token)
    said = "invalid timeout specified in the request URL - '5x' is not a duration such as 1h30m"
    assert (status, answer["reason"], answer["message"]) == (400, "BadRequest", said)


@pytest.mark.parametrize("query", ["timeout=", "timeout=0", "timeout=-1s", "timeout=1h", "timeout=5s&timeout=5x"])
async def test_others_are_taken(ask: Asker, query: str) -> None:
    assert (await ask("GET", f"{MAPS}?{query}"))[0] == 200


async def test_a_watch_has_none(ask: Asker) -> None:
    answer = await ask.api.server.handle(
        ServerRequest(
            method="GET",
            path=MAPS,
            query=[("watch", "true"), ("timeout", "5x"), ("timeoutSeconds", "1")],
            headers={"authorization": f"Bearer {ask.admin}"},
        )
    )
    assert answer.status == 200
    assert isinstance(answer.stream, AsyncGenerator)
    await answer.stream.aclose()


async def test_a_log_has_none(ask: Asker) -> None:
    status, answer = await ask("GET", "/api/v1/namespaces/default/pods/x/log?timeout=5x")
    assert (status, answer["message"]) == (404, 'pods "x" not found')


async def test_a_request_that_takes_longer_is_given_up(ask: Asker) -> None:
    hook = "https://hook.example.com"

    async def never(path: str, body: bytes) -> bytes:
        await asyncio.Event().wait()
        return b""

    ask.api.webhooks.answer_here(hook, never)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    webhook: Document = {
        "name": "a.example.com",
        "clientConfig": {"url": f"{hook}/a"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
    }
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    assert (await ask("POST", path, {"metadata": {"name": "a"}, "webhooks": [webhook]}))[0] == 201
    status, answer = await ask("POST", f"{MAPS}?timeout=10ms", {"metadata": {"name": "a"}})
    assert (status, answer["reason"]) == (504, "Timeout")
    assert answer["message"] == "Timeout: request did not complete within the allotted timeout"
    assert ask.api.server.store.get("configmaps", ObjectName("default", "a")) is None
