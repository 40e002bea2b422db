# SPDX-License-Identifier: Apache-2.0
"""Who asks: client certificates, the administrator's token, and the tokens of service accounts.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/ and, for tokens that are bound to pods,
https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#bound-service-account-tokens
A token is void when its account or pod is gone or has another uid. kube-apiserver remembers valid
tokens for ten seconds; here a deletion has an effect at once.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

import msgspec
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from trainwright.api import times
from trainwright.api.objects import Document, name_of, uid_of
from trainwright.api.surroundings import new_uid
from trainwright.api.times import Now, wall_clock
from trainwright.controller.local.apiserver.request.info import (
    ACCOUNT_PREFIX,
    ANONYMOUS,
    AUTHENTICATED,
    ServerRequest,
    ServerResponse,
    User,
    account_groups,
    encode,
)
from trainwright.controller.local.apiserver.store import ObjectStore
from trainwright.controller.runtime.errors import TokenRefused
from trainwright.controller.runtime.tokens.signatures import from_base64, parse, read_keys, to_base64

ADMINISTRATOR = User("kubernetes-admin", ("system:masters", AUTHENTICATED))
ISSUER = "https://kubernetes.default.svc"
"""Issuer of the tokens of service accounts, and the audience of this API server. It does not depend on the port."""
_INVALID = "invalid bearer token"
_HALF = 32
"""Bytes of each of the two numbers of a signature, and of each coordinate of a point on P-256."""
_LEEWAY = timedelta(minutes=1)
"""For clocks that differ, and how long a deleted object keeps its tokens valid."""
_WARN_SECONDS = 60 * 60 + 7
"""The life that pods' own tokens ask for. It is extended, for programs that read the token only once."""
_EXTENDED_SECONDS = 365 * 24 * 60 * 60
_EXTRA = "authentication.kubernetes.io"
_CONFIGURATION, _KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"


class InvalidTokenError(Exception):
    """The token is known in form but not valid. The message is shown in TokenReviews."""


class Identity(NamedTuple):
    """The owner of a token."""

    user: User
    audiences: tuple[str, ...]
    """Which of the requested audiences the token is for."""


TokenCheck: TypeAlias = Callable[[str, Sequence[str]], Identity | None]
"""Takes a token and audiences. Returns None for tokens of another kind, raises InvalidTokenError for invalid ones."""


class TokenAuthenticator:
    """Knows the administrator's token, and asks checks about all other tokens."""

    def __init__(self, token: str, *others: TokenCheck, audience: str = ISSUER) -> None:
        self._token = token.encode()
        self._others = others
        self._audience = audience

    def user(self, request: ServerRequest) -> User | None:
        """See Authenticator. A client certificate counts more than a token, as in kube-apiserver."""
        if request.client_certificate_user is not None:
            return request.client_certificate_user._replace(
                groups=(*request.client_certificate_user.groups, AUTHENTICATED)
            )
        scheme, _, token = request.headers.get("authorization", "").strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        try:
            return self.identify(token.strip(), ()).user
        except InvalidTokenError:
            return None

    def identify(self, token: str, audiences: Sequence[str]) -> Identity:
        """The owner of a token, which must be for one of the audiences; by default, for this API server.

        Raises InvalidTokenError with the text that kube-apiserver shows in a TokenReview.
        """
        wanted = tuple(audiences) or (self._audience,)
        if self._audience in wanted and hmac.compare_digest(_bytes(token), self._token):
            return Identity(ADMINISTRATOR, (self._audience,))
        for check in self._others:
            try:
                found = check(token, wanted)
            except InvalidTokenError as error:
                raise InvalidTokenError(f"[{_INVALID}, {error}]") from error
            if found is not None:
                return found
        raise InvalidTokenError(_INVALID)


def _bytes(token: str) -> bytes:
    """As bytes, whatever was sent: a header that is not UTF-8 is decoded with surrogates in it."""
    return token.encode("utf-8", "surrogatepass")


