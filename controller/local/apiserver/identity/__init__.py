# SPDX-License-Identifier: Apache-2.0
"""Who asks: the administrator, and service accounts by their tokens."""

from trainwright.controller.local.apiserver.identity.authentication import (
    ADMINISTRATOR,
    Authenticator,
    TokenAuthenticator,
)

__all__ = ["ADMINISTRATOR", "Authenticator", "TokenAuthenticator"]
