# SPDX-License-Identifier: Apache-2.0
"""Reporters whose time stands still, and servers that answer as they are told."""

import atexit
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from trainwright import progress
from trainwright.controller.runtime.testing.clock import ManualClock
from trainwright.progress import Reporter

ENVIRONMENT = (
    progress.SERVER_URL,
    progress.SERVER_CA,
    progress.SERVER_TOKEN,
    progress.FILE,
    progress.FINAL,
    progress.OUTPUT_DIR,
    *progress._RANKS,
    "PET_NODE_RANK",
    "LOCAL_RANK",
)


class StillReporter(Reporter):
    """A Reporter without its thread: the test does what the thread would, at the time that it sets."""

    def __init__(self, clock: ManualClock[float], **settings: Any) -> None:
        self._clock = clock
        super().__init__(**settings)

    def _start(self) -> None:
        pass

    def tick(self, *, last: bool = False) -> None:
        self._tick(last=last)

    def drop(self) -> None:
        """What close does, without waiting for the thread that is not there."""
        self._closing = True
        self._active = False
        atexit.unregister(self._at_exit)
        self._unhook()
        for channel in self._channels:
            channel.close()


@dataclass
class Server:
    """A status server on the loopback interface, and what it was sent."""

    url: str = ""
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """Status and headers of the next answers; then 200."""
    reports: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    connections: int = 0
    silent: threading.Event = field(default_factory=threading.Event)
    """Set: requests are read and not answered, until `released`."""
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving(context: Any = None) -> Iterator[Server]:
    """A server; with TLS if there is a context for it."""
    server = Server()
    opened: list[socket.socket] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            server.connections += 1
            opened.append(self.connection)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if server.silent.is_set():
                server.released.wait()
                return
            server.reports.append(body["trainerStatus"])
            server.tokens.append(self.headers.get("Authorization", ""))
            status, headers = server.answers.pop(0) if server.answers else (200, {})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the library
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = False
    if context is not None:
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
    scheme = "https" if context is not None else "http"
    server.url = f"{scheme}://127.0.0.1:{listener.server_port}/apis/status"
    # A short poll, since shutdown waits for it.
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        listener.shutdown()
        for connection in opened:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        # Waits for the threads of the connections.
        listener.server_close()
        thread.join()


def configure(monkeypatch: pytest.MonkeyPatch, **variables: object) -> None:
    """Set the variables that the writer reads, and unset all others of them."""
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))


def document(path: Path) -> dict[str, Any]:
    """The document in a file."""
    value: dict[str, Any] = json.loads(path.read_text())
    return value
