# SPDX-License-Identifier: Apache-2.0
"""The write permission: which tasks carry it, and where it is checked."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.controller.runtime import Done, Key, Result, Trigger
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.http import HTTPTransport
from trainwright.controller.runtime.client.transport import Request, permission
from trainwright.controller.runtime.controller.builder import Builder
from trainwright.controller.runtime.errors import LeadershipLost, NotLeading, RequestTimeout
from trainwright.controller.runtime.manager.supervisor import Group, Supervisor
from trainwright.controller.runtime.testing.clock import jumping, settle
from trainwright.controller.runtime.testing.scripted import ScriptedTransport

BODY = b'{"metadata":{"name":"m","resourceVersion":"1"}}'


class Server:
    """A server that notes what it gets and answers, or not."""

    def __init__(self, *, answers: bool = True) -> None:
        self.got: list[bytes] = []
        self.peers: list[int] = []
        self._answers = answers
        self._served: list[asyncio.Task[None]] = []
        self.config = ClusterConfig(server="")

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Server"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.config = ClusterConfig(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        async with server:
            yield self
            await asyncio.gather(*self._served)  # until each has seen the end of its connection

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            self._served.append(task)
        self.peers.append(writer.get_extra_info("peername")[1])
        try:
            while data := await reader.read(2**16):
                self.got.append(data)
                if self._answers:
                    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
                    writer.write(head.encode() + BODY)
        except ConnectionError:
            self.got.append(b"(cut)")
        finally:
            writer.close()


class Permission:
    """Says yes `times` times."""

    def __init__(self, times: int, *, remaining: float = 60.0) -> None:
        self.asked = 0
        self._times = times
        self._remaining = remaining

    def check(self) -> None:
        self.asked += 1
        if self.asked > self._times:
            raise NotLeading("not any more")

    def remaining(self) -> float:
        return self._remaining


@asynccontextmanager
async def client_of(server: Server, allowed: Permission) -> AsyncIterator[Client]:
    client = Client(HTTPTransport(server.config))
    token = permission.set(allowed)
    try:
        yield client
    finally:
        permission.reset(token)
        await client.close()


async def write(client: Client) -> None:
    await client.patch(ConfigMap, "m", "n", {"data": {"a": "b"}})


async def test_write_asks_when_it_begins_and_when_the_bytes_leave() -> None:
    allowed = Permission(2)
    async with Server().running() as server, client_of(server, allowed) as client:
        await write(client)
        assert allowed.asked == 2
        assert len(server.got) == 1


async def test_write_that_may_not_begin_opens_no_connection() -> None:
    async with Server().running() as server, client_of(server, Permission(0)) as client:
        with pytest.raises(NotLeading):
            await write(client)
        assert not server.got


async def test_write_whose_permission_ends_on_the_way_sends_no_byte() -> None:
    async with Server().running() as server, client_of(server, Permission(1)) as client:
        with pytest.raises(NotLeading):
            await write(client)
        permission.set(None)
        await client.get(ConfigMap, "m", "n")
        assert len(server.got) == 1
        assert server.got[0].startswith(b"GET ")


@pytest.mark.parametrize("verb", ["create", "update", "delete", "apply", "delete_collection", "post", "scale"])
async def test_every_verb_that_writes_asks(verb: str) -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "n"}}
    kind = ConfigMap.RESOURCE
    async with Server().running() as server, client_of(server, Permission(1)) as client:
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "create": lambda: client.create(document, kind=kind),
            "update": lambda: client.update(document, kind=kind),
            "delete": lambda: client.delete(kind, "m", "n"),
            "apply": lambda: client.apply(document, kind=kind, field_manager="me"),
            "delete_collection": lambda: client.delete_collection(kind, "n"),
            "post": lambda: client.post_subresource(kind, "m", "n", "eviction", document),
            "scale": lambda: client.set_scale(kind, "m", "n", 1),
        }
        with pytest.raises(NotLeading):
            await calls[verb]()
        assert not server.got


async def test_write_without_a_time_limit_asks_and_ends_as_well() -> None:
    endless = Request("POST", "/x", body=b"{}", timeout=None)
    async with Server().running() as server, client_of(server, Permission(1)) as client:
        with pytest.raises(NotLeading):
            await client.send(endless)
        assert not server.got
    async with Server(answers=False).running() as server, client_of(server, Permission(9, remaining=0.05)) as client:
        with pytest.raises(RequestTimeout):
            await client.send(endless)


async def test_reads_need_no_permission() -> None:
    allowed = Permission(0)
    async with Server().running() as server, client_of(server, allowed) as client:
        await client.get(ConfigMap, "m", "n")
        assert allowed.asked == 0


async def test_write_ends_before_others_may_take_the_lease() -> None:
    async with Server(answers=False).running() as server, client_of(server, Permission(9, remaining=0.05)) as client:
        with pytest.raises(RequestTimeout):
            await write(client)


def connection_from(port: int) -> socket.socket:
    """This process's socket with that port on this side."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found = socket.socket(fileno=os.dup(int(descriptor.name)))
            if found.getsockname()[1:2] == (port,):
                return found
            found.close()
    raise AssertionError(f"no connection from port {port}")


