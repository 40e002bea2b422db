# SPDX-License-Identifier: Apache-2.0
"""Permission to write, checked as the last step before a mutating request is sent (leader election).

The permission is a context variable, so only leader-elected work and the tasks that it starts carry it. The client
checks it when a write begins. The transport checks it again when the bytes are handed to the socket, because the
request may have waited in between: for a connection, for a retry, or because the process was stopped.
"""

from contextvars import ContextVar
from typing import Protocol

READS = frozenset({"GET", "HEAD"})
"""Methods that need no permission."""


class WritePermission(Protocol):
    """Allows a context to write."""

    def check(self) -> None:
        """Raise NotLeading if a write must not be sent now."""
        ...

    def remaining(self) -> float:
        """Seconds within which a request must have ended."""
        ...


permission: ContextVar[WritePermission | None] = ContextVar("write-permission", default=None)
"""The permission of this context; None: not needed."""
