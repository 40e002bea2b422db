# SPDX-License-Identifier: Apache-2.0
"""Access to the metrics: tokens, permissions, and how long they are cached."""

import asyncio
from typing import Any

from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import Unreachable
from trainwright.controller.runtime.servers.access import BearerAccess
from trainwright.controller.runtime.testing.clock import jumping
from trainwright.controller.runtime.testing.scripted import ScriptedTransport

FOREVER = float("inf")
USER = {"authenticated": True, "user": {"username": "bob", "groups": ["team"]}}


def tokens(request: Request) -> bool:
    return request.path.endswith("tokenreviews")


def permissions(request: Request) -> bool:
    return request.path.endswith("subjectaccessreviews")


def scripted(user: Any, allowed: bool) -> tuple[BearerAccess, ScriptedTransport]:
    transport = ScriptedTransport()
    transport.answer(tokens, {"status": user}, times=FOREVER)
    transport.answer(permissions, {"status": {"allowed": allowed}}, times=FOREVER)
    return BearerAccess(Client(transport)), transport


@jumping
async def test_an_allowed_user_is_looked_at_once() -> None:
    access, transport = scripted(USER, allowed=True)
    for _ in range(3):
        assert await access.decide("Bearer abc", "/metrics") == 200
    assert len(transport.requests) == 2
    await asyncio.sleep(61)
    assert await access.decide("Bearer abc", "/metrics") == 200
    assert list(map(tokens, transport.requests)) == [True, False, True]
    await asyncio.sleep(300)
    await access.decide("Bearer abc", "/metrics")
    assert len(transport.requests) == 5


@jumping
async def test_a_user_without_permission_is_refused_for_a_while() -> None:
    access, transport = scripted(USER, allowed=False)
    assert await access.decide("bearer abc", "/metrics") == 403
    assert await access.decide("bearer abc", "/metrics") == 403
    assert len(transport.requests) == 2
    await asyncio.sleep(31)
    assert await access.decide("bearer abc", "/metrics") == 403
    assert len(transport.requests) == 3


@jumping
async def test_nobody_and_strangers_are_refused() -> None:
    access, transport = scripted({"authenticated": False}, allowed=True)
    for header in (None, "", "Basic abc", "Bearer "):
        assert await access.decide(header, "/metrics") == 401
    assert transport.requests == []
    assert await access.decide("Bearer stranger", "/metrics") == 401
    anonymous, _ = scripted({"authenticated": True, "user": {"username": "system:anonymous"}}, allowed=True)
    assert await anonymous.decide("Bearer abc", "/metrics") == 401


@jumping
async def test_a_server_that_cannot_be_asked_is_tried_five_times(caplog: Any) -> None:
    transport = ScriptedTransport()
    transport.fail(tokens, Unreachable("refused"), times=FOREVER)
    assert await BearerAccess(Client(transport)).decide("Bearer secret", "/metrics") == 500
    assert len(transport.requests) == 5
    assert "cannot check the access" in caplog.text
    assert "secret" not in caplog.text
