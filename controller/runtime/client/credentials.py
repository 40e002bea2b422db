# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens and TLS files that change while the process runs.

An authorization is asked before each request and answers from memory most of the time. After a 401 it is asked to renew
the credential. Tokens and keys never appear in logs or messages.
"""

import asyncio
import os
import ssl
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.errors import ConfigurationError

REREAD_SECONDS = 60.0
"""Longest time between two looks at a token file or at the files of a TLS context."""


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate chain and its key, both PEM."""

    chain: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Credential:
    """The changing part of the credentials."""

    header: str | None = field(default=None, repr=False)
    """Value of the Authorization header; None: no header."""
    certificate: ClientCertificate | None = None
    """Replaces the client certificate of the configuration."""


class Authorization(Protocol):
    """Provides the current credential."""

    async def credential(self) -> Credential:
        """The current credential. Raises ConfigurationError if there is none."""
        ...

    async def renew(self, refused: Credential) -> Credential | None:
        """Called after a 401. Returns a credential to try instead of the refused one, or None."""
        ...


class StaticAuthorization:
    """A credential that never changes: a token in a kubeconfig, basic authentication, or none."""

    def __init__(self, header: str | None) -> None:
        self._credential = Credential(header)

    async def credential(self) -> Credential:
        return self._credential

    async def renew(self, refused: Credential) -> Credential | None:  # noqa: ARG002 - see Authorization
        """Always None."""
        return None


class TokenFile:
    """A token in a file that another program rotates."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._token: str | None = None
        self._read_at = float("-inf")

    async def credential(self) -> Credential:
        """The token, read again once a minute. Raises ConfigurationError if it could never be read."""
        now = asyncio.get_running_loop().time()
        if self._token is None or now - self._read_at >= REREAD_SECONDS:
            self._read(now)
        return Credential(f"Bearer {self._token}")

    async def renew(self, refused: Credential) -> Credential | None:
        """Read the file again."""
        self._read(asyncio.get_running_loop().time())
        found = await self.credential()
        return found if found != refused else None

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


class TLSFiles:
    """Makes the TLS context of a configuration and notices when its files change."""

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
                continue  # a rotation is in progress; the next look sees the file
            stamps.append((status.st_mtime_ns, status.st_size))
        return tuple(stamps)

    def changed(self) -> bool:
        """Whether a file has changed since the last call."""
        stamp = self._stamp()
        changed = stamp != self._seen
        self._seen = stamp
        return changed

    def context(self, certificate: ClientCertificate | None = None) -> ssl.SSLContext | None:
        """A new context; None for a server without TLS. `certificate` replaces that of the configuration.

        Raises ConfigurationError that names what cannot be loaded.
        """
        config = self._config
        if not config.server.startswith("https://"):
            return None
        try:
            cadata = config.ca_data.decode() if config.ca_data else None
            context = ssl.create_default_context(cafile=None if cadata else config.ca_file, cadata=cadata)
            # On by default since Python 3.13: refuses certificates without an authority key identifier, which kubectl
            # and other clients written in Go accept, and which clusters have.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            if config.insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if certificate is not None:
                config = replace(config, client_cert_data=certificate.chain, client_key_data=certificate.key)
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
