# SPDX-License-Identifier: Apache-2.0
"""Answers of the webhook server to reviews and to malformed requests, over a socket."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.controller.runtime.errors import ConfigurationError, ErrorCause, Invalid, Unreachable
from trainwright.controller.runtime.webhook.admission import (
    AdmissionRequest,
    AdmissionResponse,
    mutate_path,
    validate_path,
)
from trainwright.controller.runtime.webhook.server import BODY_LIMIT, WebhookMetrics, WebhookServer

VALIDATE, MUTATE = validate_path(ConfigMap), mutate_path(ConfigMap)


class Hooks:
    """A server whose two functions are the test's."""

    def __init__(self, **limits: Any) -> None:
        self.registry = CollectorRegistry()
        self.server = WebhookServer("127.0.0.1:0", tls=None, metrics=WebhookMetrics(self.registry), **limits)
        self.seen: list[AdmissionRequest[ConfigMap]] = []
        self.asked = asyncio.Event()
        self.verdict: AdmissionResponse | None = None
        self.error: Exception | None = None
        self.wait: asyncio.Event | None = None
        self.server.validate(ConfigMap, self.validate)
        self.server.mutate(ConfigMap, self.default)

    async def validate(self, request: AdmissionRequest[ConfigMap]) -> AdmissionResponse | None:
        self.seen.append(request)
        self.asked.set()
        if self.wait is not None:
            await self.wait.wait()
        if self.error is not None:
            raise self.error
        return self.verdict

    def default(self, request: AdmissionRequest[ConfigMap]) -> list[str]:
        self.seen.append(request)
        assert request.new is not None
        request.new.data = {"added": "yes", **(request.new.data or {})}
        return ["a default was filled in"]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Hooks"]:
        task = asyncio.ensure_future(self.server.run())
        await self.server.listening.wait()
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def raw(self, request: bytes, *, half_close: bool = False) -> bytes:
        """Send bytes on a fresh connection and read until it is closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        try:
            writer.write(request)
            await writer.drain()
            if half_close:
                writer.write_eof()
            return await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()

    async def post(
        self, path: str, body: bytes, *, content_type: str = "application/json", query: str = ""
    ) -> tuple[int, dict[str, Any]]:
        head = (
            f"POST {path}{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return parsed(await self.raw(head.encode() + body))

    async def ask(self, path: str, **request: Any) -> dict[str, Any]:
        """A well-formed question; gives the `response`."""
        status, answer = await self.post(path, review(**request))
        assert status == 200
        response: dict[str, Any] = answer["response"]
        return response

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


def parsed(answer: bytes) -> tuple[int, dict[str, Any]]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/json" in head
    return int(head.split()[1]), json.loads(body)


def config_map(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "n"}, **fields}


def review(version: str = "admission.k8s.io/v1", **request: Any) -> bytes:
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    basis = {"uid": "u-1", "operation": "CREATE", "resource": resource, "kind": kind, "userInfo": {"username": "eve"}}
    return json.dumps({"apiVersion": version, "kind": "AdmissionReview", "request": {**basis, **request}}).encode()


@pytest.fixture
async def hooks() -> AsyncIterator[Hooks]:
    async with Hooks(read_seconds=30.0).serving() as made:
        yield made


# ---------------------------------------------------------------------- questions


async def test_allowed(hooks: Hooks) -> None:
    response = await hooks.ask(VALIDATE, object=config_map(data={"a": "b"}), name="m", namespace="n", dryRun=True)
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("u-1", True, 200)
    (seen,) = hooks.seen
    assert seen.new is not None
    assert seen.new.data == {"a": "b"}
    assert (seen.old, seen.dry_run, seen.user.username, seen.operation) == (None, True, "eve", "CREATE")


async def test_refused_with_every_error_and_the_warnings(hooks: Hooks) -> None:
    causes = (
        ErrorCause("FieldValueInvalid", "data.a", "no"),
        ErrorCause("FieldValueRequired", "data.b", "Required value"),
    )
    hooks.verdict = AdmissionResponse(errors=causes, warnings=("careful",))
    response = await hooks.ask(VALIDATE, operation="UPDATE", object=config_map(), oldObject=config_map())
    assert response["allowed"] is False
    assert response["warnings"] == ["careful"]
    status = response["status"]
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"] == "[data.a: no, data.b: Required value]"
    assert [cause["field"] for cause in status["details"]["causes"]] == ["data.a", "data.b"]


async def test_api_error_of_a_validator_passes_through(hooks: Hooks) -> None:
    hooks.error = Invalid("it is wrong", code=422, reason="Invalid", causes=(ErrorCause("r", "f", "m"),))
    status = (await hooks.ask(VALIDATE, object=config_map()))["status"]
    assert (status["code"], status["reason"], status["message"]) == (422, "Invalid", "it is wrong")


async def test_connect_is_allowed_unseen_and_delete_has_only_an_old_object(hooks: Hooks) -> None:
    assert (await hooks.ask(VALIDATE, operation="CONNECT"))["allowed"]
    assert not hooks.seen
    await hooks.ask(VALIDATE, operation="DELETE", object=None, oldObject=config_map())
    assert hooks.seen[0].new is None
    assert hooks.seen[0].old is not None


async def test_object_that_does_not_fit(hooks: Hooks) -> None:
    unfit = config_map(data=["no", "map"])
    response = await hooks.ask(VALIDATE, object=unfit)
    assert response["status"]["code"] == 400
    assert "$.data" in response["status"]["message"]
    assert (await hooks.ask(VALIDATE, operation="DELETE", oldObject=unfit))["allowed"], "a delete must get through"
    mutated = await hooks.ask(MUTATE, object=unfit)
    assert mutated["allowed"]
    assert "patch" not in mutated
    assert not hooks.seen


async def test_object_that_is_nested_too_deeply_is_told_where(hooks: Hooks) -> None:
    body = review(object=config_map(data="here")).replace(b'"here"', b"[" * 9_000 + b"]" * 9_000)
    _, answer = await hooks.post(VALIDATE, body)
    assert answer["response"]["uid"] == "u-1"
    assert answer["response"]["status"]["code"] == 400
    assert "$.data" in answer["response"]["status"]["message"]


async def test_stored_object_that_does_not_fit_holds_up_nothing(hooks: Hooks) -> None:
    unfit = config_map(data=["no", "map"])
    labelled = {**unfit, "metadata": {**unfit["metadata"], "labels": {"a": "b"}}}
    metadata = await hooks.ask(VALIDATE, operation="UPDATE", object=labelled, oldObject=unfit)
    assert metadata["allowed"]
    assert "$.data" in metadata["warnings"][0]
    more = await hooks.ask(VALIDATE, operation="UPDATE", object={**labelled, "immutable": True}, oldObject=unfit)
    assert more["status"]["code"] == 400
    assert not hooks.seen
    hooks.verdict = AdmissionResponse(message="looked at")
    mended = await hooks.ask(VALIDATE, operation="UPDATE", object=config_map(data={}), oldObject=unfit)
    assert mended["status"]["message"] == "looked at"
    assert hooks.seen[0].old is None
    assert "patch" in await hooks.ask(MUTATE, operation="UPDATE", object=config_map(), oldObject=unfit)


async def test_patch_holds_the_change_and_nothing_else(hooks: Hooks) -> None:
    sent = config_map(data={"a": "b"}, fieldOfTheFuture={"x": 1}, binaryData=None)
    response = await hooks.ask(MUTATE, object=sent)
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == [{"op": "add", "path": "/data/added", "value": "yes"}]
    assert response["warnings"] == ["a default was filled in"]


async def test_no_change_is_no_patch_and_delete_is_not_defaulted(hooks: Hooks) -> None:
    response = await hooks.ask(MUTATE, object=config_map(data={"added": "no"}))
    assert response["allowed"]
    assert "patch" not in response
    assert "patchType" not in response
    hooks.seen.clear()
    assert (await hooks.ask(MUTATE, operation="DELETE", oldObject=config_map()))["allowed"]
    assert not hooks.seen


async def test_version_is_echoed(hooks: Hooks) -> None:
    _, answer = await hooks.post(VALIDATE, review("admission.k8s.io/v1beta1", object=config_map()))
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1beta1", "AdmissionReview")
    assert answer["response"]["uid"] == "u-1"


async def test_text_is_never_a_format(hooks: Hooks) -> None:
    hooks.verdict = AdmissionResponse(message="100%s {0} %d")
    assert (await hooks.ask(VALIDATE, object=config_map()))["status"]["message"] == "100%s {0} %d"


# ---------------------------------------------------------------------- handlers that fail


async def test_crash_is_answered_counted_and_survived(hooks: Hooks) -> None:
    hooks.error = RuntimeError("secret detail")
    status = (await hooks.ask(VALIDATE, object=config_map()))["status"]
    assert status["code"] == 500
    assert "secret detail" not in status["message"]
    assert hooks.metric("controller_runtime_webhook_panics_total") == 1
    hooks.error = None
    assert (await hooks.ask(VALIDATE, object=config_map()))["allowed"]


async def test_an_api_server_that_does_not_answer_the_handler_is_no_crash(hooks: Hooks) -> None:
    hooks.error = Unreachable("no route to 10.0.0.1")
    status = (await hooks.ask(VALIDATE, object=config_map()))["status"]
    assert (status["code"], status["reason"]) == (503, "ServiceUnavailable")
    assert "10.0.0.1" not in status["message"]
    assert hooks.metric("controller_runtime_webhook_panics_total") == 0


async def test_answer_that_cannot_be_written_is_a_crash(hooks: Hooks) -> None:
    hooks.verdict = AdmissionResponse(message="half of a character: \ud83d")
    status = (await hooks.ask(VALIDATE, object=config_map()))["status"]
    assert status["code"] == 500
    assert hooks.metric("controller_runtime_webhook_panics_total") == 1


@pytest.mark.parametrize("error", [TimeoutError("of its own"), KeyError("x")])
async def test_own_timeout_of_a_handler_is_a_crash(hooks: Hooks, error: Exception) -> None:
    hooks.error = error
    assert (await hooks.ask(VALIDATE, object=config_map()))["status"]["code"] == 500


async def test_time_that_the_api_server_gives_is_the_limit(hooks: Hooks) -> None:
    hooks.wait = asyncio.Event()
    _, answer = await hooks.post(VALIDATE, review(object=config_map()), query="?timeout=50ms")
    assert answer["response"]["uid"] == "u-1"
    assert answer["response"]["status"]["code"] == 504
    assert "within 0.05 s" in answer["response"]["status"]["message"]


# ---------------------------------------------------------------------- what is no question

GARBAGE = {
    "empty": (b"", 400),
    "garbage": (b"\x00\xffgarbage", 400),
    "json that is no object": (b"[]", 400),
    "truncated json": (review(object=config_map())[:-30], 400),
    "unknown version": (review("admission.k8s.io/v2", object=config_map()), 400),
    "other kind": (b'{"apiVersion":"admission.k8s.io/v1","kind":"Pod"}', 400),
    "no request": (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', 400),
    "8 MB": (b" " * 8 * 2**20, 413),
    "exactly the limit": (b" " * BODY_LIMIT, 413),
    "one byte below the limit": (b" " * (BODY_LIMIT - 1), 400),
}


@pytest.mark.parametrize("kind", GARBAGE)
async def test_garbage(hooks: Hooks, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    body, code = GARBAGE[kind]
    with caplog.at_level(logging.DEBUG):
        status, answer = await hooks.post(VALIDATE, body)
        assert status == 200
        assert answer["response"]["allowed"] is False
        assert answer["response"]["uid"] == ""
        assert answer["response"]["status"]["code"] == code
        assert "apiVersion" not in answer
        assert (await hooks.ask(VALIDATE, object=config_map()))["allowed"], "the server lives"
    lines = [record for record in caplog.records if record.levelno >= logging.INFO]
    assert len(lines) == 1
    assert lines[0].exc_info is None


@pytest.mark.parametrize("content_type", ["text/plain", "application/json; charset=utf-8", "application/yaml"])
async def test_other_content_types_are_refused(hooks: Hooks, content_type: str) -> None:
    status, answer = await hooks.post(VALIDATE, review(object=config_map()), content_type=content_type)
    assert (status, answer["response"]["status"]["code"]) == (200, 400)
    assert repr(content_type) in answer["response"]["status"]["message"]


async def test_no_content_type_is_refused(hooks: Hooks) -> None:
    body = review(object=config_map())
    head = f"POST {VALIDATE} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    status, answer = parsed(await hooks.raw(head.encode() + body))
    assert (status, answer["response"]["status"]["code"]) == (200, 400)


async def test_chunked_body_beyond_the_limit_is_cut(hooks: Hooks) -> None:
    head = (
        f"POST {VALIDATE} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"100000\r\n" + b" " * 2**20 + b"\r\n"
    status, answer = parsed(await hooks.raw(head.encode() + chunk * 7 + b"0\r\n\r\n"))
    assert (status, answer["response"]["status"]["code"]) == (200, 413)


async def test_body_that_ends_early(hooks: Hooks, caplog: pytest.LogCaptureFixture) -> None:
    head = f"POST {VALIDATE} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n"
    with caplog.at_level(logging.INFO):
        await hooks.raw(head.encode() + b'{"kind":', half_close=True)
        assert (await hooks.ask(VALIDATE, object=config_map()))["allowed"], "the server lives"
    assert len(caplog.records) <= 1


async def test_body_that_never_comes_is_not_waited_for_long(caplog: pytest.LogCaptureFixture) -> None:
    # Enough for the head to come, without which nothing is answered.
    async with Hooks(read_seconds=0.5).serving() as hooks:
        head = (
            f"POST {VALIDATE} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            "Content-Type: application/json\r\nContent-Length: 5000\r\n\r\n"
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", hooks.server.port)
        writer.write(head.encode() + b'{"kind":')
        answer = await reader.readuntil(b"}}}")
        writer.close()
        await writer.wait_closed()
        assert parsed(answer)[1]["response"]["status"]["code"] == 400


async def test_what_is_not_http_costs_one_line(hooks: Hooks, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        await hooks.raw(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")
        assert (await hooks.ask(VALIDATE, object=config_map()))["allowed"], "the server lives"
    assert len(caplog.records) <= 1
    assert all(record.exc_info is None for record in caplog.records)


async def test_unknown_path_is_not_found(hooks: Hooks) -> None:
    answer = await hooks.raw(b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 404 ")


# ---------------------------------------------------------------------- the rest


async def test_metrics_have_the_names_of_the_field(hooks: Hooks) -> None:
    assert hooks.metric("controller_runtime_webhook_requests_total", webhook=MUTATE, code="200") == 0
    await hooks.ask(VALIDATE, object=config_map())
    assert hooks.metric("controller_runtime_webhook_requests_total", webhook=VALIDATE, code="200") == 1
    assert hooks.metric("controller_runtime_webhook_requests_in_flight", webhook=VALIDATE) == 0
    assert hooks.metric("controller_runtime_webhook_latency_seconds_count", webhook=VALIDATE) == 1
    assert b"controller_runtime_webhook_panics_total 0.0" in generate_latest(hooks.registry)


async def test_path_is_taken_once(hooks: Hooks) -> None:
    with pytest.raises(ConfigurationError, match="it has a handler already"):
        hooks.server.validate(ConfigMap, hooks.validate)


async def test_taken_port_is_named(hooks: Hooks) -> None:
    other = WebhookServer(f"127.0.0.1:{hooks.server.port}", tls=None, metrics=WebhookMetrics(CollectorRegistry()))
    with pytest.raises(ConfigurationError, match=str(hooks.server.port)):
        await other.run()


async def test_request_in_process_is_finished_at_the_end() -> None:
    hooks = Hooks()
    hooks.wait = asyncio.Event()
    async with hooks.serving():
        asked = asyncio.ensure_future(hooks.ask(VALIDATE, object=config_map()))
        await hooks.asked.wait()
        asyncio.get_running_loop().call_later(0.05, hooks.wait.set)
    assert (await asked)["allowed"]


async def test_a_server_that_drains_answers_and_sends_its_clients_elsewhere(hooks: Hooks) -> None:
    body = review(object=config_map())
    head = (
        f"POST {VALIDATE} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", hooks.server.port)
    for drains in (False, True):
        if drains:
            hooks.server.begin_drain()
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert (b"Connection: close" in answer) is drains
        if not drains:
            await reader.readexactly(int(answer.lower().split(b"content-length:")[1].split()[0]))
    assert b'"allowed":true' in await reader.read(), "the connection ends after the answer"
    writer.close()
    assert (await hooks.ask(VALIDATE, object=config_map()))["allowed"], "new connections are answered"


def test_paths_are_those_of_the_field() -> None:
    assert (mutate_path(ConfigMap), validate_path(ConfigMap)) == ("/mutate--v1-configmap", "/validate--v1-configmap")
