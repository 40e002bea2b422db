# SPDX-License-Identifier: Apache-2.0
"""Creates objects over HTTPS, as the administrator. A kubectl for each would cost a fifth of a second of CPU time."""

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from trainwright.controller.runtime.testing.errors import ControlPlaneError

_SECONDS = 30.0
_USER_AGENT = "test-kit"


class Poster:
    """Creates objects with a token."""

    def __init__(self, url: str, authority: bytes, token: str) -> None:
        """`authority` is the certificate, as PEM, that the API server's is checked against."""
        self._host = urlsplit(url).netloc
        self._context = ssl.create_default_context(cadata=authority.decode())
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "User-Agent": _USER_AGENT,
        }

    def create(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """POST a document to a collection or a subresource; returns the answer.

        Raises:
            ControlPlaneError: the API server cannot be reached, or refused it; with its message.
        """
        # A connection of its own: a test must leave none open. It is on the loopback, so no proxy applies.
        connection = http.client.HTTPSConnection(self._host, timeout=_SECONDS, context=self._context)
        try:
            connection.request("POST", path, body=json.dumps(document), headers=self._headers)
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ControlPlaneError(f"POST {path} failed: {error}") from error
        finally:
            connection.close()
        try:
            answer: dict[str, Any] = json.loads(body)
        except ValueError:
            answer = {"message": body.decode(errors="replace")}
        if response.status >= http.client.BAD_REQUEST:
            raise ControlPlaneError(f"POST {path} failed: {answer.get('message')}")
        return answer
