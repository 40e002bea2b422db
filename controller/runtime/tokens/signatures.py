# SPDX-License-Identifier: Apache-2.0
"""Tokens of service accounts as JSON Web Tokens (RFC 7515, RFC 7519), and the public keys that verify their signatures.

The parser of tokens in compact form is strict: each part must be the one base64url encoding of its content, so that two
different texts are never the same token. Source of the private claims:
https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#bound-service-account-token-lifecycle

Keys are JSON Web Keys (RFC 7517, RFC 7518). An algorithm belongs to one type of key, so a token cannot choose how its
signature is checked: `none` and algorithms with a shared secret (HS256) are unknown here, and a public key is never
used as a secret.
"""

import base64
import binascii
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from trainwright.controller.runtime.errors import TokenRefused

log = logging.getLogger(__name__)

LONGEST = 16 * 1024
"""Characters of the longest token that is read. Tokens of service accounts have about a thousand."""


class ClaimedObject(msgspec.Struct, frozen=True):
    """An object that a token names."""

    name: str = ""
    uid: str = ""


class Kubernetes(msgspec.Struct, frozen=True):
    """The claim `kubernetes.io`."""

    namespace: str = ""
    serviceaccount: ClaimedObject = ClaimedObject()
    pod: ClaimedObject = ClaimedObject()
    """The pod that the token is bound to; empty if it is bound to none."""


class Claims(msgspec.Struct, frozen=True):
    """The claims of a token of a service account."""

    iss: str
    exp: float
    """Seconds since 1970, as `nbf`."""
    sub: str = ""
    aud: str | tuple[str, ...] = ()
    nbf: float | None = None
    kubernetes: Kubernetes = msgspec.field(name="kubernetes.io", default=Kubernetes())

    @property
    def audiences(self) -> tuple[str, ...]:
        return (self.aud,) if isinstance(self.aud, str) else self.aud


class _Header(msgspec.Struct, frozen=True):
    alg: str
    kid: str = ""
    crit: Any = None


@dataclass(frozen=True, slots=True)
class Encoded:
    """A token whose signature is not checked yet."""

    algorithm: str
    key_id: str
    """Name of the key that signed it; empty if the token does not say."""
    claims: Claims
    signed: bytes
    """What the signature is of."""
    signature: bytes


_HEADER = msgspec.json.Decoder(_Header)
_CLAIMS = msgspec.json.Decoder(Claims)


def parse(token: str) -> Encoded:
    """Read a token. Raises TokenRefused if the text is not a token of a service account."""
    if len(token) > LONGEST:
        raise TokenRefused(f"the token has more than {LONGEST} characters")
    parts = token.split(".")
    if len(parts) != 3 or not token.isascii():
        raise TokenRefused("the token is not a JSON Web Token")
    try:
        header = _HEADER.decode(from_base64(parts[0]))
        claims = _CLAIMS.decode(from_base64(parts[1]))
        signature = from_base64(parts[2])
    except (ValueError, RecursionError) as error:
        # msgspec's errors and UnicodeDecodeError are ValueErrors. The message is not shown: it may quote the token.
        raise TokenRefused(f"the token cannot be decoded ({type(error).__name__})") from None
    if header.crit is not None:
        raise TokenRefused("the token has critical header fields, which are not supported")
    return Encoded(header.alg, header.kid, claims, token[: token.rindex(".")].encode(), signature)


def from_base64(text: str) -> bytes:
    """Decode base64url without padding. Raises ValueError for any other encoding of the same bytes."""
    try:
        data = base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError("not base64url") from error
    if to_base64(data) != text:
        raise ValueError("not the canonical base64url encoding")
    return data


def to_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


LEAST_BITS, MOST_BITS = 2048, 16384
"""Sizes of RSA keys that are used."""

_Check: TypeAlias = Callable[[bytes, bytes], None]
"""Takes a signature and what it is of. Raises InvalidSignature."""

