# SPDX-License-Identifier: Apache-2.0
"""`pods/exec`: the channels of the websocket, and requests that are refused before it is opened."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.local.played import UPGRADE, Server, Session, played_server
from trainwright.controller.local.apiserver.verbs.channels import EXEC
from trainwright.controller.local.podaccess import ExecRequest, UnavailableError


class Socket:
    """The client's side; it goes away after its messages if that is wanted."""

    def __init__(self, *messages: bytes, protocol: str = EXEC[0], leaves: bool = False) -> None:
        self.protocol = protocol
        self._messages = list(messages)
        self._leaves = leaves
        self.sent: list[bytes] = []

    async def receive(self) -> bytes | None:
        if self._messages:
            return self._messages.pop(0)
        if not self._leaves:
            await asyncio.Event().wait()
        return None

    async def send(self, message: bytes) -> None:
        self.sent.append(message)

    def status(self) -> dict[str, Any]:
        """What was said on channel 3, which is the last message."""
        assert self.sent[-1][0] == 3
        found: dict[str, Any] = json.loads(self.sent[-1][1:])
        return found


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server with a pod `p` that has the container `a`."""
    async with played_server(tmp_path / "state") as made:
        yield made


async def test_output_goes_to_its_channels_and_the_exit_code_to_the_last(server: Server) -> None:
    server.session = session = Session(out=[b"one", b"two"], err=[b"bad"], code=3)
    session.may_end.set()
    socket = Socket()
    await server.speak(socket, "command=sh&command=-c&command=exit 3&stdout=true&stderr=true")
    assert server.asked == ExecRequest(container="a", command=("sh", "-c", "exit 3"), stdout=True, stderr=True)
    assert socket.sent[0] == b"\x01"
    assert [one for one in socket.sent[1:] if one[0] == 1] == [b"\x01one", b"\x01two"]
    assert [one for one in socket.sent if one[0] == 2] == [b"\x02bad"]
    status = socket.status()
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert session.events == ["closed"]


async def test_success_is_told(server: Server) -> None:
    server.session = session = Session()
    session.may_end.set()
    socket = Socket()
    await server.speak(socket)
    assert socket.status() == {"metadata": {}, "status": "Success"}


async def test_input_and_its_end(server: Server) -> None:
    server.session = session = Session()
    await server.speak(Socket(b"\x00ab", b"", b"\x00c", b"\xff\x00"))
    assert session.events == [b"ab", b"c", "end", "closed"]


async def test_version_four_has_no_half_close_and_a_client_that_leaves_ends_the_process(server: Server) -> None:
    server.session = session = Session()
    socket = Socket(b"\x00ab", b"\xff\x00", protocol=EXEC[1], leaves=True)
    await server.speak(socket)
    assert session.events == [b"ab", "closed"]
    assert socket.sent == [b"\x01"]


async def test_sizes_are_for_terminals(server: Server) -> None:
    server.session = session = Session(out=[b"$ "])
    size = b'\x04{"Width":120,"Height":40}'
    socket = Socket(b"\x04garbage", b'\x04{"Width":0,"Height":-1}', size)
    await server.speak(socket, "command=sh&stdin=true&stdout=true&stderr=true&tty=true")
    assert session.events == [(120, 40), "closed"]
    assert server.asked is not None
    assert (server.asked.tty, server.asked.stderr) == (True, False)


async def test_a_process_that_cannot_start_is_told_on_the_channel(server: Server) -> None:
    server.session = UnavailableError('container not found ("a")')
    socket = Socket()
    await server.speak(socket)
    assert len(socket.sent) == 1
    assert socket.status()["message"] == 'Internal error occurred: container not found ("a")'


@pytest.mark.parametrize("state", ["waiting", "terminated"])
async def test_a_container_that_does_not_run_is_told_before_the_websocket(server: Server, state: str) -> None:
    one = {"name": "a", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "lastState": {}}
    said = {"reason": "Error"} if state == "waiting" else {"exitCode": 1}
    await server.report({"containerStatuses": [{**one, "state": {state: said}}]})
    answer = await server.request("command=ls&stdout=true")
    assert (answer.status, answer.upgrade, answer.body) == (500, None, b'container not found ("a")\n')
    assert answer.content_type.startswith("text/plain")
    await server.report({"containerStatuses": [{**one, "state": {"running": {}}}]})
    assert (await server.request("command=ls&stdout=true")).status == 101


@pytest.mark.parametrize(
    ("query", "headers", "message"),
    [
        ("command=ls&stdout=true", {"upgrade": "SPDY/3.1"}, "does not speak SPDY"),
        ("command=ls&stdout=true", {}, "Upgrade request required"),
        ("command=ls&stdout=true", {**UPGRADE, "sec-websocket-protocol": "channel.k8s.io"}, "v5.channel.k8s.io"),
        ("command=ls&stdout=true&container=zz", UPGRADE, "container zz is not valid for pod p"),
        ("stdout=true", UPGRADE, "at least one command"),
        ("command=ls", UPGRADE, "you must specify at least 1 of stdin, stdout, stderr"),
    ],
)
async def test_refusals(server: Server, query: str, headers: dict[str, str], message: str) -> None:
    for method in ("GET", "POST"):
        answer = await server.request(query, method=method, headers=headers)
        assert (answer.status, answer.upgrade) == (400, None)
        assert message in json.loads(answer.body)["message"]
    assert server.asked is None
