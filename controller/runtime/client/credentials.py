# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens that change and TLS contexts made of files that change (H-18, H-22).

A token source is asked before each request and must answer from memory most of the time; after a 401 it is asked to
look again. Tokens never reach a log line or a message.
"""

import asyncio
import base64
import os
import ssl
import tempfile
from pathlib import Path
from typing import Protocol

from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.errors import ConfigurationError

REREAD_SECONDS = 60.0
"""A token file, and the files of a TLS context, are looked at no less often than this."""


class Authorization(Protocol):
    """Gives the value of the Authorization header."""

    async def header(self) -> str | None:
        """The current value, or None for a user without one."""
        ...

    async def renew(self) -> bool:
        """Called after a 401: look for a newer credential; True if there is one, so that a retry makes sense."""
        ...


class StaticAuthorization:
    """A value that never changes: a token of a kubeconfig, basic authentication, or nothing."""

    def __init__(self, value: str | None) -> None:
        self._value = value

    async def header(self) -> str | None:
        """The value."""
        return self._value

    async def renew(self) -> bool:
        """There is nothing newer."""
        return False


class TokenFile:
    """A token that somebody else rotates in a file."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._token: str | None = None
        self._read_at = float("-inf")

    async def header(self) -> str | None:
        """The token, read again when older than a minute. Raises ConfigurationError if it never could be read."""
        now = asyncio.get_running_loop().time()
        if self._token is None or now - self._read_at >= REREAD_SECONDS:
            self._read(now)
        return f"Bearer {self._token}"

    async def renew(self) -> bool:
        """Read the file now; True if it holds another token."""
        before = self._token
        self._read(asyncio.get_running_loop().time())
        return self._token != before

    def _read(self, now: float) -> None:
        try:
            token = self._path.read_text().strip()
        except OSError as error:
            if self._token is None:
                raise ConfigurationError(f"token file {self._path}: {error.strerror or error}") from error
            token = ""
        if token:
            self._token = token
        self._read_at = now


def authorization_of(config: ClusterConfig) -> Authorization:
    """The source of the Authorization header that a configuration asks for."""
    if config.external is not None:
        from trainwright.controller.runtime.client.external import (  # noqa: PLC0415 - costs 0.6 s and 40 MB
            ExternalAuthorization,
        )

        return ExternalAuthorization(config.external)
    if config.token_file:
        return TokenFile(config.token_file)
    if config.token:
        return StaticAuthorization(f"Bearer {config.token}")
    if config.username:
        pair = f"{config.username}:{config.password or ''}".encode()
        return StaticAuthorization("Basic " + base64.b64encode(pair).decode())
    return StaticAuthorization(None)


class TLSFiles:
    """The TLS context of a configuration, made anew when a file that it came from changes."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        names = (config.ca_file, config.client_cert_file, config.client_key_file)
        self._files = [name for name in names if name]
        self._seen = self._stamp()

    def _stamp(self) -> tuple[tuple[int, int], ...]:
        stamps = []
        for name in self._files:
            try:
                status = os.stat(name)  # noqa: PTH116 - the name is a string and the call is frequent
            except OSError:
                continue  # in the middle of a rotation; the next look will see it
            stamps.append((status.st_mtime_ns, status.st_size))
        return tuple(stamps)

    def changed(self) -> bool:
        """Whether a file is not what it was when asked last."""
        stamp = self._stamp()
        changed = stamp != self._seen
        self._seen = stamp
        return changed

    def context(self) -> ssl.SSLContext | None:
        """A new context; None for a server without TLS. Raises ConfigurationError that names what cannot be loaded."""
        config = self._config
        if not config.server.startswith("https://"):
            return None
        try:
            cadata = config.ca_data.decode() if config.ca_data else None
            context = ssl.create_default_context(cafile=None if cadata else config.ca_file, cadata=cadata)
            if config.insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            _load_client_certificate(context, config)
        except (OSError, ssl.SSLError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"TLS for {config.server}: {error}") from error
        return context


def _load_client_certificate(context: ssl.SSLContext, config: ClusterConfig) -> None:
    if not (config.client_cert_data or config.client_cert_file):
        return
    with tempfile.TemporaryDirectory(prefix="client-cert-") as folder:  # the ssl module reads from files only

        def file_of(data: bytes | None, name: str | None, suffix: str) -> str | None:
            if data is None:
                return name
            path = Path(folder) / suffix
            path.touch(mode=0o600)
            path.write_bytes(data)
            return str(path)

        certificate = file_of(config.client_cert_data, config.client_cert_file, "tls.crt")
        key = file_of(config.client_key_data, config.client_key_file, "tls.key")
        if certificate is not None:
            context.load_cert_chain(certificate, key)
