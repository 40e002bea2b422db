# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens: one of the administrator, and others that further authenticators know."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from trainwright.controller.local.apiserver.requests import ServerRequest, User

ADMINISTRATOR = User("kubernetes-admin", ("system:masters", "system:authenticated"))
TokenCheck: TypeAlias = Callable[[str], Awaitable[User | None]]


class Authenticator(Protocol):
    """Tells who asks."""

    async def user(self, request: ServerRequest) -> User | None:
        """The user; None for a request without valid credentials."""
        ...


class TokenAuthenticator:
    """Knows the administrator's token, and asks others about all other tokens."""

    def __init__(self, token: str, *others: TokenCheck) -> None:
        self._token = token.encode()
        self._others = others

    async def user(self, request: ServerRequest) -> User | None:
        """See Authenticator."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return None
        token = token.strip()
        if hmac.compare_digest(token.encode(), self._token):
            return ADMINISTRATOR
        for check in self._others:
            user = await check(token)
            if user is not None:
                return user
        return None
