# SPDX-License-Identifier: Apache-2.0
"""Rotations as clients see them that load the trusted authorities once, as training does at its start.

The certificates are real, and every handshake is one of OpenSSL.
"""

import ssl
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from prometheus_client import CollectorRegistry

from trainwright.controller.runtime.certificates.authority import (
    KeyPair,
    PrivateKey,
    certificate_pem,
    cross_sign,
    issue_certificate,
    key_pem,
    make_authority,
    strict_defects,
)
from trainwright.controller.runtime.certificates.keeper import CertificateKeeper
from trainwright.controller.runtime.certificates.material import CertificateMaterial, CertificateVault, decode
from trainwright.controller.runtime.certificates.rotation import RotationPolicy, next_due, next_step
from trainwright.controller.runtime.certificates.serving import ServingCertificate
from trainwright.controller.runtime.client.client import Client
from trainwright.controller.runtime.testing.scripted import ScriptedTransport

HOSTS = ["127.0.0.1"]
DAY = timedelta(days=1)
POLICY = RotationPolicy()
STRICT = [pytest.param(False, id="lenient"), pytest.param(True, id="strict")]


def stored(material: CertificateMaterial) -> CertificateMaterial:
    """What a replica reads of what another wrote."""
    read = decode(material.encode())
    assert isinstance(read, CertificateMaterial), read
    return read


def rotated(material: CertificateMaterial, start: datetime) -> list[CertificateMaterial]:
    """The three states that a replacement of the authority leads to: announced, signs, the old one is forgotten."""
    states = []
    found = next_step("deleted", POLICY, HOSTS, start, last=material)
    for number in range(1, 4):
        assert found is not None
        states.append(stored(found.material))
        found = next_step(states[-1], POLICY, HOSTS, start + number * POLICY.overlap)
    return states


def trusting(bundle: bytes, *, strict: bool) -> ssl.SSLContext:
    """What a client makes at its start."""
    context = ssl.create_default_context(cadata=bundle.decode())
    if strict:  # the default from Python 3.13 on
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def serving_of(material: CertificateMaterial) -> ServingCertificate:
    serving = ServingCertificate(CollectorRegistry())
    load(serving, material)
    return serving


def connects(serving: ServingCertificate, context: ssl.SSLContext) -> bool:
    """Whether a handshake in memory succeeds. Raises what is not about certificates."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(back, there, server_hostname="127.0.0.1")
    server = serving.context.wrap_bio(there, back, server_side=True)
    waiting = [client, server]
    for side in (client, server) * 5:
        try:
            if side in waiting:
                side.do_handshake()
                waiting.remove(side)
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError:
            return False
    assert not waiting
    return True


def load(serving: ServingCertificate, material: CertificateMaterial) -> None:
    serving.load(material.served, key_pem(material.leaf.key))


@pytest.mark.parametrize("strict", STRICT)
def test_every_client_connects_through_two_rotations(strict: bool) -> None:
    now = datetime.now(UTC)
    authority = make_authority("ca", now=now, lifetime=POLICY.authority_lifetime)
    first = CertificateMaterial(
        signing=authority, leaf=issue_certificate(authority, HOSTS, now=now, lifetime=POLICY.lifetime)
    )
    clients: list[tuple[int, ssl.SSLContext]] = []
    seen = 0

    def check(material: CertificateMaterial) -> None:
        nonlocal seen
        load(serving, material)
        clients.append((seen, trusting(material.bundle, strict=strict)))
        refused = [when for when, context in clients if not connects(serving, context)]
        assert not refused, f"clients of the states {refused} in state {seen}"
        seen += 1

    serving = serving_of(first)
    check(first)
    *_, second = states = rotated(first, now)
    *_, third = more = rotated(second, now + 2 * POLICY.overlap)
    for state in (*states, *more):
        check(state)
    assert [len(state.chain) for state in (first, second, third)] == [0, 1, 2]
    # The chain is what makes it work: without it, only those connect that trust the last authority.
    load(serving, replace(third, chain=()))
    assert [when for when, context in clients if connects(serving, context)] == [4, 5, 6]
    assert not connects(serving, trusting(stranger(now), strict=strict))


def stranger(now: datetime) -> bytes:
    return certificate_pem(make_authority("ca", now=now, lifetime=DAY).certificate)


def foreign(now: datetime, key: PrivateKey, *, path_length: int | None = None, usage: bool = True) -> KeyPair:
    """An authority as another program makes it, such as the certificate controller of Kubeflow Trainer."""
    name = x509.Name(
        [x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "o"), x509.NameAttribute(x509.NameOID.COMMON_NAME, "ca")]
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + 3650 * DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
    )
    if usage:
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        builder = builder.add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_encipherment=True,
                key_cert_sign=True,
                content_commitment=False,
                data_encipherment=False,
                key_agreement=False,
                crl_sign=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return KeyPair(builder.sign(key, algorithm), key)


@pytest.mark.parametrize("strict", STRICT)
@pytest.mark.parametrize("kind", ["rsa", "ec", "ed25519"])
def test_a_foreign_authority_signs_its_successor(kind: str, strict: bool) -> None:
    now = datetime.now(UTC)
    keys: dict[str, Callable[[], PrivateKey]] = {
        "rsa": lambda: rsa.generate_private_key(65537, 2048),
        "ec": lambda: ec.generate_private_key(ec.SECP384R1()),
        "ed25519": ed25519.Ed25519PrivateKey.generate,
    }
    authority = foreign(now, keys[kind]())
    assert strict_defects(authority.certificate) == []
    material = CertificateMaterial(
        signing=authority, leaf=issue_certificate(authority, HOSTS, now=now, lifetime=POLICY.lifetime)
    )
    client = trusting(material.bundle, strict=strict)
    serving = serving_of(material)
    for state in (material, *rotated(material, now)):
        load(serving, state)
        assert connects(serving, client)


def test_an_authority_that_allows_no_further_ones_signs_a_successor_of_its_name() -> None:
    """Earlier versions of this program made such ones. The limit counts no authority that has its issuer's name."""
    now = datetime.now(UTC)
    authority = foreign(now, ec.generate_private_key(ec.SECP256R1()), path_length=0)
    client = trusting(certificate_pem(authority.certificate), strict=True)
    successor = foreign(now, ec.generate_private_key(ec.SECP256R1()))
    cross = cross_sign(authority, successor.certificate, now=now)
    leaf = issue_certificate(successor, HOSTS, now=now, lifetime=DAY)
    serving = serving_of(CertificateMaterial(signing=successor, leaf=leaf, chain=(cross,)))
    assert connects(serving, client)


