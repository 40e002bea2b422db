# SPDX-License-Identifier: Apache-2.0
"""A web server for browsers whose threads have ended when it is closed: each holds a socket until then."""

import socket
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class JoinedWebServer(ThreadingHTTPServer):
    """Serves on a port of its own."""

    daemon_threads = False  # so closing waits for them

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self._connections: list[socket.socket] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.append(request)
        super().process_request(request, client_address)

    def server_close(self) -> None:
        for connection in self._connections:
            # A browser opens connections that it may use later; nobody would end the wait for their requests.
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a browser that goes away is no error."""
