# SPDX-License-Identifier: Apache-2.0
"""Requests: what their headers, queries and bodies may say, and those whose client goes.

Scenario 63 compares duplicate keys with the real server, scenarios 8.7 the options of deletions.
"""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.cases import cases
from tests.unit.local.identity.conftest import PODS, Asker, Document
from tests.unit.local.test_definitions import settled
from trainwright.controller.local.apiserver.request.bodies import duplicate_keys
from trainwright.controller.local.apiserver.request.info import ServerRequest, ServerResponse, go_integer
from trainwright.controller.local.apiserver.store import ObjectName
from trainwright.controller.local.cluster import RunningServer, api_server
from trainwright.controller.local.types.go_json import nanoseconds
from trainwright.controller.runtime.testing.clock import ManualClock

CASES = cases(__file__)

MAPS, REVIEWS = "/api/v1/namespaces/default/configmaps", "/apis/authentication.k8s.io/v1/selfsubjectreviews"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BROKEN = b"\xff\xfe"
POD: Document = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    """Asks a server with a ConfigMap `a`."""
    async with api_server(tmp_path, memory=True) as api:
        asker = Asker(api)
        assert (await asker("POST", MAPS, {"metadata": {"name": "a"}}))[0] == 201
        yield asker


async def handled(
    api: RunningServer,
    method: str,
    path: str,
    query: dict[str, str] | None = None,
    *,
    body: bytes = b"",
    media: str = "",
) -> ServerResponse:
    headers = {"authorization": f"Bearer {api.config.token}", "content-type": media or "application/json"}
    asked = ServerRequest(method=method, path=path, query=list((query or {}).items()), headers=headers, body=body)
    return await api.server.handle(asked)


# ------------------------------------------------------------------ bytes that are not UTF-8, over HTTPS


async def sent(ask: Asker, method: str, path: str, body: bytes = b"", **headers: bytes) -> tuple[int, Any]:
    """Status and document of a request whose bytes go out as they are; underscores of names are dashes."""
    parts, config = urlsplit(ask.api.config.server), ask.api.config
    context = ssl.create_default_context(cadata=(config.ca_data or b"").decode())
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=context)
    headers = {"Authorization": f"Bearer {config.token}".encode(), "Content_Type": b"application/json"} | headers
    lines = [f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n".encode()]
    lines += [name.replace("_", "-").encode() + b": " + value + b"\r\n" for name, value in headers.items()]
    writer.write(b"".join(lines) + b"\r\n" + body)
    head, _, content = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), json.loads(content)


@pytest.mark.parametrize("token", [BROKEN, b"\xc3\xa9", b"\xe9.\xe9.\xe9", b"e30.\xff.e30"])
async def test_a_token_that_is_no_text(ask: Asker, token: bytes) -> None:
    assert (await sent(ask, "GET", MAPS, Authorization=b"Bearer " + token))[0] == 401


@pytest.mark.parametrize("token", ["\N{LATIN SMALL LETTER E WITH ACUTE}", "\udcff", "\ud800.\ud800.\ud800", "a\0b"])
async def test_a_token_past_the_socket(ask: Asker, token: str) -> None:
    assert (await ask("GET", MAPS, token=token))[0] == 401
    assert (await ask.review(token)).get("authenticated") is None


async def test_impersonation(ask: Asker) -> None:
    headers = {"Impersonate_User": BROKEN, "Impersonate_Group": BROKEN, "Impersonate_Extra_a": BROKEN}
    status, answer = await sent(ask, "POST", REVIEWS, b"{}", **headers)
    assert (status, answer["status"]["userInfo"]["username"]) == (201, "\ufffd\ufffd")
    assert answer["status"]["userInfo"]["extra"] == {"a": ["\ufffd\ufffd"]}


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        *((MAPS, {name: BROKEN}, 201) for name in ("User_Agent", "Accept_Encoding", "Origin", "Cookie", "Warning")),
        (MAPS, {"Accept": BROKEN}, 406),
        # kube-apiserver reads a body as it is.
        (MAPS, {"Content_Encoding": b"gzip"}, 201),
        (f"{MAPS}?fieldManager=%ff", {}, 201),
        (f"{MAPS}?dryRun=%ff", {}, 422),
        (f"{MAPS}?fieldValidation=%ff", {}, 422),
    ],
)
async def test_other_bytes_of_writes(ask: Asker, path: str, headers: dict[str, bytes], code: int) -> None:
    assert (await sent(ask, "POST", path, b'{"metadata":{"name":"b"}}', **headers))[0] == code


@pytest.mark.parametrize(
    ("method", "media"), [("PUT", "json"), ("PATCH", "merge-patch+json"), ("PATCH", "apply-patch+yaml")]
)
async def test_an_answer_that_is_not_offered_comes_before_wrong_options(ask: Asker, method: str, media: str) -> None:
    types = {"Content_Type": f"application/{media}".encode(), "Accept": b"application/json;as=Table;g=meta.k8s.io;v=v2"}
    status, document = await sent(ask, method, f"{MAPS}/a?dryRun=x&fieldManager=m", b"{}", **types)
    assert (status, document["reason"]) == (406, "NotAcceptable")


