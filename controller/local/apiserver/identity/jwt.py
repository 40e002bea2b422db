# SPDX-License-Identifier: Apache-2.0
"""JSON Web Tokens signed with ES256 (RFC 7515, RFC 7518), and the public key as a JSON Web Key (RFC 7517)."""

import base64
import binascii
import hashlib
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.request.info import encode

_ALGORITHM = "ES256"
_HALF = 32
"""Bytes of each of the two numbers of a signature, and of each coordinate of a point on P-256."""
_SIGNS = ec.ECDSA(hashes.SHA256())


class MalformedTokenError(Exception):
    """The text is not a JSON Web Token."""


class SignatureError(Exception):
    """The token is not signed by this key."""


class SigningKey:
    """A private key on P-256. Signing and verifying take less than a millisecond."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self._public = key.public_key()
        der = self._public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.id = _to_base64(hashlib.sha256(der).digest())
        """The `kid` of its tokens, computed as kube-apiserver does."""
        self._header = _to_base64(encode({"alg": _ALGORITHM, "kid": self.id}))

    def sign(self, claims: Document) -> str:
        """A token in compact form."""
        signed = f"{self._header}.{_to_base64(encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(signed.encode(), _SIGNS))
        return f"{signed}.{_to_base64(r.to_bytes(_HALF, 'big') + s.to_bytes(_HALF, 'big'))}"

    def verify(self, token: str) -> Document:
        """The claims of a token that this key signed.

        Raises:
            MalformedTokenError: the text is not a token.
            SignatureError: another key or algorithm signed it.
        """
        claims = read_claims(token)
        signed, _, signature = token.rpartition(".")
        header = _object(signed.partition(".")[0])
        raw = _from_base64(signature)
        if header.get("alg") != _ALGORITHM or header.get("kid", self.id) != self.id or len(raw) != 2 * _HALF:
            raise SignatureError
        der = encode_dss_signature(int.from_bytes(raw[:_HALF], "big"), int.from_bytes(raw[_HALF:], "big"))
        try:
            self._public.verify(der, signed.encode(), _SIGNS)
        except InvalidSignature as error:
            raise SignatureError from error
        return claims

    def public(self) -> Document:
        """The public key as a JSON Web Key."""
        point = self._public.public_numbers()
        x, y = (_to_base64(number.to_bytes(_HALF, "big")) for number in (point.x, point.y))
        return {"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": _ALGORITHM, "x": x, "y": y}


def read_claims(token: str) -> Document:
    """The claims of a token, without a look at its signature. Raises MalformedTokenError."""
    parts = token.split(".")
    if len(parts) != 3:
        raise MalformedTokenError("a token has three parts")
    return _object(parts[1])


def _object(part: str) -> Document:
    try:
        found: Any = msgspec.json.decode(_from_base64(part))
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedTokenError(str(error)) from error
    if not isinstance(found, dict):
        raise MalformedTokenError("a part of a token is a JSON object")
    return found


def _to_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedTokenError(str(error)) from error
