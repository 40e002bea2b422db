# SPDX-License-Identifier: Apache-2.0
"""Exec of the client on the local API server: over HTTPS, through the fault proxy, and inside of the process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.local.played import Server, Session, played_server
from trainwright.controller.local.podaccess import ExecRequest, UnavailableError
from trainwright.controller.runtime import Client, HTTPTransport
from trainwright.controller.runtime.client.exec import LIMIT, ExecResult
from trainwright.controller.runtime.client.transport import Transport
from trainwright.controller.runtime.errors import (
    BadRequest,
    ConnectionLost,
    NotFound,
    OutputTooLarge,
    RequestTimeout,
    ServerError,
    Unauthorized,
)
from trainwright.controller.runtime.testing.fault_proxy import Fault, FaultProxy, is_websocket
from trainwright.controller.runtime.testing.waiting import eventually

WAYS = ("https", "proxy", "in process")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server with a pod `p` that has the container `a`."""
    async with played_server(tmp_path / "state") as made:
        yield made


@pytest.fixture(params=WAYS)
async def client(request: pytest.FixtureRequest, server: Server) -> AsyncIterator[Client]:
    """A client of the server."""
    async with AsyncExitStack() as stack:
        transport: Transport
        if request.param == "in process":
            transport = server.api.transport()
        elif request.param == "proxy":
            transport = HTTPTransport((await stack.enter_async_context(FaultProxy(server.api.config))).config)
        else:
            transport = HTTPTransport(server.api.config)
        made = Client(transport)
        stack.push_async_callback(made.close)
        yield made


def ended(session: Session) -> Session:
    session.may_end.set()
    return session


async def test_output_and_exit_code(server: Server, client: Client) -> None:
    server.session = session = ended(Session(out=[b"one ", b"two"], err=[b"bad"], code=3))
    found = await client.exec("p", "default", ["sh", "-c", "a b&c"], container="a")
    assert found == ExecResult(b"one two", b"bad", 3)
    assert server.asked == ExecRequest(container="a", command=("sh", "-c", "a b&c"), stdout=True, stderr=True)
    await eventually(lambda: session.events == ["closed"])


async def test_success(server: Server, client: Client) -> None:
    server.session = ended(Session())
    assert await client.exec("p", "default", ["true"]) == ExecResult(b"", b"", 0)


async def test_refusals(server: Server, client: Client) -> None:
    with pytest.raises(NotFound, match='pods "absent" not found'):
        await client.exec("absent", "default", ["true"])
    with pytest.raises(BadRequest, match="container b is not valid for pod p"):
        await client.exec("p", "default", ["true"], container="b")
    server.session = UnavailableError("no such program")
    with pytest.raises(ServerError, match="no such program"):
        await client.exec("p", "default", ["true"])


async def test_a_process_that_hangs_is_killed_after_the_timeout(server: Server, client: Client) -> None:
    server.session = session = Session(out=[b"so far"])
    # Within this time the connection has to be made, too: without it, there is no process.
    with pytest.raises(RequestTimeout):
        await client.exec("p", "default", ["sleep"], seconds=2)
    await eventually(lambda: session.events == ["closed"])


@pytest.mark.parametrize("chunks", [[bytes(LIMIT + 10)], [bytes(1000)] * 1100], ids=["one message", "many"])
async def test_more_output_than_wanted(server: Server, client: Client, chunks: list[bytes]) -> None:
    server.session = session = Session(out=chunks)
    with pytest.raises(OutputTooLarge):
        await client.exec("p", "default", ["cat"])
    await eventually(lambda: session.events == ["closed"])


async def test_credentials_that_are_wrong(server: Server) -> None:
    client = Client(HTTPTransport(replace(server.api.config, token="wrong")))
    with pytest.raises(Unauthorized):
        await client.exec("p", "default", ["true"])
    await client.close()


async def test_faults_on_the_way(server: Server) -> None:
    server.session = ended(Session())
    async with FaultProxy(server.api.config) as proxy:
        client = Client(HTTPTransport(proxy.config))
        body = b'{"kind":"Status","code":500,"reason":"InternalError","message":"node away"}'
        proxy.add(Fault(is_websocket, status=500, body=body))
        with pytest.raises(ServerError, match="node away"):
            await client.exec("p", "default", ["true"])
        for fault in (Fault(is_websocket, refuse=True), Fault(is_websocket, lose=True)):
            proxy.add(fault)
            with pytest.raises(ConnectionLost):
                await client.exec("p", "default", ["true"])
        assert (await client.exec("p", "default", ["true"])).code == 0
        await client.close()


async def test_a_closed_client_leaves_no_process(server: Server) -> None:
    server.session = session = Session(out=[b"so far"])
    client = Client(HTTPTransport(server.api.config))
    task = asyncio.create_task(client.exec("p", "default", ["sleep"]))
    await eventually(lambda: server.asked is not None)
    await client.close()
    with pytest.raises(ConnectionLost):
        await task
    await eventually(lambda: session.events == ["closed"])