@pytest.mark.parametrize(("path", "code"), CASES["paths_and_queries_of_reads"])
async def test_paths_and_queries_of_reads(ask: Asker, path: str, code: int) -> None:
    assert (await sent(ask, "GET", f"{MAPS}{path}"))[0] == code


# ------------------------------------------------------------------ numbers and tokens of lists


@pytest.mark.parametrize(("text", "signed", "number"), [*CASES["numbers"], ("9" * 5000, True, None)])
def test_numbers(text: str, signed: bool, number: int | None) -> None:
    if number is not None:
        assert go_integer(text, signed=signed) == number
        return
    with pytest.raises(ValueError, match="is not a whole number of 64 bits"):
        go_integer(text, signed=signed)


async def test_wrong_tokens(ask: Asker) -> None:
    said = (b'{"version":1}', b'{"version":"1","after":"a"}', b"5", b"null", b"x", b"\xff")
    tokens = [base64.urlsafe_b64encode(one).rstrip(b"=").decode() for one in said]
    for token in (*tokens, "x", "ab!c", "abcd="):
        status, answer = await ask("GET", f"/api/v1/nodes?continue={token}")
        assert status == 400
        assert answer["message"].startswith("invalid continue token: continue key is not valid: ")


# ------------------------------------------------------------------ bodies


def test_duplicate_keys_of_json() -> None:
    body = b'{"spec": {"a": [{"b": 1}, {"b": 1}]}, "x": {"y": 1, "y": {"z": 1}, "y": {}}, "spec": {"a": null}}'
    assert duplicate_keys(body) == ['duplicate field "x.y"', 'duplicate field "spec"']
    assert duplicate_keys(b'[{"a": [{"b": 1, "b": 2}]}]') == ['duplicate field "[0].a[0].b"']
    assert duplicate_keys(b'{"a": "\xff"}') == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: it}\ndata:\n  k: 'v'\n", 201),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: it}}", 201),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: it}\ndata: {k: a, k: b}\n", 400),
        ("a: &a [[{c: *a}]]", 400),
        ("a: &a [1]\nb: *a", 400),
        ("a: {b: \t}", 400),
        ("a: {b", 400),
        ("- a", 400),
    ],
)
async def test_what_is_applied_may_be_yaml(ask: Asker, text: str, code: int) -> None:
    media, options = "application/apply-patch+yaml", {"fieldManager": "m"}
    answer = await handled(ask.api, "PATCH", f"{MAPS}/it", options, body=text.encode(), media=media)
    assert answer.status == code


@pytest.mark.parametrize(("text", "value"), [*CASES["durations"], ("1" * 5000 + "s", None)])
def test_durations(text: str, value: int | None) -> None:
    if value is not None:
        assert nanoseconds(text) == value
        return
    with pytest.raises(ValueError, match="is not a duration such as 1h30m"):
        nanoseconds(text)


# ------------------------------------------------------------------ deletions


@pytest.mark.parametrize(
    ("body", "media", "code", "message"),
    [
        (b'{"preconditions":[]}', "", 400, "preconditions: expected an object"),
        (b'{"orphanDependents":"true"}', "", 400, "orphanDependents: expected true or false"),
        (b'{"gracePeriodSeconds":"5"}', "", 400, "gracePeriodSeconds: expected an integer of 64 bits"),
        (b'{"dryRun":"All"}', "", 400, "dryRun: expected a list"),
        (b'{"kind":5}', "", 400, "couldn't get version/kind: kind is not a string"),
        (b'{"preconditions":{"uid":""}}', "", 409, "Operation cannot be fulfilled"),
        (b"{}", "text/plain", 415, "the body of the request was in an unknown format"),
        (b"null", "", 200, ""),
    ],
)
async def test_bodies_of_deletions(ask: Asker, body: bytes, media: str, code: int, message: str) -> None:
    answer = await handled(ask.api, "DELETE", f"{MAPS}/a", body=body, media=media)
    assert answer.status == code
    assert msgspec.json.decode(answer.body).get("message", "").startswith(message)


async def test_preconditions_in_the_query(ask: Asker) -> None:
    for name, named in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        status, answer = await ask("DELETE", f"{MAPS}/a?{name}=x")
        assert status == 409
        assert f"the {named} in the precondition (x) does not match the {named} in record" in answer["message"]
    assert (await ask("DELETE", f"{MAPS}/a?uid="))[0] == 200


