# SPDX-License-Identifier: Apache-2.0
"""The client's own limit on requests."""

import asyncio
import logging

import pytest

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.client.limit import LimitedTransport
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.testing.clock import jumping
from trainwright.controller.runtime.testing.objects import config_map
from trainwright.controller.runtime.testing.scripted import ScriptedTransport, status_body


@jumping
async def test_a_burst_goes_at_once_and_the_rest_at_the_rate(caplog: pytest.LogCaptureFixture) -> None:
    scripted = ScriptedTransport()
    scripted.answer(lambda _: True, config_map("a", version="1"), times=8)
    client = Client(LimitedTransport(scripted, rate=2, burst=3))
    times = []

    async def get() -> None:
        await client.get(ConfigMap, "a", "default")
        times.append(asyncio.get_running_loop().time())

    with caplog.at_level(logging.INFO):
        async with asyncio.TaskGroup() as tasks:
            for _ in range(8):
                tasks.create_task(get())
    assert times == [0, 0, 0, 0.5, 1, 1.5, 2, 2.5]
    (line,) = (record.getMessage() for record in caplog.records)
    assert line == (
        "GET /api/v1/namespaces/default/configmaps/a waits 1.5 s because of the client's limit of 2 requests per second"
    )


@jumping
async def test_each_repetition_takes_a_token_and_a_stream_takes_none() -> None:
    scripted = ScriptedTransport()
    headers = {"retry-after": "0"}
    scripted.answer(lambda _: True, status_body(429, "TooManyRequests"), status=429, headers=headers, times=2)
    scripted.answer(lambda _: True, config_map("a", version="1"), times=8)
    scripted.stream(lambda request: "watch" in request.query)
    transport = LimitedTransport(scripted, rate=1, burst=1)
    await Client(transport).get(ConfigMap, "a", "default")
    assert asyncio.get_running_loop().time() == 2
    async with transport.open(Request("GET", "/", {"watch": "true"})) as stream:
        assert stream.status == 200
    assert asyncio.get_running_loop().time() == 2


@jumping
async def test_a_request_that_gave_up_gives_its_turn_back() -> None:
    scripted = ScriptedTransport()
    scripted.answer(lambda _: True, config_map("a", version="1"), times=2)
    transport = LimitedTransport(scripted, rate=1, burst=1)
    request = Request("GET", "/")
    await transport.send(request)
    waiting = [asyncio.ensure_future(transport.send(request)) for _ in range(30)]
    await asyncio.sleep(0.5)
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await transport.send(request)
    assert asyncio.get_running_loop().time() == 1
