# SPDX-License-Identifier: Apache-2.0
"""Reads the audit log of the API server: which user called what, and how often.

The API server writes a line before it answers (blocking mode), so an answered call is in the log. A watch is logged at
its start and at its end; `ResponseStarted` marks the start.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

_DECISION = "authorization.k8s.io/decision"
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class AuditedCall:
    """One request that the API server answered, or one watch that it started."""

    verb: str
    """Kubernetes' verb, lower case: get, list, watch, create, update, patch, delete, deletecollection."""
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    user_agent: str
    uri: str
    """Path and query."""
    code: int
    """HTTP status of the answer."""
    time: str
    """Time of the answer, RFC 3339 with microseconds."""
    decision: str
    """Of the authorizer: allow or forbid. Admission can refuse with 403 what the authorizer allowed."""

    @property
    def is_write(self) -> bool:
        return self.verb in _WRITES


class AuditLog:
    """The audit log of one control plane. Each call reads the file again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def calls(self, *, user_agent: str = "", user: str = "") -> Iterator[AuditedCall]:
        """Calls so far, oldest first.

        Args:
            user_agent: only calls whose user agent starts with this.
            user: only calls of this user.
        """
        if not self.path.exists():
            return
        with self.path.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    return  # being written at this moment
                event = msgspec.json.decode(line)
                agent, name = event.get("userAgent", ""), event["user"].get("username", "")
                if not agent.startswith(user_agent) or (user and name != user):
                    continue
                if (event["stage"] == "ResponseStarted") != (event["verb"] == "watch"):
                    continue
                reference = event.get("objectRef") or {}
                yield AuditedCall(
                    verb=event["verb"],
                    group=reference.get("apiGroup", ""),
                    resource=reference.get("resource", ""),
                    subresource=reference.get("subresource", ""),
                    namespace=reference.get("namespace", ""),
                    name=reference.get("name", ""),
                    user=name,
                    user_agent=agent,
                    uri=event["requestURI"],
                    code=(event.get("responseStatus") or {}).get("code", 0),
                    time=event["stageTimestamp"],
                    decision=event.get("annotations", {}).get(_DECISION, ""),
                )
