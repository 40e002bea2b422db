# SPDX-License-Identifier: Apache-2.0
"""Addresses to listen on; without the HTTP library, so that commands which only check settings start fast."""

from trainwright.controller.runtime.errors import ConfigurationError


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`, `[v6]:port` or `:port` (all interfaces, empty host). Raises ConfigurationError."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ConfigurationError(f"{address!r} is not an address: write host:port, or :port for all interfaces")
    return host.strip("[]"), int(port)
