# SPDX-License-Identifier: Apache-2.0
"""Rotation of certificates as a pure function, and changes of a serving certificate."""

import asyncio
import base64
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from prometheus_client import CollectorRegistry

from trainwright.controller.runtime.certificates.authority import (
    KeyPair,
    certificate_pem,
    issue_certificate,
    key_pem,
    make_authority,
    signed_by,
)
from trainwright.controller.runtime.certificates.material import CertificateMaterial, decode, same_authorities
from trainwright.controller.runtime.certificates.rotation import RotationPolicy, next_due, next_step
from trainwright.controller.runtime.certificates.serving import CertificateFiles, ServingCertificate
from trainwright.controller.runtime.errors import CertificateError, ConfigurationError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = ["hooks.system.svc"]
DAY = timedelta(days=1)
POLICY = RotationPolicy()


def step(material: CertificateMaterial | str, now: datetime, hosts: list[str] = HOSTS) -> CertificateMaterial | None:
    found = next_step(material, POLICY, hosts, now)
    return found.material if found else None


def fresh(now: datetime = NOW) -> CertificateMaterial:
    made = step("nothing", now)
    assert made is not None
    return made


def stored(material: CertificateMaterial) -> CertificateMaterial:
    """What a replica reads of what another wrote."""
    read = decode(material.encode())
    assert isinstance(read, CertificateMaterial), read
    return read


def test_state_survives_the_secret() -> None:
    material = fresh()
    assert stored(material).encode() == material.encode()
    announced = replace(material, upcoming=make_authority("next", now=NOW, lifetime=DAY))
    assert stored(announced).encode() == announced.encode()
    assert "next-ca.key" not in material.encode()


def test_nothing_is_due_for_a_long_time() -> None:
    material = stored(fresh())
    assert step(material, NOW) is None
    assert step(material, NOW + 274 * DAY) is None
    assert next_due(material, POLICY) == NOW + (365 - 90) * DAY


def test_server_certificate_is_renewed_under_the_same_authority() -> None:
    material = fresh()
    renewed = step(stored(material), NOW + 275 * DAY)
    assert renewed is not None
    assert renewed.bundle == material.bundle
    assert renewed.leaf.certificate.not_valid_after_utc == NOW + (275 + 365) * DAY
    assert step(stored(renewed), NOW + 275 * DAY) is None


def test_authority_is_announced_then_signs_then_the_old_one_is_forgotten() -> None:
    old = fresh()
    # Long after: its server certificate was renewed all the time.
    now = NOW + 3560 * DAY
    old = replace(old, leaf=issue_certificate(old.signing, HOSTS, now=now - DAY, lifetime=POLICY.lifetime))
    announced = step(stored(old), now)
    assert announced is not None
    assert announced.leaf.certificate == old.leaf.certificate, "what is served does not change yet"
    assert [c == old.signing.certificate for c in announced.trusted] == [True, False]
    assert step(stored(announced), now) is None
    assert next_due(announced, POLICY) == now + POLICY.overlap

    now += POLICY.overlap
    switched = step(stored(announced), now)
    assert switched is not None
    assert switched.signing.certificate == announced.trusted[1]
    assert signed_by(switched.leaf.certificate, switched.signing.certificate)
    assert set(switched.trusted) == set(announced.trusted), "both are trusted, whichever certificate a replica serves"
    assert step(stored(switched), now) is None
    assert next_due(switched, POLICY) == now + POLICY.overlap

    now += POLICY.overlap
    last = step(stored(switched), now)
    assert last is not None
    assert last.trusted == [switched.signing.certificate]
    assert step(stored(last), now) is None
    assert next_due(last, POLICY) == old.signing.certificate.not_valid_after_utc, "its signature below the new one ends"


