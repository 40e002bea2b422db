# SPDX-License-Identifier: Apache-2.0
"""Keys, certificates and the administrator's token of a cluster, kept in its folder.

They are made once, so a kubeconfig stays valid when the cluster is started again. All of them are secrets: files have
mode 0600 and folders 0700 from the moment they are made, and a start refuses any that others may read.
"""

import os
import secrets
import ssl
import stat
from datetime import datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from trainwright.controller.local.apiserver.identity.tokens import SigningKey
from trainwright.controller.runtime import ConfigurationError
from trainwright.controller.runtime.certificates import authority

_AUTHORITY_LIFETIME = timedelta(days=3650)
_LIFETIME = timedelta(days=365)
_RENEW_BEFORE = timedelta(days=30)
_RENEW_AUTHORITY_BEFORE = timedelta(days=1)
"""Late: kubeconfigs that name the old one do not trust the new one."""
_TOKEN_BYTES = 32


class Credentials:
    """What one cluster proves its identity with, and knows its users by. Making it blocks for some milliseconds."""

    def __init__(self, folder: Path, pair: authority.KeyPair, hosts: tuple[str, ...], now: datetime) -> None:
        """Use `provide`."""
        self._folder = folder
        self._authority = pair
        self._hosts = hosts
        self.bundle = authority.certificate_pem(pair.certificate)
        """PEM of the authority."""
        self.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=self.bundle.decode())
        # Clients may have a certificate of this authority instead of a token.
        self.tls.verify_mode = ssl.CERT_OPTIONAL
        self.renew(now)
        self.token = _token(folder / "admin.token")
        """Of the administrator: 256 random bits."""
        self.signing_key = SigningKey(_key(folder / "sa.key"))
        """Of the tokens of service accounts."""

    @classmethod
    def provide(cls, state: Path, hosts: tuple[str, ...], now: datetime) -> Self:
        """Read them from the state folder; make what is missing. `hosts` are those of the server's certificate.

        Raises ConfigurationError: a file is damaged, or others may read it.
        """
        folder = state / "pki"
        for one in (state, folder):
            one.mkdir(mode=0o700, parents=True, exist_ok=True)
        for one in (state, folder, *sorted(folder.iterdir()), state / "kubeconfig", state / "state.db"):
            _check_mode(one)
        return cls(folder, _authority(folder, now), hosts, now)

    def renew(self, now: datetime) -> None:
        """Replace the server's certificate if it ends soon, or is not for these hosts; new connections use it."""
        certificate, key = self._folder / "server.crt", self._folder / "server.key"
        if not self._is_usable(certificate, key, now):
            leaf = authority.issue_certificate(self._authority, self._hosts, now=now, lifetime=_LIFETIME)
            write_private(key, authority.key_pem(leaf.key))
            write_private(certificate, authority.certificate_pem(leaf.certificate))
        self.tls.load_cert_chain(certificate, key)

    def _is_usable(self, certificate: Path, key: Path, now: datetime) -> bool:
        if not certificate.exists() or not key.exists():
            return False
        found = _certificate(certificate)
        return (
            found.not_valid_after_utc - now > _RENEW_BEFORE
            and authority.matches(found, _key(key))
            and authority.covers(found, self._hosts)
            and authority.signed_by(found, self._authority.certificate)
        )


def write_private(path: Path, content: bytes) -> None:
    """Replace a file at once by one that only this user may read."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _check_mode(path: Path) -> None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        right = "700" if path.is_dir() else "600"
        raise ConfigurationError(
            f"{path} has mode {mode:04o}, so other users may have read the cluster's secrets: delete it if they have, "
            f"else run `chmod {right} {path}`"
        )


def _authority(folder: Path, now: datetime) -> authority.KeyPair:
    certificate, key = folder / "ca.crt", folder / "ca.key"
    if certificate.exists() and key.exists():
        pair = authority.KeyPair(_certificate(certificate), _key(key))
        if not authority.matches(pair.certificate, pair.key):
            raise ConfigurationError(f"{key} is not the key of {certificate}: delete both, and new ones are made")
        if pair.certificate.not_valid_after_utc - now > _RENEW_AUTHORITY_BEFORE:
            return pair
    made = authority.make_authority("trainwright local", now=now, lifetime=_AUTHORITY_LIFETIME)
    write_private(key, authority.key_pem(made.key))
    write_private(certificate, authority.certificate_pem(made.certificate))
    return made


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError as error:
        raise _damaged(path, error) from error


def _key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A key on P-256; made if it is not there."""
    if not path.exists():
        made = ec.generate_private_key(ec.SECP256R1())
        write_private(path, authority.key_pem(made))
        return made
    try:
        found = serialization.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError) as error:
        raise _damaged(path, error) from error
    if not isinstance(found, ec.EllipticCurvePrivateKey) or not isinstance(found.curve, ec.SECP256R1):
        raise ConfigurationError(f"{path} is not a key on the curve P-256: delete it, and a new one is made")
    return found


def _token(path: Path) -> str:
    if not path.exists():
        write_private(path, secrets.token_hex(_TOKEN_BYTES).encode())
    try:
        found = path.read_text(encoding="ascii").strip()
    except UnicodeDecodeError as error:
        raise _damaged(path, error) from error
    if len(found) < _TOKEN_BYTES:
        raise ConfigurationError(f"{path} holds no token: delete it, and a new one is made")
    return found


def _damaged(path: Path, error: Exception) -> ConfigurationError:
    return ConfigurationError(f"{path} cannot be read ({error}): delete it, and a new one is made")
