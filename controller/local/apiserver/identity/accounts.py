# SPDX-License-Identifier: Apache-2.0
"""Tokens of service accounts: their claims, and for how long they are valid.

https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#bound-service-account-tokens
A token is void when its account, pod, secret or node is gone or has another uid. kube-apiserver remembers valid
tokens for ten seconds; here a deletion has an effect at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from trainwright.api import times
from trainwright.api.objects import Document, name_of, uid_of
from trainwright.api.surroundings import new_uid
from trainwright.api.times import Now, wall_clock
from trainwright.controller.local.apiserver.identity.authentication import (
    ISSUER,
    Identity,
    InvalidTokenError,
)
from trainwright.controller.local.apiserver.identity.jwt import (
    MalformedTokenError,
    SignatureError,
    SigningKey,
    read_claims,
)
from trainwright.controller.local.apiserver.request.info import ACCOUNT_PREFIX, AUTHENTICATED, User, account_groups
from trainwright.controller.local.apiserver.store import ObjectName, ObjectStore

_LEEWAY = timedelta(minutes=1)
"""For clocks that differ, and how long a deleted object keeps its tokens valid."""
_WARN_SECONDS = 60 * 60 + 7
"""The life that pods' own tokens ask for. It is extended, for programs that read the token only once."""
_EXTENDED_SECONDS = 365 * 24 * 60 * 60
_EXTRA = "authentication.kubernetes.io"
_VOID = "service account token has been invalidated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a token is bound to: its life ends with the object's."""

    pod: Document | None = None
    secret: Document | None = None
    node: Document | None = None
    """For a pod: where it runs. It may lack a uid if the Node does not exist."""


class AccountTokens:
    """Issues and checks the tokens of service accounts."""

    def __init__(self, store: ObjectStore, key: SigningKey, *, now: Now = wall_clock, issuer: str = ISSUER) -> None:
        self._store = store
        self._key = key
        self._now = now
        self.issuer = issuer
        """Also the audience of tokens for the API server."""

    def issue(self, account: Document, bound: Bound, *, seconds: int, audiences: Sequence[str]) -> str:
        """A new token of a stored ServiceAccount."""
        now = int(self._now().timestamp())
        namespace = account["metadata"]["namespace"]
        said: dict[str, Any] = {"namespace": namespace, "serviceaccount": _reference(account)}
        for kind, document in (("pod", bound.pod), ("secret", bound.secret), ("node", bound.node)):
            if document is not None:
                said[kind] = _reference(document)
        life = seconds
        if bound.pod is not None and seconds == _WARN_SECONDS and set(audiences) <= {self.issuer}:
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
        try:
            if read_claims(token).get("iss") != self.issuer:
                return None
            claims = self._key.verify(token)
        except MalformedTokenError:
            return None
        except SignatureError as error:
            raise InvalidTokenError("go-jose/go-jose: error in cryptographic primitive") from error
        given = [str(one) for one in claims.get("aud") or ()]
        matching = tuple(one for one in given if one in audiences)
        if not matching:
            raise InvalidTokenError(
                f"token audiences {_listed(given)} is invalid for the target audiences {_listed(audiences)}"
            )
        self._check_times(claims)
        said: Document = claims["kubernetes.io"]
        self._check_objects(said)
        return Identity(_user(said, str(claims.get("jti") or "")), matching)

    def _check_times(self, claims: Document) -> None:
        now, leeway = self._now().timestamp(), _LEEWAY.total_seconds()
        if now + leeway < claims["nbf"]:
            raise InvalidTokenError("service account token is not valid yet")
        if now - leeway > claims["exp"]:
            raise InvalidTokenError("service account token has expired")

    def _check_objects(self, said: Document) -> None:
        namespace, account = said["namespace"], said["serviceaccount"]
        name = account["name"]
        found = self._store.get("serviceaccounts", ObjectName(namespace, name))
        if found is None:
            raise InvalidTokenError(f'serviceaccounts "{name}" not found')
        document = found.document()
        if uid_of(document) != account["uid"]:
            raise InvalidTokenError(f"service account UID ({uid_of(document)}) does not match claim ({account['uid']})")
        if self._is_over(document):
            raise InvalidTokenError(f"service account {namespace}/{name} has been deleted")
        for kind in ("secret", "pod", "node"):
            # The node of a pod is only told.
            if kind in said and not (kind == "node" and "pod" in said):
                self._check_bound(kind, "" if kind == "node" else namespace, said[kind])

    def _check_bound(self, kind: str, namespace: str, reference: Document) -> None:
        found = self._store.get(f"{kind}s", ObjectName(namespace, reference["name"]))
        if found is None:
            raise InvalidTokenError(_VOID)
        document = found.document()
        if uid_of(document) != reference.get("uid"):
            told = {"pod": "pod UID", "secret": "secret UID", "node": "node UID"}[kind]
            claim = "service account secret ref claim" if kind == "secret" else f"service account {kind} ref claim"
            raise InvalidTokenError(
                f"{told} ({uid_of(document)}) does not match {claim} ({reference.get('uid') or ''})"
            )
        if self._is_over(document):
            raise InvalidTokenError(_VOID)

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
