# SPDX-License-Identifier: Apache-2.0
"""What a dashboard proves itself and its visitors with: one secret, and all that is derived from it.

The dashboard of a local cluster keeps port and secret in the cluster's folder, so its address and the sessions of its
pages outlive the process. What is derived holds the port and the folder: what one server gave out counts at no other
one, and not at the same cluster on another port.
"""

import base64
import hashlib
import hmac
import json
import logging
import secrets
import socket
import stat
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from trainwright.controller.local.credentials import write_private

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
FILE = "dashboard.json"
"""In the folder of the cluster."""
_BYTES = 32


@dataclass(frozen=True, slots=True)
class Keys:
    """Of one server on one port."""

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(_BYTES), repr=False)
    port: int = 0
    state: str = ""
    """The folder of the cluster; empty: there is none."""

    @property
    def token(self) -> str:
        """In the address that the user opens."""
        return self._derived("token", 32)

    @property
    def address(self) -> str:
        """What the user opens. It holds the token."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    @property
    def session(self) -> str:
        """In the cookie that the token is exchanged for."""
        return self._derived("session", 32)

    @property
    def place(self) -> str:
        """The path below which the page and its data are, and to which the cookie goes."""
        return f"/{self._derived('place', 16)}"

    @property
    def action(self) -> str:
        """In a header of each request that changes something."""
        return self._derived("action", 32)

    @property
    def proof_key(self) -> str:
        """With which a page checks that the server which answers is this one, before it sends its cookie again."""
        return self._derived("proof", 32)

    def proof(self, nonce: str) -> str:
        """The answer to a page that asks whether this is the server that it knows."""
        return hmac.new(self.proof_key.encode(), nonce.encode(), hashlib.sha256).hexdigest()

    def _derived(self, purpose: str, size: int) -> str:
        message = "\0".join((purpose, str(self.port), self.state))
        made = hmac.new(self.secret, message.encode(errors="surrogateescape"), hashlib.sha256).digest()[:size]
        return base64.urlsafe_b64encode(made).rstrip(b"=").decode()


class KeptKeys:
    """Port and secret in the folder of a cluster. Methods block for a moment."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._state = str(folder.resolve())
        self._seen: tuple[int, int] | None = None
        """Which file was read last."""

    def read(self) -> Keys:
        """Those of the last run; new ones where there are none that others could not have read."""
        secret, port = self._read()
        if secret is None:
            secret = secrets.token_bytes(_BYTES)
            self._write(secret, port)
        return Keys(secret, port, self._state)

    def listens(self, keys: Keys, port: int) -> Keys:
        """Keep the port on which the server listens; returns the keys for it."""
        if port != keys.port:
            self._write(keys.secret, port)
        return Keys(keys.secret, port, self._state)

    def renew(self) -> Keys:
        """Make a new secret, so that the address, cookies and pages of before count no more."""
        _, port = self._read()
        made = Keys(secrets.token_bytes(_BYTES), port, self._state)
        self._write(made.secret, port)
        return made

    def changed(self, keys: Keys) -> Keys | None:
        """The keys of the file if they are others than these, as after `up --new-token`; None: they are the same."""
        if self._version() == self._seen:
            return None
        secret, port = self._read()
        if secret is None or secret == keys.secret or port != keys.port:
            return None
        return Keys(secret, port, self._state)

    def _write(self, secret: bytes, port: int) -> None:
        document = {"port": port, "secret": base64.b64encode(secret).decode()}
        write_private(self._file, json.dumps(document).encode() + b"\n")

    def _version(self) -> tuple[int, int] | None:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _read(self) -> tuple[bytes | None, int]:
        self._seen = self._version()
        try:
            mode = stat.S_IMODE(self._file.stat().st_mode)
            found = json.loads(self._file.read_bytes())
            port, secret = int(found["port"]), base64.b64decode(found["secret"], validate=True)
        except FileNotFoundError:
            return None, 0
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("%s cannot be read (%s): the dashboard gets a new address", self._file, error)
            return None, 0
        port = port if 0 < port < 65536 else 0
        if mode & 0o077:
            log.warning(
                "%s has mode %04o, so others may have read it: the dashboard gets a new token", self._file, mode
            )
            return None, port
        return (secret if len(secret) == _BYTES else None), port


def is_free(port: int) -> bool:
    with closing(socket.socket()) as tried:
        # As the server will: a closed connection of the last run does not keep the port.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, port))
        except OSError:
            return False
    return True