def test_certificate_that_ends_with_its_authority_waits_for_the_next() -> None:
    authority = make_authority("a", now=NOW, lifetime=100 * DAY)
    material = CertificateMaterial(
        signing=authority, leaf=issue_certificate(authority, HOSTS, now=NOW, lifetime=POLICY.lifetime)
    )
    later = NOW + 9 * DAY
    assert material.leaf.certificate.not_valid_after_utc == authority.certificate.not_valid_after_utc
    assert step(stored(material), later) is None
    assert next_due(material, POLICY) == NOW + 10 * DAY


# PKCS #8 with the algorithm 1.2.3.4, which nobody knows.
UNKNOWN_KEY = b"-----BEGIN PRIVATE KEY-----\nMA8CAQAwBQYDKgMEBAMBAgM=\n-----END PRIVATE KEY-----\n"


def with_unknown_key(pem: bytes) -> bytes:
    """The certificate with another object identifier where it says that its key is one of an elliptic curve."""
    der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    known = bytes.fromhex("06072a8648ce3d0201")
    assert der.count(known) == 1
    changed = base64.b64encode(der.replace(known, bytes.fromhex("06072a8648ce3d0209")))
    return b"-----BEGIN CERTIFICATE-----\n" + changed + b"\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize("key", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
@pytest.mark.parametrize("how", ["missing", "garbage", "another's", "unknown algorithm"])
def test_damaged_secret_is_replaced_whole(key: str, how: str) -> None:
    data = fresh().encode()
    match how:
        case "missing":
            del data[key]
        case "garbage":
            data[key] = b"garbage"
        case "unknown algorithm":
            data[key] = UNKNOWN_KEY if key.endswith(".key") else with_unknown_key(data[key])
        case _:
            data[key] = fresh().encode()[key]
    reason = decode(data)
    assert isinstance(reason, str)
    assert isinstance(decode(fresh().encode()), CertificateMaterial)


def test_lost_secret_is_replaced_like_an_authority_by_who_knew_it() -> None:
    served = fresh()

    def after_loss(now: datetime, hosts: list[str] = HOSTS, last: CertificateMaterial = served) -> CertificateMaterial:
        found = next_step("deleted", POLICY, hosts, now, last=last)
        assert found is not None
        return found.material

    restored = after_loss(NOW + DAY)
    assert restored.leaf.certificate == served.leaf.certificate, "every replica goes on serving what it serves"
    assert restored.trusted[0] == served.signing.certificate
    assert len(restored.trusted) == 2, "and who comes next is known in time"
    replaced = step(stored(restored), NOW + DAY + POLICY.overlap)
    assert replaced is not None
    assert replaced.signing.certificate == restored.trusted[1]
    assert stored(after_loss(NOW + DAY, last=restored)).encode() == restored.encode(), "once is enough"
    for now, hosts in ((NOW + 366 * DAY, HOSTS), (NOW, ["other.system.svc"])):
        new = after_loss(now, hosts)
        assert len(new.trusted) == 1, "what could not be served is not kept"
        assert new.signing.certificate != served.signing.certificate


def test_expired_authority_and_other_hosts() -> None:
    material = stored(fresh())
    replaced = step(material, NOW + 3651 * DAY)
    assert replaced is not None
    assert len(replaced.trusted) == 1
    moved = step(material, NOW, ["other.system.svc", "127.0.0.1"])
    assert moved is not None
    assert moved.bundle == material.bundle
    assert step(stored(moved), NOW, ["127.0.0.1"]) is None, "more names than needed do no harm"