class SigningKey:
    """A private key on P-256, which signs with ES256. Signing and verifying take less than a millisecond."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        public = key.public_key()
        der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        point, kid = public.public_numbers(), to_base64(hashlib.sha256(der).digest())
        x, y = (to_base64(number.to_bytes(_HALF, "big")) for number in (point.x, point.y))
        self.public = {"use": "sig", "kty": "EC", "kid": kid, "crv": "P-256", "alg": "ES256", "x": x, "y": y}
        """The public key as a JSON Web Key (RFC 7517). Its `kid` is computed as kube-apiserver does."""
        (self._verifier,) = read_keys(encode({"keys": [self.public]}))
        self._header = to_base64(encode({"alg": "ES256", "kid": kid}))

    def sign(self, claims: Document) -> str:
        """A token in compact form (RFC 7515)."""
        signed = f"{self._header}.{to_base64(encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{to_base64(r.to_bytes(_HALF, 'big') + s.to_bytes(_HALF, 'big'))}"

    def verify(self, token: str, issuer: str) -> Document | None:
        """The claims of a token; None if it is no token of this issuer. Raises InvalidTokenError if another key or
        algorithm signed it."""
        try:
            read = parse(token)
        except TokenRefused:
            return None
        if read.claims.iss != issuer:
            return None
        if read.key_id not in ("", self._verifier.id) or not self._verifier.verifies(read):
            raise InvalidTokenError("go-jose/go-jose: error in cryptographic primitive")
        claims: Document = msgspec.json.decode(from_base64(token.split(".")[1]))
        return claims


class AccountTokens:
    """Issues and checks the tokens of service accounts."""

    def __init__(self, store: ObjectStore, key: SigningKey, *, now: Now = wall_clock, issuer: str = ISSUER) -> None:
        self._store = store
        self._key = key
        self._now = now
        self.issuer = issuer
        """Also the audience of tokens for the API server."""

    def issue(self, account: Document, bound: Mapping[str, Document], *, seconds: int, audiences: Sequence[str]) -> str:
        """A new token of a stored ServiceAccount, for so many seconds.

        `bound` has the `pod` with which the token ends and its `node`, without a uid if the Node does not exist.
        """
        now = int(self._now().timestamp())
        namespace = account["metadata"]["namespace"]
        said: dict[str, Any] = {"namespace": namespace, "serviceaccount": _reference(account)}
        said |= {kind: _reference(document) for kind, document in bound.items()}
        life = seconds
        if "pod" in bound and seconds == _WARN_SECONDS and set(audiences) <= {self.issuer}:
            life, said["warnafter"] = _EXTENDED_SECONDS, now + seconds
        return self._key.sign(
            {
                "aud": list(audiences),
                "exp": now + life,
                "iat": now,
                "iss": self.issuer,
                "jti": new_uid(),
                "kubernetes.io": dict(sorted(said.items())),
                "nbf": now,
                "sub": f"{ACCOUNT_PREFIX}{namespace}:{name_of(account)}",
            }
        )

    def check(self, token: str, audiences: Sequence[str]) -> Identity | None:
        """The owner of a token; see TokenCheck."""
        claims = self._key.verify(token, self.issuer)
        if claims is None:
            return None
        given = [str(one) for one in claims.get("aud") or ()]
        matching = tuple(one for one in given if one in audiences)
        if not matching:
            raise InvalidTokenError(
                f"token audiences {_listed(given)} is invalid for the target audiences {_listed(audiences)}"
            )
        now, leeway = self._now().timestamp(), _LEEWAY.total_seconds()
        if now + leeway < claims["nbf"]:
            raise InvalidTokenError("service account token is not valid yet")
        if now - leeway > claims["exp"]:
            raise InvalidTokenError("service account token has expired")
        said: Document = claims["kubernetes.io"]
        self._check_objects(said)
        return Identity(_user(said, str(claims.get("jti") or "")), matching)

    def _check_objects(self, said: Document) -> None:
        """Raises InvalidTokenError where the account or the pod of a token is gone, or is another one."""
        namespace, account, pod = said["namespace"], said["serviceaccount"], said.get("pod")
        name = account["name"]
        found = self._store.document("serviceaccounts", name, namespace)
        if found is None:
            raise InvalidTokenError(f'serviceaccounts "{name}" not found')
        if uid_of(found) != account["uid"]:
            raise InvalidTokenError(f"service account UID ({uid_of(found)}) does not match claim ({account['uid']})")
        if self._is_over(found):
            raise InvalidTokenError(f"service account {namespace}/{name} has been deleted")
        if pod is None:
            return
        bound = self._store.document("pods", pod["name"], namespace)
        if bound is not None and uid_of(bound) != pod["uid"]:
            claim = f"service account pod ref claim ({pod['uid']})"
            raise InvalidTokenError(f"pod UID ({uid_of(bound)}) does not match {claim}")
        if bound is None or self._is_over(bound):
            raise InvalidTokenError("service account token has been invalidated")

    def _is_over(self, document: Document) -> bool:
        moment = document["metadata"].get("deletionTimestamp")
        return bool(moment) and times.parse(moment) < self._now() - _LEEWAY


def _reference(document: Document) -> Document:
    made = {"name": name_of(document), "uid": document["metadata"].get("uid")}
    return {field: value for field, value in made.items() if value}


def _user(said: Document, token_id: str) -> User:
    namespace, account = said["namespace"], said["serviceaccount"]
    extra: dict[str, tuple[str, ...]] = {}
    if token_id:
        extra[f"{_EXTRA}/credential-id"] = (f"JTI={token_id}",)
    for kind in ("node", "pod"):
        reference = said.get(kind) or {}
        for field in ("name", "uid"):
            if reference.get(field):
                extra[f"{_EXTRA}/{kind}-{field}"] = (reference[field],)
    return User(
        f"{ACCOUNT_PREFIX}{namespace}:{account['name']}",
        (*account_groups(namespace), AUTHENTICATED),
        uid=account["uid"],
        extra=extra,
    )


def _listed(texts: Sequence[str]) -> str:
    """As Go prints a list of strings with %q."""
    return "[" + " ".join(f'"{text}"' for text in texts) + "]"


def issuer_page(key: SigningKey, issuer: str, url: Callable[[], str], request: ServerRequest) -> ServerResponse | None:
    """OpenID Connect discovery of an issuer: its metadata, in which is the URL of the API server, and its public key.

    https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#service-account-issuer-discovery
    """
    headers = {"Cache-Control": "public, max-age=3600"}
    if request.path == _KEYS:
        body = encode({"keys": [key.public]})
        return ServerResponse(body=body, content_type="application/jwk-set+json", headers=headers)
    if request.path != _CONFIGURATION:
        return None
    document: Document = {
        "issuer": issuer,
        "jwks_uri": f"{url()}{_KEYS}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }
    return ServerResponse(body=encode(document), headers=headers)
