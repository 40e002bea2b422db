# SPDX-License-Identifier: Apache-2.0
"""What happened to which object, cut to what the API server takes (E-8, E-9, E-11, E-15).

A reference never carries a resourceVersion: with one, no two occurrences would be of the same object.
"""

import re
import time
import uuid
from typing import Literal, NamedTuple, TypeAlias

from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.kinds import resource_of
from trainwright.controller.runtime.objects import AnyObject, Document, name_of, namespace_of, uid_of

EventType: TypeAlias = Literal["Normal", "Warning"]

TYPES = frozenset({"Normal", "Warning"})
NOTE_BYTES = 1024
WORD_BYTES = 128
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_LENGTH = 253
_last_moment = 0


class Reference(NamedTuple):
    """An object, as events name it."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def document(self) -> Document:
        """Wire form, without what is empty."""
        values = zip(("apiVersion", "kind", "namespace", "name", "uid"), self, strict=True)
        return {name: value for name, value in values if value}


class Occurrence(NamedTuple):
    """One event as it was recorded."""

    regarding: Reference
    related: Reference | None
    type: str
    reason: str
    action: str
    note: str


def reference_to(obj: AnyObject) -> Reference:
    """The reference to an object. Raises ConfigurationError for a dictionary without apiVersion and kind."""
    if isinstance(obj, dict):
        api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
        if not api_version or not kind:
            raise ConfigurationError("an event is about an object with apiVersion and kind")
    else:
        resource = resource_of(type(obj))
        api_version, kind = resource.api_version, resource.kind
    return Reference(api_version, kind, namespace_of(obj), name_of(obj), uid_of(obj))


def cut(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8, whole characters, with a mark where something is missing."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[: limit - 3].decode(errors="ignore") + "..."


def event_name(regarding: str) -> str:
    """A name that no other event has: the object's and a moment in hexadecimal (E-8)."""
    global _last_moment  # noqa: PLW0603 - the point is that it is one for the whole process
    _last_moment = max(_last_moment + 1, time.time_ns())
    name = f"{regarding}.{_last_moment:x}"
    if len(name) <= _NAME_LENGTH and _NAME.fullmatch(name):
        return name
    return f"event-{uuid.uuid4()}"
