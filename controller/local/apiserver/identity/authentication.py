# SPDX-License-Identifier: Apache-2.0
"""Client certificates, and bearer tokens: one of the administrator, and others that further checks know.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/
"""

import hmac
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from trainwright.controller.local.apiserver.request.info import ANONYMOUS, AUTHENTICATED, ServerRequest, User

ADMINISTRATOR = User("kubernetes-admin", ("system:masters", AUTHENTICATED))
ISSUER = "https://kubernetes.default.svc"
"""Issuer of the tokens of service accounts, and the audience of this API server. It does not depend on the port."""
_INVALID = "invalid bearer token"


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

    async def user(self, request: ServerRequest) -> User | None:
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
        """The owner of a token.

        Args:
            token: as it comes after `Bearer`.
            audiences: one of which the token must be for; empty for this API server.

        Raises:
            InvalidTokenError: with the text that kube-apiserver shows in a TokenReview.
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