async def test_another_object_that_got_the_name_stays(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = {**POD, "spec": {**POD["spec"], "nodeName": "n"}}
    assert (await ask("POST", PODS, pod))[0] == 201
    store, committed = ask.api.server.store, ask.api.server.store.committed

    async def overtaken(version: int | None = None) -> None:
        if store.get("pods", ObjectName("default", "p")) is None:
            assert (await ask("POST", PODS, pod))[0] == 201
        await committed(version)

    monkeypatch.setattr(store, "committed", overtaken)
    assert (await ask("DELETE", f"{PODS}/p?gracePeriodSeconds=0"))[0] == 200
    assert (await ask("GET", f"{PODS}/p"))[0] == 200


# ------------------------------------------------------------------ clients that go


async def pod_after(ask: Asker, turns: int, method: str, path: str, body: Document | None = None) -> Document | None:
    """The pod `p` after a request whose client went after some turns of the loop; None if the pod is gone."""
    assert (await ask("POST", PODS, POD))[0] == 201
    request = asyncio.create_task(ask(method, path, body))
    for _ in range(turns):
        await asyncio.sleep(0)
    request.cancel()
    await asyncio.wait([request])
    await ask.api.server.store.committed()
    found = ask.api.server.store.get("pods", ObjectName("default", "p"))
    if found is None:
        return None
    assert (await ask("DELETE", f"{PODS}/p"))[0] == 200
    return found.document()


@pytest.mark.parametrize("evicted", [False, True])
async def test_a_pod_is_deleted_or_not_touched(tmp_path: Path, evicted: bool) -> None:
    eviction = ("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}})
    asked = eviction if evicted else ("DELETE", f"{PODS}/p", None)
    async with api_server(tmp_path / "state") as api:  # with a state file, so that each commit takes turns of the loop
        pods = [await pod_after(Asker(api), turns, *asked) for turns in range(30)]
    assert 0 < pods.count(None) < len(pods)
    for turns, pod in enumerate(pods):
        assert pod is None or "deletionTimestamp" not in pod["metadata"], f"left marked after {turns} turns"
        assert pod is None or "conditions" not in pod["status"], f"noted, not deleted, after {turns} turns"


# ------------------------------------------------------------------ watches


async def test_watchers_see_the_mark_before_the_removal(ask: Asker) -> None:
    assert (await ask("POST", PODS, POD))[0] == 201
    store = ask.api.server.store
    watch = store.watch("pods", store.version)
    assert (await ask("DELETE", f"{PODS}/p"))[0] == 200
    seen = await watch.take()
    assert [change.type for change in seen] == ["MODIFIED", "DELETED"]
    assert all("deletionTimestamp" in change.object.document()["metadata"] for change in seen)
    store.unwatch("pods", watch)


async def test_a_watch_sees_the_columns_that_its_definition_has_now(ask: Asker) -> None:
    column = {"name": "Old", "type": "string", "jsonPath": ".metadata.name"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "additionalPrinterColumns": [column]}
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    body: Document = {"metadata": {"name": "widgets.example.com"}, "spec": spec}
    assert (await ask("POST", DEFINITIONS, body))[0] == 201
    await settled()
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    headers = {"authorization": f"Bearer {ask.admin}", "accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    asked = ServerRequest(method="GET", path=widgets, query=[("watch", "true")], headers=headers)
    stream = (await ask.api.server.handle(asked)).stream
    assert isinstance(stream, AsyncGenerator)
    for name in ("Old", "New"):
        column["name"] = name
        _, stored = await ask("GET", f"{DEFINITIONS}/widgets.example.com")
        body["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
        assert (await ask("PUT", f"{DEFINITIONS}/widgets.example.com", body))[0] == 200
        await settled()
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name.lower()}}
        assert (await ask("POST", widgets, widget))[0] == 201
        table = json.loads(await anext(stream))["object"]
        assert [one["name"] for one in table["columnDefinitions"]] == ["Name", name]
    await stream.aclose()


# ------------------------------------------------------------------ a server without a state file


async def first_frame(api: RunningServer, version: str) -> Any:
    """What a watch from a version is told first."""
    query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "1"}
    stream = (await handled(api, "GET", MAPS, query)).stream
    assert isinstance(stream, AsyncGenerator)
    frame = json.loads(await anext(stream))
    await stream.aclose()
    return frame


async def test_a_version_of_an_earlier_run_is_too_old(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2030, 1, 1, tzinfo=UTC))
    async with api_server(tmp_path, memory=True, now=clock) as api:
        ask = Asker(api)
        for number in range(20):
            assert (await ask("POST", MAPS, {"metadata": {"name": f"m{number}"}}))[0] == 201
        version = (await ask("GET", MAPS))[1]["metadata"]["resourceVersion"]
        assert int(version) < 2**53, "JavaScript, and Go's float64, hold it"
    clock.now += timedelta(seconds=1)
    async with api_server(tmp_path, memory=True, now=clock) as api:
        frame = await first_frame(api, version)
        assert (frame["type"], frame["object"]["code"], frame["object"]["reason"]) == ("ERROR", 410, "Expired")
        assert (await Asker(api)("POST", MAPS, {"metadata": {"name": "a"}}))[0] == 201
        assert (await first_frame(api, "1"))["type"] == "ADDED"
