# SPDX-License-Identifier: Apache-2.0
"""Webhooks of a process outside the cluster: what it leaves there when its registration had no answer."""

import asyncio
from typing import Any

import msgspec
import pytest

from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.transport import Request, Response
from trainwright.controller.runtime.errors import ConnectionLost
from trainwright.controller.runtime.testing.scripted import ScriptedTransport, status_body
from trainwright.controller.runtime.webhook.registration import WebhookRegistration

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
