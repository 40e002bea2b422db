# SPDX-License-Identifier: Apache-2.0
"""An issuer of tokens of service accounts, with keys of every type, for tests of what checks tokens."""

import json
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from trainwright.controller.runtime.tokens.signatures import to_base64

NAME = "https://kubernetes.default.svc"

_SHA = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}
_CURVES = {"256": ec.SECP256R1(), "384": ec.SECP384R1(), "512": ec.SECP521R1()}
_RSA_KEYS: dict[tuple[int, int], rsa.RSAPrivateKey] = {}


class Signer:
    """One private key with its algorithm."""

    def __init__(self, algorithm: str = "ES256", key_id: str = "one", *, bits: int = 2048, number: int = 0) -> None:
        """`number`: signers with RSA keys of the same number share the key, which is slow to make."""
        self.algorithm = algorithm
        self.id = key_id
        self._bits = algorithm[2:]
        self._key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
        if algorithm.startswith("ES"):
            self._key = ec.generate_private_key(_CURVES[self._bits])
        else:
            if (bits, number) not in _RSA_KEYS:
                _RSA_KEYS[bits, number] = rsa.generate_private_key(65537, bits)
            self._key = _RSA_KEYS[bits, number]

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        """A token. `header` adds to its header; a value of None leaves the field out."""
        fields = {"alg": self.algorithm, "kid": self.id, **header}
        parts = [{name: value for name, value in fields.items() if value is not None}, claims]
        signed = ".".join(to_base64(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{to_base64(self._signature(signed.encode()))}"

    def _signature(self, signed: bytes) -> bytes:
        algorithm = _SHA[self._bits]
        if isinstance(self._key, ec.EllipticCurvePrivateKey):
            half = (self._key.key_size + 7) // 8
            r, s = decode_dss_signature(self._key.sign(signed, ec.ECDSA(algorithm)))
            return r.to_bytes(half, "big") + s.to_bytes(half, "big")
        if self.algorithm.startswith("PS"):
            pad: padding.AsymmetricPadding = padding.PSS(padding.MGF1(algorithm), padding.PSS.DIGEST_LENGTH)
        else:
            pad = padding.PKCS1v15()
        return self._key.sign(signed, pad, algorithm)

    def public(self, **changes: Any) -> dict[str, Any]:
        """The public key as a JSON Web Key."""
        key = {"use": "sig", "kid": self.id, "alg": self.algorithm, **self._numbers(), **changes}
        return {name: value for name, value in key.items() if value is not None}

    def _numbers(self) -> dict[str, str]:
        if isinstance(self._key, rsa.RSAPrivateKey):
            public = self._key.public_key().public_numbers()
            return {"kty": "RSA", "n": _encoded(public.n), "e": _encoded(public.e)}
        point, size = self._key.public_key().public_numbers(), (self._key.key_size + 7) // 8
        curve = {"256": "P-256", "384": "P-384", "512": "P-521"}[self._bits]
        return {"kty": "EC", "crv": curve, "x": _encoded(point.x, size), "y": _encoded(point.y, size)}


def claims(
    audience: str, *, now: float = 0.0, namespace: str = "default", pod: tuple[str, str] | None = None, **changes: Any
) -> dict[str, Any]:
    """The claims of a token of the account `default` that is valid for an hour.

    Args:
        audience: of the token.
        now: when it is made, in seconds since 1970.
        namespace: of the account.
        pod: name and uid of the pod that it is bound to.
        changes: other claims; a value of None leaves one out.
    """
    said: dict[str, Any] = {"namespace": namespace, "serviceaccount": {"name": "default", "uid": "account-uid"}}
    if pod is not None:
        said["pod"] = {"name": pod[0], "uid": pod[1]}
    made = {
        "aud": [audience],
        "exp": now + 3600,
        "iat": now,
        "iss": NAME,
        "kubernetes.io": said,
        "nbf": now,
        "sub": f"system:serviceaccount:{namespace}:default",
        **changes,
    }
    return {name: value for name, value in made.items() if value is not None}


def _encoded(number: int, size: int = 0) -> str:
    return to_base64(number.to_bytes(size or (number.bit_length() + 7) // 8, "big"))