_SHA = {256: hashes.SHA256(), 384: hashes.SHA384(), 512: hashes.SHA512()}
_PSS_256 = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=padding.PSS.DIGEST_LENGTH)
_RSA = {
    **{f"RS{bits}": (padding.PKCS1v15(), algorithm) for bits, algorithm in _SHA.items()},
    "PS256": (_PSS_256, _SHA[256]),
}
_CURVES: dict[str, tuple[ec.EllipticCurve, str, hashes.HashAlgorithm]] = {
    "P-256": (ec.SECP256R1(), "ES256", _SHA[256]),
    "P-384": (ec.SECP384R1(), "ES384", _SHA[384]),
    "P-521": (ec.SECP521R1(), "ES512", _SHA[512]),
}
ALGORITHMS = frozenset({*_RSA, *(name for _, name, _ in _CURVES.values())})
"""The algorithms that kube-apiserver signs with, or lets an external signer use."""


class _JSONWebKey(msgspec.Struct):
    kty: str
    kid: str = ""
    use: str = "sig"
    alg: str = ""
    n: str = ""
    e: str = ""
    crv: str = ""
    x: str = ""
    y: str = ""


class _KeySet(msgspec.Struct):
    keys: list[msgspec.Raw]


@dataclass(frozen=True, slots=True)
class PublicKey:
    id: str
    checks: dict[str, _Check]
    """By algorithm."""

    def verifies(self, token: Encoded) -> bool:
        """Whether this key signed the token, with an algorithm of its own."""
        check = self.checks.get(token.algorithm)
        if check is None:
            return False
        try:
            check(token.signature, token.signed)
        except InvalidSignature:
            return False
        return True


def read_keys(body: bytes) -> list[PublicKey]:
    """The usable keys of a JSON Web Key Set; others are logged and left out.

    Raises:
        ValueError: the body is not a key set.
    """
    found = []
    for raw in msgspec.json.decode(body, type=_KeySet).keys:
        try:
            found.append(_read_key(raw))
        except (ValueError, UnsupportedAlgorithm) as error:
            log.warning("a key of the API server is not used: %s", error)
    return found


def _read_key(raw: msgspec.Raw) -> PublicKey:
    key = msgspec.json.decode(raw, type=_JSONWebKey)
    if key.use != "sig":
        raise ValueError(f"its use is {key.use!r}")
    match key.kty:
        case "RSA":
            checks = _checks_of_rsa(key)
        case "EC":
            checks = _checks_of_curve(key)
        case _:
            raise ValueError(f"its type is {key.kty!r}")
    if key.alg:
        checks = {name: check for name, check in checks.items() if name == key.alg}
    if not checks:
        raise ValueError(f"its algorithm is {key.alg!r}")
    return PublicKey(key.kid, checks)


def _checks_of_rsa(key: _JSONWebKey) -> dict[str, _Check]:
    public = rsa.RSAPublicNumbers(_number(key.e), _number(key.n)).public_key()
    if not LEAST_BITS <= public.key_size <= MOST_BITS:
        raise ValueError(f"it has {public.key_size} bits")
    return {name: partial(_check_rsa, public, *how) for name, how in _RSA.items()}


def _check_rsa(
    public: rsa.RSAPublicKey,
    pad: padding.AsymmetricPadding,
    algorithm: hashes.HashAlgorithm,
    signature: bytes,
    signed: bytes,
) -> None:
    public.verify(signature, signed, pad, algorithm)


def _checks_of_curve(key: _JSONWebKey) -> dict[str, _Check]:
    if key.crv not in _CURVES:
        raise ValueError(f"its curve is {key.crv!r}")
    curve, name, algorithm = _CURVES[key.crv]
    public = ec.EllipticCurvePublicNumbers(_number(key.x), _number(key.y), curve).public_key()
    return {name: partial(_check_curve, public, ec.ECDSA(algorithm), (curve.key_size + 7) // 8)}


def _check_curve(
    public: ec.EllipticCurvePublicKey, algorithm: ec.ECDSA, half: int, signature: bytes, signed: bytes
) -> None:
    if len(signature) != 2 * half:
        raise InvalidSignature
    r, s = int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big")
    public.verify(encode_dss_signature(r, s), signed, algorithm)


def _number(text: str) -> int:
    return int.from_bytes(from_base64(text), "big")
