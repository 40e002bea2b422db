# SPDX-License-Identifier: Apache-2.0
"""`pods/exec` and `pods/portforward`: what is spoken over the websocket, refusals before it is opened, and our client.

kubectl speaks to both in tests/integration/local/kubectl.
"""

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from trainwright.controller.local.apiserver.request.info import ServerRequest, ServerResponse, ServerWebSocket
from trainwright.controller.local.apiserver.verbs import channels
from trainwright.controller.local.apiserver.verbs.channels import (
    DICTIONARY,
    EXEC,
    FIN,
    FORWARD,
    PING,
    RST_STREAM,
    SYN_REPLY,
    SYN_STREAM,
    SPDYTunnel,
    control_frame,
    data_frame,
)
from trainwright.controller.local.apiserver.verbs.pods import connect_exec, forward_ports
from trainwright.controller.local.cluster import RunningServer, api_server
from trainwright.controller.local.podaccess import ExecRequest, Streams, UnavailableError
from trainwright.controller.runtime import Client, HTTPTransport
from trainwright.controller.runtime.client.exec import LIMIT, ExecResult
from trainwright.controller.runtime.errors import (
    BadRequest,
    ConnectionLost,
    NotFound,
    OutputTooLarge,
    RequestTimeout,
    ServerError,
    Unauthorized,
)
from trainwright.controller.runtime.testing.waiting import eventually

POD = "/api/v1/namespaces/default/pods/p"
PATH, PLACE = f"{POD}/exec", f"{POD}/portforward"
(TUNNEL,) = FORWARD


