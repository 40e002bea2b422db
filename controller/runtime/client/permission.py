# SPDX-License-Identifier: Apache-2.0
"""Who may write at this moment: asked at the last step before a mutating request leaves (leader election).

The permission is a context variable, so that whatever leader-elected work starts, and only that, carries it. The client
asks when a write begins; the transport asks again when the bytes are handed to the socket, since a request may have
waited in between: for a connection, for a retry that the server asked for, or because the process was stopped.
"""

from contextvars import ContextVar
from typing import Protocol

READS = frozenset({"GET", "HEAD"})
"""Methods that need no permission."""


class WritePermission(Protocol):
    """What allows a context to write."""

    def check(self) -> None:
        """Raises NotLeading if a write must not be sent now."""
        ...

    def remaining(self) -> float:
        """Seconds after which a request that was sent must have ended."""
        ...


permission: ContextVar[WritePermission | None] = ContextVar("write-permission", default=None)
"""None: this context needs no permission."""
