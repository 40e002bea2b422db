# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates of one test control plane: its authority, its servers, its users.

Each control plane makes its own. They are valid for a week and never leave its folder.
"""

import datetime
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trainwright.controller.runtime.certificates.authority import (
    certificate_builder,
    certificate_pem,
    issue_certificate,
    key_pem,
    make_authority,
    signed,
)

_LIFETIME = datetime.timedelta(days=7)


class Authority:
    """A certificate authority with its files in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._own = make_authority("trainwright-test-control-plane", now=_now(), lifetime=_LIFETIME)
        self.pem = certificate_pem(self._own.certificate)
        self.certificate = folder / "ca.crt"
        self.certificate.write_bytes(self.pem)

    @property
    def key_pem(self) -> bytes:
        """PEM of its private key, for a server that issues its certificate itself."""
        return key_pem(self._own.key)

    def server(self, name: str, *, hosts: Sequence[str] = ("127.0.0.1", "localhost")) -> tuple[Path, Path]:
        """Certificate and key files of a server for `hosts` (names and addresses).

        The files are `tls.crt` and `tls.key` in a folder `name`, as Kubernetes programs expect.
        """
        made = issue_certificate(self._own, hosts, now=_now(), lifetime=_LIFETIME)
        return self._store(name, made.certificate, key_pem(made.key))

    def client(self, user: str, groups: Sequence[str]) -> tuple[Path, Path]:
        """Certificate and key files of the client `user`, a member of `groups`."""
        key, own = ec.generate_private_key(ec.SECP256R1()), self._own.certificate
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        left = own.not_valid_after_utc - _now()
        builder = certificate_builder(subject, own.subject, key.public_key(), _now(), left)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = signed(builder.add_extension(usage, critical=False), self._own)
        return self._store(f"user-{user}", certificate, key_pem(key))

    def _store(self, folder_name: str, certificate: x509.Certificate, key: bytes) -> tuple[Path, Path]:
        folder = self._folder / folder_name
        folder.mkdir(exist_ok=True)  # a program that is started again gets a new one
        certificate_file, key_file = folder / "tls.crt", folder / "tls.key"
        certificate_file.write_bytes(certificate_pem(certificate))
        _write_key(key_file, key)
        return certificate_file, key_file


def signing_key(folder: Path) -> tuple[Path, Path]:
    """A key pair for signing service-account tokens: private and public key file."""
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = folder / "service-account.key", folder / "service-account.pub"
    _write_key(private, key_pem(key))
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


def _write_key(path: Path, key: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(key)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