def upgrade(*protocols: str) -> dict[str, str]:
    return {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-protocol": ",".join(protocols)}


UPGRADE = upgrade(*EXEC)


async def _each(chunks: Sequence[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


class Session:
    """A process that a test plays."""

    def __init__(self, *, out: Sequence[bytes] = (), err: Sequence[bytes] = (), code: int = 0) -> None:
        self.stdout, self.stderr, self._code = _each(out), _each(err), code
        self.events: list[Any] = []
        self.may_end = asyncio.Event()

    async def write(self, data: bytes) -> None:
        self.events.append(data)

    async def close_stdin(self) -> None:
        self.events.append("end")
        self.may_end.set()

    def resize(self, width: int, height: int) -> None:
        self.events.append((width, height))
        self.may_end.set()

    async def wait(self) -> int:
        await self.may_end.wait()
        return self._code

    async def close(self) -> None:
        self.events.append("closed")


class Server:
    """An API server with one pod, whose processes a test plays."""

    def __init__(self, api: RunningServer) -> None:
        self.api = api
        self.session: Session | UnavailableError = Session()
        self.asked: ExecRequest | None = None
        execs = partial(connect_exec, api.server.store, self._start, api.server.admission)
        api.server.register_handler("", "pods", "exec", execs)

    async def _start(self, namespace: str, pod: str, request: ExecRequest) -> Session:
        assert (namespace, pod) == ("default", "p")
        self.asked = request
        if isinstance(self.session, UnavailableError):
            raise self.session
        return self.session

    async def request(
        self, query: str, *, method: str = "GET", headers: dict[str, str] = UPGRADE, path: str = PATH
    ) -> ServerResponse:
        """Ask for a process: `command=ls&stdout=true`."""
        pairs = [(name, value) for name, _, value in (part.partition("=") for part in query.split("&"))]
        authorization = {"authorization": f"Bearer {self.api.config.token}"}
        return await self.api.server.handle(
            ServerRequest(method=method, path=path, query=pairs, headers={**headers, **authorization})
        )

    async def report(self, status: dict[str, Any]) -> None:
        """Write the status of the pod."""
        patch = {"content-type": "application/merge-patch+json", "authorization": f"Bearer {self.api.config.token}"}
        path = f"{POD}/status"
        body = json.dumps({"status": status}).encode()
        answer = await self.api.server.handle(ServerRequest(method="PATCH", path=path, headers=patch, body=body))
        assert answer.status == 200, answer.body

    async def speak(
        self, socket: ServerWebSocket, query: str = "command=ls&stdin=true&stdout=true&stderr=true", *, path: str = PATH
    ) -> None:
        """Run a whole connection."""
        answer = await self.request(query, path=path)
        assert answer.upgrade is not None
        await asyncio.wait_for(answer.upgrade.serve(socket), 10)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server with a pod `p` that has the container `a`."""
    async with api_server(tmp_path / "state", memory=True) as api:
        body = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "a", "image": "x"}]}}
        headers = {"authorization": f"Bearer {api.config.token}"}
        path, content = POD.removesuffix("/p"), json.dumps(body).encode()
        made = await api.server.handle(ServerRequest(method="POST", path=path, headers=headers, body=content))
        assert made.status == 201
        yield Server(api)


# ------------------------------------------------------------------ the channels of exec


class Socket:
    """The client's side; it goes away after its messages if that is wanted."""

    def __init__(self, *messages: bytes, protocol: str = EXEC[0], leaves: bool = False) -> None:
        self.protocol = protocol
        self.to_server: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.answers: asyncio.Queue[bytes] = asyncio.Queue()
        self.sent: list[bytes] = []
        for message in (*messages, *([None] if leaves else [])):
            self.to_server.put_nowait(message)

    async def receive(self) -> bytes | None:
        return await self.to_server.get()

    async def send(self, message: bytes) -> None:
        self.sent.append(message)
        await self.answers.put(message)

    async def answer(self) -> bytes:
        return await asyncio.wait_for(self.answers.get(), 10)

    def status(self) -> dict[str, Any]:
        """What was said on channel 3, which is the last message."""
        assert self.sent[-1][0] == 3
        found: dict[str, Any] = json.loads(self.sent[-1][1:])
        return found


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


# ------------------------------------------------------------------ our client


WAYS = ("https", "in process")


@pytest.fixture(params=WAYS)
async def client(request: pytest.FixtureRequest, server: Server) -> AsyncIterator[Client]:
    """A client of the server."""
    async with AsyncExitStack() as stack:
        made = Client(server.api.transport() if request.param == "in process" else HTTPTransport(server.api.config))
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


async def test_refusals_of_the_client(server: Server, client: Client) -> None:
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


async def test_a_closed_client_leaves_no_process(server: Server) -> None:
    server.session = session = Session(out=[b"so far"])
    client = Client(HTTPTransport(server.api.config))
    task = asyncio.create_task(client.exec("p", "default", ["sleep"]))
    await eventually(lambda: server.asked is not None)
    await client.close()
    with pytest.raises(ConnectionLost):
        await task
    await eventually(lambda: session.events == ["closed"])


# ------------------------------------------------------------------ port-forward


async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A program in a pod: answers in capitals once the client has said everything."""
    writer.write((await reader.read()).upper())
    await writer.drain()
    writer.close()


@pytest.fixture
async def listening(server: Server) -> AsyncIterator[Server]:
    """The same server: in the pod, a program listens on port 80 and none on others."""
    async with await asyncio.start_server(shout, "127.0.0.1", 0) as program:
        real = program.sockets[0].getsockname()[1]

        async def connect(namespace: str, pod: str, port: int) -> Streams:
            assert (namespace, pod) == ("default", "p")
            if port != 80:
                raise ConnectionRefusedError("connection refused")
            return await asyncio.open_connection("127.0.0.1", real)

        forwards = partial(forward_ports, server.api.server.store, connect, server.api.server.admission)
        server.api.server.register_handler("", "pods", "portforward", forwards)
        yield server


def syn_stream(pack: Any, stream: int, **headers: str) -> bytes:
    words = [word.encode() for pair in headers.items() for word in pair]
    block = len(headers).to_bytes(4, "big") + b"".join(len(word).to_bytes(4, "big") + word for word in words)
    packed = pack.compress(block) + pack.flush(zlib.Z_SYNC_FLUSH)
    return control_frame(SYN_STREAM, stream.to_bytes(4, "big") + bytes(6) + packed)


async def test_a_connection_in_a_tunnel(listening: Server) -> None:
    socket, pack = Socket(protocol=TUNNEL), zlib.compressobj(zdict=DICTIONARY)
    answer = await listening.request("x=y", headers=upgrade(*FORWARD), path=PLACE)
    assert answer.upgrade is not None
    serving = asyncio.ensure_future(answer.upgrade.serve(socket))
    for first, port in ((1, "80"), (5, "81")):
        for stream, kind in ((first, "error"), (first + 2, "data")):
            frame = syn_stream(pack, stream, streamtype=kind, port=port, requestid=port)
            # Frames need not begin where messages do.
            await socket.to_server.put(frame[:5])
            await socket.to_server.put(frame[5:])
            reply = await socket.answer()
            assert reply[:4] == control_frame(SYN_REPLY, b"")[:4]
            assert int.from_bytes(reply[8:12], "big") == stream
    await socket.to_server.put(data_frame(3, b"hel") + data_frame(3, b"lo", FIN) + control_frame(PING, b"1234"))
    found = [await socket.answer() for _ in range(6)]
    assert sorted(found) == sorted(
        [
            control_frame(PING, b"1234"),
            data_frame(5, b"error forwarding port 81: connection refused", FIN),
            data_frame(7, b"", FIN),
            data_frame(3, b"HELLO"),
            data_frame(1, b"", FIN),
            data_frame(3, b"", FIN),
        ]
    )
    await socket.to_server.put(None)
    await asyncio.wait_for(serving, 10)


@pytest.mark.parametrize(
    "end",
    [control_frame(RST_STREAM, (3).to_bytes(4, "big") + (5).to_bytes(4, "big")), data_frame(3, b"", FIN)],
    ids=["reset", "end"],
)
async def test_a_client_that_goes_ends_its_connection(monkeypatch: pytest.MonkeyPatch, end: bytes) -> None:
    """kubectl resets the stream or says that it is at its end, and waits for the end of the stream of errors."""
    monkeypatch.setattr(channels, "LINGER_SECONDS", 0.05)
    ended = asyncio.Event()

    async def drone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while True:  # whatever the client has said
                writer.write(b"on and on")
                await asyncio.sleep(0.01)
                await writer.drain()
        writer.close()
        ended.set()

    async with await asyncio.start_server(drone, "127.0.0.1", 0) as program:
        port = program.sockets[0].getsockname()[1]
        socket, pack = Socket(protocol=TUNNEL), zlib.compressobj(zdict=DICTIONARY)
        tunnel = SPDYTunnel(socket, partial(asyncio.open_connection, "127.0.0.1"))
        serving = asyncio.ensure_future(tunnel.run())
        for stream, kind in ((1, "error"), (3, "data")):
            await socket.to_server.put(syn_stream(pack, stream, streamtype=kind, port=str(port), requestid="0"))
            await socket.answer()
        assert b"on and on" in await socket.answer()
        assert not ended.is_set()
        await socket.to_server.put(end)
        while await socket.answer() != data_frame(1, b"", FIN):
            pass
        assert await socket.answer() == data_frame(3, b"", FIN)
        await asyncio.wait_for(ended.wait(), 10)
        await socket.to_server.put(None)
        await asyncio.wait_for(serving, 10)


@pytest.mark.parametrize(
    ("headers", "path", "code"),
    [
        ({}, PLACE, 400),
        ({"upgrade": "SPDY/3.1"}, PLACE, 400),
        (upgrade("v5.channel.k8s.io"), PLACE, 400),
        (upgrade(*FORWARD), PLACE.replace("/p/", "/other/"), 404),
    ],
)
async def test_forwards_that_are_refused(listening: Server, headers: dict[str, str], path: str, code: int) -> None:
    assert (await listening.request("ports=80", headers=headers, path=path)).status == code
