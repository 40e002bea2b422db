# SPDX-License-Identifier: Apache-2.0
"""What probes and lifecycle hooks do, and what probes decide."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.local.node.pods import Document, container
from trainwright.controller.local.node.probes import HandlerTarget, Probes, attempt
from trainwright.controller.local.node.status import ContainerState, Running
from trainwright.controller.runtime.testing.waiting import equals, eventually

KINDS = ("Liveness", "Readiness", "Startup")
NOW = datetime(2026, 11, 22, tzinfo=UTC)
ANSWERS = {b"/ok": b"HTTP/1.1 200 OK\r\n\r\n", b"/moved": b"HTTP/1.1 301 Moved\r\n\r\n", b"/odd": b"SSH-2.0\r\n"}


async def nothing(_: Sequence[str]) -> tuple[int, bytes]:
    raise AssertionError("no command is run")


@asynccontextmanager
async def served() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that answers by path; yields its port and the heads of the requests."""
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(ANSWERS.get(heads[-1].split()[1], b"HTTP/1.1 503 Busy\r\n\r\n"))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], heads


def closed_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


async def test_http() -> None:
    async with served() as (port, heads):
        target = HandlerTarget(execute=nothing, container=container(ports=[{"name": "web", "containerPort": port}]))
        ok = {"path": "ok", "port": port, "httpHeaders": [{"name": "x-token", "value": "t"}]}
        assert await attempt({"httpGet": ok}, target) == ""
        assert b"X-Token: t\r\n" in heads[0]
        assert b"User-Agent: kube-probe/" in heads[0]
        assert await attempt({"httpGet": {"path": "/moved", "port": "web"}}, target) == ""
        assert await attempt({"httpGet": {"port": port}}, target) == "HTTP probe failed with statuscode: 503"
        assert "malformed HTTP response" in await attempt({"httpGet": {"path": "/odd", "port": port}}, target)
        assert await attempt({"httpGet": {"port": "gone"}}, target) == "couldn't find port: gone"


async def test_connections() -> None:
    free = closed_port()
    async with served() as (port, _):
        moved = HandlerTarget(execute=nothing, container=container(), moved={29500: port})
        assert await attempt({"tcpSocket": {"port": 29500}}, moved) == ""
        refused = f"dial tcp 127.0.0.1:{free}: connect: connection refused"
        assert await attempt({"tcpSocket": {"port": free}}, moved) == refused
        assert await attempt({"httpGet": {"port": free}}, moved) == f'Get "http://127.0.0.1:{free}/": {refused}'


@pytest.mark.parametrize(
    ("code", "output", "failure"), [(0, b"fine", ""), (1, b" not yet \n", "not yet"), (3, b"", "exit code 3")]
)
async def test_commands(code: int, output: bytes, failure: str) -> None:
    run: list[Sequence[str]] = []

    async def execute(command: Sequence[str]) -> tuple[int, bytes]:
        run.append(command)
        return code, output

    assert (
        await attempt({"exec": {"command": ["a", "b"]}}, HandlerTarget(execute=execute, container=container()))
        == failure
    )
    assert run == [["a", "b"]]


class Watched:
    """A running container whose probes run a command; the test says how that ends."""

    def __init__(self, **probes: Any) -> None:
        quick = {"periodSeconds": 0.005, "timeoutSeconds": 30, "failureThreshold": 2}
        made: dict[str, Any] = {kind: {"exec": {"command": [kind]}, **quick, **more} for kind, more in probes.items()}
        self.codes: dict[str, int] = dict.fromkeys(probes, 0)
        self.next: list[int] = []
        """Codes of the next commands, in place of those."""
        self.calls: list[str] = []
        self.told: list[tuple[str, str]] = []
        self.state = ContainerState(Running(NOW), started=False, ready=False)
        self.started = asyncio.Event()
        document: Document = container("main", **made)
        self.probes = Probes(
            document,
            HandlerTarget(execute=self._execute, container=document),
            self.state,
            changed=lambda: None,
            event=lambda reason, note: self.told.append((reason, note)),
        )

    async def _execute(self, command: Sequence[str]) -> tuple[int, bytes]:
        self.calls.append(command[0])
        return self.next.pop(0) if self.next else self.codes[command[0]], b"said"

    def flags(self) -> tuple[bool, bool]:
        return self.state.started, self.state.ready


