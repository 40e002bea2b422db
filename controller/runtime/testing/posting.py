# SPDX-License-Identifier: Apache-2.0
"""Requests over HTTPS as the administrator. A kubectl for each would cost up to a fifth of a second of CPU time."""

import http.client
import json
import ssl
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from trainwright.controller.runtime.testing.errors import ControlPlaneError

_SECONDS = 30.0
_PAUSE_SECONDS = 0.1
_USER_AGENT = "test-kit"


class Poster:
    """Sends requests with a token, and returns the answers.

    All raise ControlPlaneError if the API server cannot be reached or refuses the request; with its message.
    """

    def __init__(self, url: str, authority: bytes, token: str) -> None:
        """`authority` is the certificate, as PEM, that the API server's is checked against."""
        self._host = urlsplit(url).netloc
        self._context = ssl.create_default_context(cadata=authority.decode())
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": _USER_AGENT}

    def create(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """POST a document to a collection or a subresource."""
        return self._succeed("POST", path, document)

    def apply(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Server-side apply; `path` has the options. Retried while the storage of the kind is being made."""
        deadline = time.monotonic() + _SECONDS
        while True:
            # JSON is YAML.
            status, answer = self._send("PATCH", path, document, content_type="application/apply-patch+yaml")
            if status != http.client.TOO_MANY_REQUESTS or time.monotonic() > deadline:
                return _accepted(f"apply {path.partition('?')[0]}", status, answer)
            time.sleep(_PAUSE_SECONDS)

    def patch(self, path: str, body: object, content_type: str) -> dict[str, Any]:
        """PATCH an object; `content_type` says how."""
        return self._succeed("PATCH", path, body, content_type)

    def delete(self, path: str, options: Mapping[str, Any]) -> bool:
        """DELETE an object; returns whether there was one."""
        status, answer = self._send("DELETE", path, options)
        if status == http.client.NOT_FOUND:
            return False
        _accepted(f"DELETE {path}", status, answer)
        return True

    def read(self, path: str, *, accept: str = "application/json") -> dict[str, Any] | None:
        """GET a path; None where nothing is."""
        status, answer = self._send("GET", path, None, accept=accept)
        return None if status == http.client.NOT_FOUND else _accepted(f"GET {path}", status, answer)

    def _succeed(self, method: str, path: str, body: object, content_type: str = "application/json") -> dict[str, Any]:
        return _accepted(f"{method} {path}", *self._send(method, path, body, content_type=content_type))

    def _send(
        self,
        method: str,
        path: str,
        body: object,
        *,
        accept: str = "application/json",
        content_type: str = "application/json",
    ) -> tuple[int, dict[str, Any]]:
        headers = {**self._headers, "Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        # A connection of its own: a test must leave none open. It is on the loopback, so no proxy applies.
        connection = http.client.HTTPSConnection(self._host, timeout=_SECONDS, context=self._context)
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ControlPlaneError(f"{method} {path} failed: {error}") from error
        finally:
            connection.close()
        try:
            answer: dict[str, Any] = json.loads(text)
        except ValueError:
            answer = {"message": text.decode(errors="replace")}
        return response.status, answer


def _accepted(what: str, status: int, answer: dict[str, Any]) -> dict[str, Any]:
    if status >= http.client.BAD_REQUEST:
        raise ControlPlaneError(f"{what} failed: {answer.get('message')}")
    return answer
