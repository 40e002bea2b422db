# SPDX-License-Identifier: Apache-2.0
"""Public keys as JSON Web Keys (RFC 7517), and the signatures that they verify (RFC 7518).

An algorithm belongs to one type of key, so a token cannot choose how its signature is checked: `none` and algorithms
with a shared secret (HS256) are unknown here, and a public key is never used as a secret.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from trainwright.controller.runtime.tokens.encoded import Encoded, from_base64

log = logging.getLogger(__name__)

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
