# SPDX-License-Identifier: Apache-2.0
"""Who asks: the administrator, and service accounts by their tokens."""

from trainwright.controller.local.apiserver.identity.accounts import AccountTokens
from trainwright.controller.local.apiserver.identity.authentication import (
    ADMINISTRATOR,
    ISSUER,
    TokenAuthenticator,
)
from trainwright.controller.local.apiserver.identity.jwt import SigningKey

__all__ = [
    "ADMINISTRATOR",
    "ISSUER",
    "AccountTokens",
    "SigningKey",
    "TokenAuthenticator",
]
