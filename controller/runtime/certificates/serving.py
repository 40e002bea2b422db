# SPDX-License-Identifier: Apache-2.0
"""The TLS context of a server whose certificate changes while it runs, and certificates that another program keeps.

A new pair is first loaded into a scratch context, because loading a mismatched pair would break the live one. New
handshakes use the new certificate; open connections are not affected.

Files, such as a mounted Secret of cert-manager, are read every ten seconds and loaded when their content has changed.
An unusable pair (half written, wrong key) leaves the previous one in use and is read again.
"""

import asyncio
import hashlib
import logging
import ssl
import tempfile
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter

from trainwright.controller.runtime.errors import CertificateError


class ServingCertificate:
    """One live TLS context and its certificate."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        ciphers: str = "",
        client_ca: str = "",
    ) -> None:
        """`ciphers`: an OpenSSL cipher list for TLS 1.2; empty: the default.

        `client_ca`: file of the authorities of clients. With it, clients need a certificate.
        """
        self._minimum = minimum
        self._ciphers = ciphers
        self._client_ca = client_ca
        self.context = self._make()
        """The context of the server. Handshakes fail until a certificate is loaded."""
        self.fingerprint = ""
        """Fingerprint of the loaded pair; empty before the first one."""
        self._reads = Counter("certwatcher_read_certificate_total", "Certificates read.", registry=registry)
        self._errors = Counter("certwatcher_read_certificate_errors_total", "Unusable certificates.", registry=registry)

    def load(self, certificate: bytes, key: bytes) -> bool:
        """Use this pair from the next handshake on; True if it differs from the loaded one.

        Raises CertificateError; the previous pair then stays in use.
        """
        fingerprint = hashlib.sha256(certificate + b"\0" + key).hexdigest()
        if fingerprint == self.fingerprint:
            return False
        self._reads.inc()
        try:
            self._load(certificate, key)
        except (OSError, ValueError) as error:
            self._errors.inc()
            raise CertificateError(
                f"the certificate is unusable, and the previous one stays in use: {error}"
            ) from error
        self.fingerprint = fingerprint
        return True

    def _load(self, certificate: bytes, key: bytes) -> None:
        with tempfile.TemporaryDirectory(prefix="serving-") as folder:  # the ssl module reads from files only
            certificate_file, key_file = Path(folder, "tls.crt"), Path(folder, "tls.key")
            certificate_file.write_bytes(certificate)
            key_file.touch(mode=0o600)
            key_file.write_bytes(key)
            self._make().load_cert_chain(certificate_file, key_file, password=_no_password)
            self.context.load_cert_chain(certificate_file, key_file, password=_no_password)

    def failed(self) -> None:
        """Count a certificate that could not be read."""
        self._errors.inc()

    def _make(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._minimum
        context.set_alpn_protocols(["http/1.1"])
        if self._ciphers:
            context.set_ciphers(self._ciphers)
        if self._client_ca:
            context.load_verify_locations(cafile=self._client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _no_password() -> str:
    """Make an encrypted key fail instead of prompting on the terminal."""
    return ""


log = logging.getLogger(__name__)

PERIOD_SECONDS = 10.0


class CertificateFiles:
    """A runnable that follows `tls.crt` and `tls.key` in a folder."""

    def __init__(self, folder: Path, serving: ServingCertificate, *, period: float = PERIOD_SECONDS) -> None:
        """`period` in seconds."""
        self._folder = folder
        self._serving = serving
        self._period = period
        self.ready = asyncio.Event()
        """Set once a usable pair is loaded."""
        self.last_error = ""

    async def run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(self._period)

    def look(self) -> None:
        """Load the files. Never raises; errors are logged."""
        try:
            certificate = (self._folder / "tls.crt").read_bytes()
            key = (self._folder / "tls.key").read_bytes()
        except OSError as error:
            self._serving.failed()
            self._complain(f"{self._folder}: {error.strerror or error}")
            return
        try:
            if self._serving.load(certificate, key):
                log.info("%s: loaded a new certificate", self._folder)
        except CertificateError as error:
            self._complain(f"{self._folder}: {error}")
            return
        self.last_error = ""
        self.ready.set()

    def _complain(self, error: str) -> None:
        if error != self.last_error:
            log.error("%s", error)
        self.last_error = error
