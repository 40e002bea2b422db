# SPDX-License-Identifier: Apache-2.0
"""Chooses how a client authenticates: token, token file, basic authentication, or an external program."""

import base64

from trainwright.controller.runtime.client.config import ClusterConfig
from trainwright.controller.runtime.client.credentials import Authorization, StaticAuthorization, TokenFile


def authorization_of(config: ClusterConfig) -> Authorization:
    """The authorization that a configuration asks for."""
    if config.external is not None:
        from trainwright.controller.runtime.client.external import (  # noqa: PLC0415 - costs 0.6 s and 40 MB
            ExternalAuthorization,
        )

        return ExternalAuthorization(config.external)
    if config.token_file:
        return TokenFile(config.token_file)
    if config.token:
        return StaticAuthorization(f"Bearer {config.token}")
    if config.username:
        pair = f"{config.username}:{config.password or ''}".encode()
        return StaticAuthorization("Basic " + base64.b64encode(pair).decode())
    return StaticAuthorization(None)
