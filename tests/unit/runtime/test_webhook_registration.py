# SPDX-License-Identifier: Apache-2.0
"""Webhooks of a process outside the cluster: what it leaves there when its registration had no answer."""

import asyncio
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.errors import ConnectionLost
from trainwright.controller.runtime.testing.scripted import ScriptedTransport, status_body
from trainwright.controller.runtime.testing.waiting import eventually
from trainwright.controller.runtime.webhook import webhooks
from trainwright.controller.runtime.webhook.webhooks import WebhookRegistration

DOCUMENT = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "v"},
    "webhooks": [
        {
            "name": "a.example.com",
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/v"}},
        }
    ],
}


class Server(ScriptedTransport):
    """Holds one object, and does not answer the request that writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[str, Any] | None = None
        self.written = asyncio.Event()
        self.answers = asyncio.Event()
        """Whether the connection of the write has broken; it hangs until then."""

    async def send(self, request: Request) -> Response:
        if request.method == "PATCH":
            document = msgspec.json.decode(request.body or b"")
            self.held = {**document, "metadata": {**document["metadata"], "uid": "u"}}
            self.written.set()
            await self.answers.wait()
            raise ConnectionLost("the connection broke")
        if self.held is None:
            return Response(404, {}, msgspec.json.encode(status_body(404, "NotFound")))
        if request.method == "DELETE":
            self.held = None
            return Response(200, {}, b'{"kind": "Status"}')
        return Response(200, {}, msgspec.json.encode(self.held))


async def register_without_an_answer(server: Server, registration: WebhookRegistration, *, cancelled: bool) -> None:
    task = asyncio.ensure_future(registration.register(b"bundle"))
    await server.written.wait()
    if cancelled:
        task.cancel()
    else:
        server.answers.set()
    with pytest.raises(asyncio.CancelledError if cancelled else ConnectionLost):
        await task


@pytest.mark.parametrize("cancelled", [True, False], ids=["stopped", "lost"])
async def test_a_configuration_whose_registration_had_no_answer_is_removed(cancelled: bool) -> None:
    """Otherwise writes of its kinds would fail, since nobody serves it."""
    server = Server()
    registration = WebhookRegistration(Client(server), [DOCUMENT], "https://host:1", field_manager="m")
    await register_without_an_answer(server, registration, cancelled=cancelled)
    await registration.unregister()
    assert server.held is None


async def test_that_of_another_process_stays() -> None:
    server = Server()
    registration = WebhookRegistration(Client(server), [DOCUMENT], "https://host:1", field_manager="m")
    await register_without_an_answer(server, registration, cancelled=True)
    assert server.held is not None
    server.held["webhooks"][0]["clientConfig"]["url"] = "https://other:1/v"
    await registration.unregister()
    assert server.held is not None


class Held(Server):
    """Answers the write, and says when the object is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.gone = asyncio.Event()

    async def send(self, request: Request) -> Response:
        if request.method == "PATCH":
            document = msgspec.json.decode(request.body or b"")
            self.held = {**document, "metadata": {**document["metadata"], "uid": "u"}}
            return Response(200, {}, msgspec.json.encode(self.held))
        answer = await super().send(request)
        if request.method == "DELETE":
            self.gone.set()
        return answer


async def test_calls_are_answered_for_a_moment_after_the_configurations_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The API server calls until its watch has told it."""
    monkeypatch.setattr(webhooks, "LINGER_SECONDS", 3600.0)
    server = Held()
    hooks = webhooks.Webhooks(
        Client(server),
        CollectorRegistry(),
        "127.0.0.1:0",
        configurations=[],
        certificates=webhooks.ByURL(url="https://h:1"),
    )
    registration = WebhookRegistration(Client(server), [DOCUMENT], "https://h:1", field_manager="m")
    monkeypatch.setattr(hooks, "_registration", registration)
    running = asyncio.ensure_future(hooks.run())
    await hooks.server.listening.wait()
    await eventually(lambda: server.held, lambda held: held is not None)
    running.cancel()
    await server.gone.wait()
    for _ in range(10):
        await asyncio.sleep(0.01)
        _, writer = await asyncio.open_connection("127.0.0.1", hooks.server.port)
        writer.close()
    assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not hooks.server.listening.is_set()