@pytest.mark.only_where(sys.platform == "linux", "an option of Linux")
@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_kernel_drops_what_it_could_not_deliver_in_time(factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def limit_of_a_write() -> int:
        async with Server().running() as server, client_of(server, Permission(9, remaining=4.0)) as client:
            await write(client)
            with connection_from(server.peers[0]) as connection:
                return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)

    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(limit_of_a_write()) == 4000


# ---------------------------------------------------------------------- in the supervisor


class Work:
    """Runs until it is stopped and tells what it was allowed."""

    def __init__(self) -> None:
        self.seen: object = None
        self.running = asyncio.Event()

    async def run(self) -> None:
        self.seen = permission.get()
        self.running.set()
        await asyncio.Event().wait()


async def test_only_the_leader_group_carries_the_permission() -> None:
    allowed = Permission(0)
    leading, other, late = Work(), Work(), Work()

    def enter(group: Group) -> None:
        if group is Group.LEADER:
            permission.set(allowed)

    supervisor = Supervisor(enter=enter)
    supervisor.add(leading, Group.LEADER)
    supervisor.add(other, Group.OTHERS)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(supervisor.run())
        await leading.running.wait()
        supervisor.add(late, Group.LEADER)  # from a context that carries none
        await late.running.wait()
        assert not supervisor.ended(Group.LEADER)
        supervisor.stop()
        await running
    assert (leading.seen, other.seen, late.seen) == (allowed, None, allowed)
    assert supervisor.ended(Group.LEADER)
    assert permission.get() is None


async def test_failure_before_a_group_ends_what_runs_already() -> None:
    other = Work()

    async def before(group: Group) -> None:
        if group is Group.LEADER:
            await other.running.wait()
            raise LeadershipLost("before it began")

    supervisor = Supervisor(before=before)
    supervisor.add(other, Group.OTHERS)
    with pytest.raises(LeadershipLost):
        await supervisor.run()
    assert supervisor.running() == []


async def test_hurry_cancels_what_would_take_its_time() -> None:
    class Slow:
        def __init__(self) -> None:
            self.begun = asyncio.Event()
            self.cancelled = False

        async def run(self) -> None:
            self.begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise

        def request_stop(self) -> None:
            """Goes on as if nobody had asked."""

    slow = Slow()
    supervisor = Supervisor(grace=3600.0)
    supervisor.add(slow, Group.LEADER)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(supervisor.run())
        await slow.begun.wait()
        supervisor.hurry()
        supervisor.stop()
        await running
    assert slow.cancelled


# ---------------------------------------------------------------------- in a controller


@jumping
async def test_reconcile_that_may_not_write_any_more_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[Key] = []

    async def reconcile(key: Key) -> Result:
        calls.append(key)
        if len(calls) == 1:
            raise NotLeading("this replica does not lead; nothing was sent")
        return Done()

    trigger = Trigger()
    builder = Builder(Cache(Client(ScriptedTransport())), "bench")
    controller = builder.source(trigger).reconcile(reconcile)
    running = asyncio.ensure_future(controller.run())
    await settle()
    trigger(Key("n", "m"))
    with caplog.at_level("WARNING"):
        await asyncio.sleep(1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(calls) == 2
    assert caplog.text == ""