def test_foreign_rsa_authority_without_identifiers_is_kept() -> None:
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kept-ca")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - timedelta(hours=1))
        .not_valid_after(NOW + 3650 * DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    authority = KeyPair(certificate, key)
    material = CertificateMaterial(
        signing=authority, leaf=issue_certificate(authority, HOSTS, now=NOW, lifetime=POLICY.lifetime)
    )
    assert step(stored(material), NOW) is None
    renewed = step(stored(material), NOW + 300 * DAY)
    assert renewed is not None
    assert renewed.signing.certificate == certificate


def test_bundles_are_compared_by_what_they_hold() -> None:
    one, two = fresh().bundle, fresh().bundle
    assert same_authorities(one + two, two + b"\n# comment\n" + one)
    assert not same_authorities(one, one + two)
    assert not same_authorities(one, b"")
    assert same_authorities(b"", b"")
    assert not same_authorities(b"garbage", b"")


def test_policy_that_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        RotationPolicy(renewal=365 * DAY)
    with pytest.raises(ConfigurationError):
        RotationPolicy(authority_renewal=3650 * DAY)
    with pytest.raises(ConfigurationError):
        RotationPolicy(overlap=46 * DAY)


# ---------------------------------------------------------------------- serving


def pair_of(now: datetime | None = None) -> tuple[bytes, bytes, bytes]:
    """Authority, certificate and key for the loopback, in PEM, valid now."""
    moment = now or datetime.now(UTC)
    authority = make_authority("test", now=moment, lifetime=DAY)
    leaf = issue_certificate(authority, ["127.0.0.1"], now=moment, lifetime=DAY)
    return certificate_pem(authority.certificate), certificate_pem(leaf.certificate), key_pem(leaf.key)


@asynccontextmanager
async def echo(context: ssl.SSLContext) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def connect(port: int, ca: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.create_default_context(cadata=ca.decode())
    return await asyncio.open_connection("127.0.0.1", port, ssl=context)


async def said(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(b"hello\n")
    return await reader.readline()


async def test_new_certificate_serves_new_handshakes_and_keeps_old_connections() -> None:
    registry = CollectorRegistry()
    serving = ServingCertificate(registry)
    ca, certificate, key = pair_of()
    assert serving.load(certificate, key)
    assert not serving.load(certificate, key), "the same again is nothing new"
    async with echo(serving.context) as port:
        old = await connect(port, ca)
        other_ca, other_certificate, other_key = pair_of()
        serving.load(other_certificate, other_key)
        new = await connect(port, other_ca)
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(port, ca)
        assert await said(*old) == await said(*new) == b"hello\n"

        for broken in ((certificate, other_key), (b"garbage", key), (certificate, b"")):
            with pytest.raises(CertificateError, match="the previous one stays in use"):
                serving.load(*broken)
        third = await connect(port, other_ca)
        for _, writer in (old, new, third):
            writer.close()
            await writer.wait_closed()
    assert registry.get_sample_value("certwatcher_read_certificate_errors_total") == 3


def test_no_place_for_files_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    serving = ServingCertificate(CollectorRegistry())
    _, certificate, key = pair_of()
    with pytest.raises(CertificateError, match="No such file or directory"):
        serving.load(certificate, key)


async def test_files_are_followed_and_a_half_written_pair_is_passed_over(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    serving = ServingCertificate(registry)
    files = CertificateFiles(tmp_path, serving)
    files.look()
    assert not files.ready.is_set()
    assert "No such file" in files.last_error
    _, certificate, key = pair_of()
    (tmp_path / "tls.crt").write_bytes(certificate)
    (tmp_path / "tls.key").write_bytes(key)
    files.look()
    assert files.ready.is_set()
    first = serving.fingerprint
    _, certificate, other = pair_of()
    (tmp_path / "tls.crt").write_bytes(certificate)
    files.look()
    assert serving.fingerprint == first
    assert "the previous one stays in use" in files.last_error
    (tmp_path / "tls.key").write_bytes(other)
    files.look()
    assert serving.fingerprint != first
    assert files.last_error == ""


async def test_version_and_ciphers_are_the_callers() -> None:
    serving = ServingCertificate(CollectorRegistry(), minimum=ssl.TLSVersion.TLSv1_3, ciphers="ECDHE+AESGCM")
    ca, certificate, key = pair_of()
    serving.load(certificate, key)
    old = ssl.create_default_context(cadata=ca.decode())
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with echo(serving.context) as port:
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            await asyncio.open_connection("127.0.0.1", port, ssl=old)
        _, writer = await connect(port, ca)
        assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"
        writer.close()
        await writer.wait_closed()