async def test_readiness_comes_and_goes() -> None:
    watched = Watched(readinessProbe={})
    watched.codes["readinessProbe"] = 1
    running = asyncio.ensure_future(watched.probes.run(watched.started))
    await watched.started.wait()
    await eventually(lambda: len(watched.told) > 2, equals(True))
    assert watched.flags() == (True, False)
    assert watched.told[0] == ("Unhealthy", "Readiness probe failed: said")
    for code, flags in ((0, (True, True)), (1, (True, False))):
        watched.codes["readinessProbe"] = code
        await eventually(watched.flags, equals(flags))
    assert not running.done()
    running.cancel()
    await asyncio.wait({running})


async def test_a_verdict_needs_results_in_a_row() -> None:
    watched = Watched(livenessProbe={"failureThreshold": 3})
    watched.next = [1, 1, 0, 1, 1, 0, 1, 1, 1]
    assert await watched.probes.run(watched.started) == "liveness"
    assert watched.next == []
    assert len(watched.calls) == 9
    watched = Watched(readinessProbe={"successThreshold": 2, "failureThreshold": 1})
    watched.next, seen = [0, 1, 0, 0, 1], []
    watched.probes._changed = lambda: seen.append((len(watched.calls), watched.state.ready))
    running = asyncio.ensure_future(watched.probes.run(watched.started))
    await eventually(lambda: len(watched.calls) > 7, equals(True))
    running.cancel()
    await asyncio.wait({running})
    assert seen == [(0, False), (4, True), (5, False), (7, True)]


async def test_others_wait_for_the_startup_probe() -> None:
    watched = Watched(startupProbe={"failureThreshold": 10_000}, livenessProbe={}, readinessProbe={})
    watched.codes["startupProbe"] = 1
    running = asyncio.ensure_future(watched.probes.run(watched.started))
    await eventually(lambda: len(watched.calls) > 3, equals(True))
    assert (set(watched.calls), watched.flags()) == ({"startupProbe"}, (False, False))
    watched.codes["startupProbe"] = 0
    await eventually(watched.flags, equals((True, True)))
    calls = watched.calls.count("startupProbe")
    watched.codes["livenessProbe"] = 1
    assert await running == "liveness"
    assert watched.calls.count("startupProbe") == calls


async def test_a_container_that_does_not_start_has_to_end() -> None:
    watched = Watched(startupProbe={})
    watched.codes["startupProbe"] = 1
    assert await watched.probes.run(watched.started) == "startup"
    assert watched.calls == ["startupProbe"] * 2
    assert not watched.started.is_set()


async def test_a_probe_that_takes_too_long_has_failed() -> None:
    watched = Watched(livenessProbe={"exec": None, "sleep": {"seconds": 60}, "timeoutSeconds": 0.01})
    assert await watched.probes.run(watched.started) == "liveness"
    assert [reason for reason, _ in watched.told] == ["Unhealthy"] * 2


async def test_a_probe_of_grpc_counts_as_passed_and_an_event_says_so() -> None:
    grpc = {"grpc": {"port": 1}}
    watched = Watched(startupProbe=grpc, readinessProbe=grpc, livenessProbe=grpc)
    running = asyncio.ensure_future(watched.probes.run(watched.started))
    await eventually(watched.flags, equals((True, True)))
    note = "probe counts as passed: the local node runs no gRPC probes"
    await eventually(lambda: sorted(watched.told), equals([("ProbeNotRun", f"{kind} {note}") for kind in KINDS]))
    assert not running.done()
    assert not watched.calls
    running.cancel()
    await asyncio.wait({running})
