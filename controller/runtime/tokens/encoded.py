# SPDX-License-Identifier: Apache-2.0
"""Reads JSON Web Tokens in compact form (RFC 7515, RFC 7519) without checking their signature.

The parser is strict: each part must be the one base64url encoding of its content, so that two different texts are
never the same token. Source of the private claims:
https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#bound-service-account-token-lifecycle
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import msgspec

from trainwright.controller.runtime.errors import TokenRefused

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
