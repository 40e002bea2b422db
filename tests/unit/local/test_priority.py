# SPDX-License-Identifier: Apache-2.0
"""Writes of clients go before those of controllers, and requests that arrive at once take turns of the event loop."""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from trainwright.controller.local.apiserver.http.priority import LONGEST_WAIT, PriorityAndFairness
from trainwright.controller.local.apiserver.http.transport import InProcessTransport
from trainwright.controller.local.apiserver.request.info import ServerRequest, ServerResponse
from trainwright.controller.local.cluster import RunningServer, api_server
from trainwright.controller.runtime import HTTPTransport, load_config
from trainwright.controller.runtime.client.transport import Request
from trainwright.controller.runtime.errors import RequestTimeout
from trainwright.controller.runtime.testing.clock import jumping, settle

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def now() -> float:
    return asyncio.get_running_loop().time()


@jumping
async def test_a_write_waits_until_no_client_writes() -> None:
    priority = PriorityAndFairness()
    with priority.client_request("POST"), priority.client_request("PATCH"):
        with priority.client_request("DELETE"):
            waits = asyncio.create_task(priority.wait_for_clients("PUT"))
            await settle()
        await settle()
        assert not waits.done()
        await priority.wait_for_clients("GET")
    await settle()
    assert waits.done()
    with pytest.raises(ConnectionError), priority.client_request("POST"):
        raise ConnectionError
    with priority.client_request("GET"):
        await priority.wait_for_clients("POST")
    assert now() == 0


@jumping
async def test_controllers_write_at_a_bounded_rate_while_clients_never_pause() -> None:
    priority = PriorityAndFairness()
    with priority.client_request("POST"):
        await asyncio.gather(*(priority.wait_for_clients("POST") for _ in range(5)))
        assert now() == pytest.approx(5 * LONGEST_WAIT)
        waiting = [asyncio.create_task(priority.wait_for_clients("POST")) for _ in range(100)]
        await settle()
    # A moment without clients lets all of them go on.
    await settle()
    assert all(one.done() for one in waiting)
    assert now() == pytest.approx(5 * LONGEST_WAIT)


async def test_a_burst_takes_several_turns() -> None:
    turns, begun, seen = PriorityAndFairness(slice_seconds=0.0), list[int](), [0]

    async def request(number: int) -> None:
        await turns.next_turn()
        begun.append(number)

    async with asyncio.TaskGroup() as tasks:
        for number in range(10):
            tasks.create_task(request(number))
        while len(begun) < 10:
            await asyncio.sleep(0)
            seen.append(len(begun))
    assert begun == list(range(10))
    assert all(later - earlier <= 1 for earlier, later in pairwise(seen))


async def test_who_gives_up_holds_up_no_other_and_one_after_the_other_waits_for_none() -> None:
    turns = PriorityAndFairness(slice_seconds=0.0)
    begins, leaves, waits = (asyncio.ensure_future(turns.next_turn()) for _ in range(3))
    await asyncio.sleep(0)
    leaves.cancel()  # while it waits for its turn
    await asyncio.wait_for(waits, 10)
    assert begins.done()
    assert leaves.cancelled()
    await asyncio.sleep(0)
    passed: list[int] = []
    asyncio.get_running_loop().call_soon(passed.append, 1)
    await turns.next_turn()
    assert not passed


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with api_server(tmp_path / "state", memory=True) as running:
        yield running


def creation(name: str, timeout: float | None = 30.0) -> Request:
    body = json.dumps({"metadata": {"name": name}}).encode()
    return Request("POST", CONFIG_MAPS, headers={"Content-Type": "application/json"}, body=body, timeout=timeout)


async def test_requests_of_the_process_make_way(api: RunningServer) -> None:
    """They are answered nonetheless, and the wait is part of their time."""
    transport = InProcessTransport(api.server, str(api.config.token))
    with api.server.priority.client_request("POST"):
        assert (await transport.send(creation("a"))).status == 201
        with pytest.raises(RequestTimeout):
            await transport.send(creation("b", timeout=LONGEST_WAIT / 10))
    assert (await transport.send(creation("b"))).status == 201


async def test_requests_over_https_are_those_of_clients(api: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    transport, seen, handle = HTTPTransport(load_config(api.kubeconfig)), list[bool](), api.server.handle

    async def watched(request: ServerRequest) -> ServerResponse:
        seen.append(api.server.priority.client_waits)
        return await handle(request)

    monkeypatch.setattr(api.server, "handle", watched)
    assert (await transport.send(creation("a"))).status == 201
    await transport.send(Request("GET", CONFIG_MAPS))
    assert seen == [True, False]
    assert not api.server.priority.client_waits
    await transport.close()
