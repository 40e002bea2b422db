# SPDX-License-Identifier: Apache-2.0
"""The TLS context of a server whose certificate changes while it serves (M-32, M-33).

A new pair is tried in a scratch context first: loading one that does not belong together would leave the live context
broken. New handshakes get the new certificate, connections that are open stay as they are.
"""

import hashlib
import ssl
import tempfile
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter

from trainwright.controller.runtime.errors import CertificateError


class ServingCertificate:
    """One live context and what is loaded into it."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        ciphers: str = "",
        client_ca: str = "",
    ) -> None:
        """`ciphers` in OpenSSL's words, for TLS 1.2; empty: its own choice.

        `client_ca`: file of the authorities of clients; given, clients without a certificate are refused.
        """
        self._minimum = minimum
        self._ciphers = ciphers
        self._client_ca = client_ca
        self.context = self._make()
        """For the server. Handshakes fail until something is loaded."""
        self.fingerprint = ""
        """Of what is loaded; empty: nothing."""
        self._reads = Counter("certwatcher_read_certificate_total", "Certificates read.", registry=registry)
        self._errors = Counter(
            "certwatcher_read_certificate_errors_total", "Certificates that could not be used.", registry=registry
        )

    def load(self, certificate: bytes, key: bytes) -> bool:
        """Serve this pair from the next handshake on; True if it differs from what was loaded.

        Raises CertificateError, and then what was loaded before is still in use.
        """
        fingerprint = hashlib.sha256(certificate + b"\0" + key).hexdigest()
        if fingerprint == self.fingerprint:
            return False
        self._reads.inc()
        try:
            self._load(certificate, key)
        except (OSError, ValueError) as error:
            self._errors.inc()
            raise CertificateError(f"the certificate cannot be used, the one before stays: {error}") from error
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
        """Count a certificate that could not even be read."""
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
    """For an encrypted key: fail instead of asking on the terminal."""
    return ""
