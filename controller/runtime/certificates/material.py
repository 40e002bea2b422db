# SPDX-License-Identifier: Apache-2.0
"""The shared Secret and its content: trusted authorities, keys of the signing ones, the server certificate.

Keys of the Secret: `ca.crt` (all trusted authorities, the signing one first), `ca.key`, `tls.crt` (the server
certificate and its chain), `tls.key`, and `next-ca.key`, the key of an authority that is announced and does not sign
yet. The certificates show which authority a key belongs to and when it was made, so there is no other state.

A write carries the resourceVersion of the read that it is based on. Of two replicas that decide at the same time, one
gets Conflict and reads what the other has written.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from trainwright.api.kubernetes.core.v1 import Secret
from trainwright.api.objects import resource_version_of
from trainwright.api.rights import READ, Rule
from trainwright.controller.runtime.certificates.authority import (
    KeyPair,
    PrivateKey,
    certificate_pem,
    key_pem,
    matches,
    signed_by,
)
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.errors import NotFound

CA, CA_KEY, NEXT_CA_KEY, CERTIFICATE, KEY = "ca.crt", "ca.key", "next-ca.key", "tls.crt", "tls.key"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateMaterial:
    """One consistent state of the Secret."""

    signing: KeyPair
    leaf: KeyPair
    upcoming: KeyPair | None = None
    """Already trusted; signs later."""
    former: tuple[x509.Certificate, ...] = ()
    """Still trusted; no longer sign."""
    chain: tuple[x509.Certificate, ...] = ()
    """Served with the server certificate, for clients that keep what they trusted at their start: the signing authority
    signed by its predecessor, that one signed by its own, and so on."""

    @property
    def trusted(self) -> list[x509.Certificate]:
        """All trusted authorities, the signing one first."""
        upcoming = [self.upcoming.certificate] if self.upcoming else []
        return [self.signing.certificate, *upcoming, *self.former]

    @property
    def served(self) -> bytes:
        """PEM of the server certificate and its chain."""
        return b"".join(certificate_pem(certificate) for certificate in (self.leaf.certificate, *self.chain))

    @property
    def bundle(self) -> bytes:
        """PEM of all trusted authorities."""
        return b"".join(certificate_pem(certificate) for certificate in self.trusted)

    def encode(self) -> dict[str, bytes]:
        """The data of the Secret."""
        data = {
            CA: self.bundle,
            CA_KEY: key_pem(self.signing.key),
            CERTIFICATE: self.served,
            KEY: key_pem(self.leaf.key),
        }
        if self.upcoming is not None:
            data[NEXT_CA_KEY] = key_pem(self.upcoming.key)
        return data


def decode(data: Mapping[str, bytes]) -> CertificateMaterial | str:
    """The state of a Secret, or why it has no usable one."""
    authorities = certificates_in(data.get(CA, b""))
    try:
        key = _key(data, CA_KEY)
        first, *chain = _served(data)
        leaf = KeyPair(first, _key(data, KEY))
        signing = next((one for one in authorities if matches(one, key)), None)
        if signing is None:
            return f"{CA} has no certificate for {CA_KEY}"
        if not matches(leaf.certificate, leaf.key):
            return f"{KEY} is not the key of {CERTIFICATE}"
        if not any(signed_by(leaf.certificate, authority) for authority in authorities):
            return f"{CERTIFICATE} is not signed by an authority in {CA}"
        upcoming = None
        if NEXT_CA_KEY in data:
            next_key = _key(data, NEXT_CA_KEY)
            announced = next((one for one in authorities if matches(one, next_key)), None)
            upcoming = KeyPair(announced, next_key) if announced is not None else None
    except (ValueError, UnsupportedAlgorithm) as error:
        return str(error)
    active = {signing, upcoming.certificate if upcoming else None}
    former = tuple(one for one in authorities if one not in active)
    linked = tuple(one for one in chain if one not in authorities)  # another program may serve the authority itself
    return CertificateMaterial(signing=KeyPair(signing, key), leaf=leaf, upcoming=upcoming, former=former, chain=linked)


def certificates_in(pem: bytes) -> list[x509.Certificate]:
    """The certificates of a bundle; empty if it cannot be read."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []


def same_authorities(one: bytes, other: bytes) -> bool:
    """Whether two bundles contain the same certificates, in any order and layout."""
    return bool(one) == bool(other) and set(certificates_in(one)) == set(certificates_in(other))


def _served(data: Mapping[str, bytes]) -> list[x509.Certificate]:
    found = certificates_in(data.get(CERTIFICATE, b""))
    if not found:
        raise ValueError(f"{CERTIFICATE} is missing or is not a certificate")
    return found


def _key(data: Mapping[str, bytes], name: str) -> PrivateKey:
    try:
        key = serialization.load_pem_private_key(data.get(name, b""), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"{name} is missing or is not a supported key") from error
    if not isinstance(key, (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey, ed25519.Ed25519PrivateKey)):
        raise ValueError(f"{name} has an unsupported type of key: use ECDSA, RSA or Ed25519")  # noqa: TRY004 - data, not a type
    return key


@dataclass(frozen=True, slots=True)
class HeldSecret:
    """The content that was read. `version` is empty if the Secret does not exist."""

    material: CertificateMaterial | str
    version: str


class CertificateVault:
    """One Secret."""

    @staticmethod
    def rules(name: str) -> tuple[Rule, ...]:
        """Rights in the namespace of the Secret, including those of the keeper's watch."""
        return Rule.on(Secret.RESOURCE, "create"), Rule.on(Secret.RESOURCE, *READ, "patch", names=[name])

    def __init__(self, client: Client, name: str, namespace: str) -> None:
        self._client = client
        self.name = name
        self.namespace = namespace

    async def read(self) -> HeldSecret:
        """The content of the Secret, or why it is unusable. Raises KubernetesError."""
        try:
            secret = await self._client.get(Secret, self.name, self.namespace)
        except NotFound:
            return HeldSecret(f"Secret {self.namespace}/{self.name} does not exist", "")
        try:
            data = {name: base64.b64decode(value, validate=True) for name, value in (secret.data or {}).items()}
        except binascii.Error as error:
            return HeldSecret(str(error), resource_version_of(secret))
        return HeldSecret(decode(data), resource_version_of(secret))

    async def write(self, material: CertificateMaterial, held: HeldSecret) -> HeldSecret:
        """Store a state that is based on `held`. Raises Conflict, AlreadyExists, KubernetesError."""
        data = {name: base64.b64encode(value).decode() for name, value in material.encode().items()}
        if not held.version:
            document = {"metadata": {"name": self.name, "namespace": self.namespace}, "type": "Opaque", "data": data}
            created = await self._client.create(document, kind=Secret.RESOURCE)
            return HeldSecret(material, resource_version_of(created))
        patch = {"metadata": {"resourceVersion": held.version}, "data": {NEXT_CA_KEY: None, **data}}
        patched = await self._client.patch(Secret, self.name, self.namespace, patch)
        return HeldSecret(material, resource_version_of(patched))
