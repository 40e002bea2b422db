# SPDX-License-Identifier: Apache-2.0
"""Who asks: the administrator, and service accounts by their tokens."""

from trainwright.controller.local.apiserver.identity.accounts import AccountTokens
from trainwright.controller.local.apiserver.identity.authentication import (
    ADMINISTRATOR,
    ANONYMOUS,
    ISSUER,
    Authenticator,
    TokenAuthenticator,
)
from trainwright.controller.local.apiserver.identity.jwt import SigningKey

__all__ = [
    "ADMINISTRATOR",
    "ANONYMOUS",
    "ISSUER",
    "AccountTokens",
    "Authenticator",
    "SigningKey",
    "TokenAuthenticator",
]