def test_authorities_that_strict_clients_refuse_are_told() -> None:
    now = datetime.now(UTC)
    assert strict_defects(make_authority("ca", now=now, lifetime=DAY).certificate) == []
    bare = foreign(now, ec.generate_private_key(ec.SECP256R1()), usage=False)
    assert strict_defects(bare.certificate) == ["it has no key usage", "it has no subject key identifier"]


def test_those_defects_are_what_strict_clients_refuse() -> None:
    now = datetime.now(UTC)
    bare = foreign(now, ec.generate_private_key(ec.SECP256R1()), usage=False)
    serving = serving_of(CertificateMaterial(signing=bare, leaf=issue_certificate(bare, HOSTS, now=now, lifetime=DAY)))
    assert connects(serving, trusting(certificate_pem(bare.certificate), strict=False))
    assert not connects(serving, trusting(certificate_pem(bare.certificate), strict=True))


@pytest.mark.parametrize("usage", [True, False])
def test_a_keeper_warns_of_what_strict_clients_refuse(usage: bool, caplog: pytest.LogCaptureFixture) -> None:
    now = datetime.now(UTC)
    authority = foreign(now, ec.generate_private_key(ec.SECP256R1()), usage=usage)
    client = Client(ScriptedTransport())
    keeper = CertificateKeeper(
        client, CertificateVault(client, "cert", "system"), ServingCertificate(CollectorRegistry()), hosts=HOSTS
    )
    material = CertificateMaterial(signing=authority, leaf=issue_certificate(authority, HOSTS, now=now, lifetime=DAY))
    for _ in range(3):
        keeper._serve(material)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == (0 if usage else 1)
    assert usage or "system/cert" in warnings[0]


def test_the_chain_ends_with_the_authority_that_signed_it() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    authority = make_authority("ca", now=now, lifetime=POLICY.authority_lifetime)
    before = CertificateMaterial(
        signing=authority, leaf=issue_certificate(authority, HOSTS, now=now, lifetime=POLICY.lifetime)
    )
    *_, last = rotated(before, now)
    (link,) = last.chain
    assert link.not_valid_after_utc == authority.certificate.not_valid_after_utc
    assert link.public_key() == last.signing.key.public_key()
    # Renewing the server certificate keeps the chain.
    renewed = next_step(last, POLICY, HOSTS, now + 300 * DAY)
    assert renewed is not None
    assert stored(renewed.material).chain == last.chain
    # At the end of the old authority the link serves no one.
    ends = authority.certificate.not_valid_after_utc
    late = replace(last, leaf=issue_certificate(last.signing, HOSTS, now=ends - DAY, lifetime=DAY))
    late = replace(late, signing=make_authority("ca", now=ends - DAY, lifetime=POLICY.authority_lifetime))
    late = replace(late, leaf=issue_certificate(late.signing, HOSTS, now=ends - DAY, lifetime=POLICY.lifetime))
    assert next_step(late, POLICY, HOSTS, ends - timedelta(seconds=1)) is None
    assert next_due(late, POLICY) == ends
    ended = next_step(late, POLICY, HOSTS, ends)
    assert ended is not None
    assert ended.material.chain == ()
    assert next_step(ended.material, POLICY, HOSTS, ends) is None


def test_an_expired_authority_signs_nothing() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    authority = make_authority("ca", now=now, lifetime=DAY)
    upcoming = make_authority("ca", now=now, lifetime=POLICY.authority_lifetime)
    leaf = issue_certificate(authority, HOSTS, now=now, lifetime=POLICY.lifetime)
    found = next_step(CertificateMaterial(signing=authority, leaf=leaf, upcoming=upcoming), POLICY, HOSTS, now + DAY)
    assert found is not None
    assert found.material.signing == upcoming
    assert found.material.chain == ()
