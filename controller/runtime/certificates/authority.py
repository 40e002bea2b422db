# SPDX-License-Identifier: Apache-2.0
"""Makes certificate authorities and server certificates: ECDSA P-256, with key identifiers.

The identifiers matter during a rotation: two authorities of the same name are trusted then, and a verifier must know
which one signed. Making them takes milliseconds, so call this in a thread.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID

SKEW = timedelta(hours=1)
"""Certificates are valid from this long before they are made, because clocks may be slow."""

_AUTHORITY = x509.BasicConstraints(ca=True, path_length=None)
"""Without a limit, because the successors of an authority follow it in a chain; see `cross_sign`."""

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: PrivateKey

    @property
    def made(self) -> datetime:
        """When the certificate was made."""
        return self.certificate.not_valid_before_utc + SKEW


def make_authority(name: str, *, now: datetime, lifetime: timedelta) -> KeyPair:
    """A new self-signed authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        certificate_builder(subject, subject, key.public_key(), now, lifetime)
        .add_extension(_AUTHORITY, critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )
    return KeyPair(builder.sign(key, hashes.SHA256()), key)


def cross_sign(former: KeyPair, authority: x509.Certificate, *, now: datetime) -> x509.Certificate:
    """The authority as signed by its predecessor: with it, who trusts only the predecessor accepts what it signs.

    It ends with the first of the two.
    """
    key = authority.public_key()
    if not isinstance(key, (ec.EllipticCurvePublicKey, rsa.RSAPublicKey, ed25519.Ed25519PublicKey)):
        raise TypeError(f"an authority cannot have a key of this type: {type(key).__name__}")
    lifetime = min(former.certificate.not_valid_after_utc, authority.not_valid_after_utc) - now
    builder = (
        certificate_builder(authority.subject, former.certificate.subject, key, now, lifetime)
        .add_extension(_AUTHORITY, critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )
    return signed(builder, former)


def issue_certificate(authority: KeyPair, hosts: Iterable[str], *, now: datetime, lifetime: timedelta) -> KeyPair:
    """A server certificate for `hosts` (names and addresses). It does not outlast the authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = list(hosts)
    lifetime = min(lifetime, authority.certificate.not_valid_after_utc - now)
    builder = (
        certificate_builder(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])]),
            authority.certificate.subject,
            key.public_key(),
            now,
            lifetime,
        )
        .add_extension(x509.SubjectAlternativeName([_host(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    return KeyPair(signed(builder, authority), key)


def strict_defects(authority: x509.Certificate) -> list[str]:
    """Why clients that verify strictly refuse certificates of an authority; empty if they accept them.

    Python 3.13 and later verify so by default (`VERIFY_X509_STRICT`), which follows RFC 5280, section 4.2.1.
    """
    held = {extension.oid: extension for extension in authority.extensions}
    usage, constraints = held.get(ExtensionOID.KEY_USAGE), held.get(ExtensionOID.BASIC_CONSTRAINTS)
    defects = []
    if usage is None:
        defects.append("it has no key usage")
    if ExtensionOID.SUBJECT_KEY_IDENTIFIER not in held:
        defects.append("it has no subject key identifier")
    if constraints is None or not constraints.critical:
        defects.append("its basic constraints are missing or not critical")
    return defects


def matches(certificate: x509.Certificate, key: PrivateKey) -> bool:
    """Whether the key belongs to the certificate."""
    return _spki(certificate.public_key()) == _spki(key.public_key())


def covers(certificate: x509.Certificate, hosts: Iterable[str]) -> bool:
    """Whether the certificate is valid for all hosts."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    held = {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}
    return held.issuperset(hosts)


def signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:  # noqa: BLE001, RUF100 - InvalidSignature, ValueError or TypeError: all mean no
        return False
    return True


def certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: PrivateKey) -> bytes:
    """PEM of a key, unencrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _spki(key: object) -> bytes:
    return key.public_bytes(  # type: ignore[attr-defined,no-any-return]  # every kind of public key has it
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def certificate_builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    """What all certificates have, for `signed`."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def signed(builder: x509.CertificateBuilder, authority: KeyPair) -> x509.Certificate:
    """The certificate, with the identifier of the authority's key: verifiers as strict as RFC 5280 want it."""
    try:
        identifier = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        identifier = None  # an authority that another program made
    if identifier is not None:
        known = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
        builder = builder.add_extension(known, critical=False)
    algorithm = None if isinstance(authority.key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(authority.key, algorithm)


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
