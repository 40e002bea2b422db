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


class _Reference(msgspec.Struct):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    apiGroup: str = ""  # noqa: N815 - wire name


class _Status(msgspec.Struct):
    code: int = 0


class _User(msgspec.Struct):
    username: str = ""


class _Event(msgspec.Struct):
    stage: str
    verb: str
    requestURI: str  # noqa: N815 - wire name
    stageTimestamp: str  # noqa: N815 - wire name
    user: _User
    userAgent: str = ""  # noqa: N815 - wire name
    objectRef: _Reference | None = None  # noqa: N815 - wire name
    responseStatus: _Status | None = None  # noqa: N815 - wire name
    annotations: dict[str, str] = {}


_DECODER = msgspec.json.Decoder(_Event)


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
                event = _DECODER.decode(line)
                if not event.userAgent.startswith(user_agent) or (user and event.user.username != user):
                    continue
                if (event.stage == "ResponseStarted") != (event.verb == "watch"):
                    continue
                reference = event.objectRef or _Reference()
                yield AuditedCall(
                    verb=event.verb,
                    group=reference.apiGroup,
                    resource=reference.resource,
                    subresource=reference.subresource,
                    namespace=reference.namespace,
                    name=reference.name,
                    user=event.user.username,
                    user_agent=event.userAgent,
                    uri=event.requestURI,
                    code=event.responseStatus.code if event.responseStatus else 0,
                    time=event.stageTimestamp,
                    decision=event.annotations.get(_DECISION, ""),
                )
