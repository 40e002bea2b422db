# SPDX-License-Identifier: Apache-2.0
"""One occurrence of an event, cut to the limits of the API server.

The reference to the object has no resourceVersion; with one, every occurrence would be about another object.
"""

import re
from typing import Literal, NamedTuple, TypeAlias

from trainwright.api.objects import AnyObject, Document, name_of, namespace_of, uid_of
from trainwright.api.surroundings import new_uid, stamp
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.kinds import resource_of

NormalOrWarning: TypeAlias = Literal["Normal", "Warning"]

TYPES = frozenset({"Normal", "Warning"})
NOTE_BYTES = 1024
WORD_BYTES = 128
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_LENGTH = 253


class EventObject(NamedTuple):
    """A reference to an object in an event."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def document(self) -> Document:
        """Wire form without empty fields."""
        values = zip(("apiVersion", "kind", "namespace", "name", "uid"), self, strict=True)
        return {name: value for name, value in values if value}


class EventKind(NamedTuple):
    """Common fields of events that differ only in their note."""

    regarding: EventObject
    related: EventObject | None
    type: str
    reason: str
    action: str


class Occurrence(NamedTuple):
    kind: EventKind
    note: str


def event_object(obj: AnyObject) -> EventObject:
    """The reference to an object. Raises ConfigurationError for a dictionary without apiVersion and kind."""
    if isinstance(obj, dict):
        api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
        if not api_version or not kind:
            raise ConfigurationError("the object of an event needs apiVersion and kind")
    else:
        resource = resource_of(type(obj))
        api_version, kind = resource.api_version, resource.kind
    return EventObject(api_version, kind, namespace_of(obj), name_of(obj), uid_of(obj))


def cut(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8 in whole characters; a cut text ends with `...`."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[: limit - 3].decode(errors="ignore") + "..."


def event_name(regarding: str) -> str:
    """A unique name for an event: the name of the object and a time in hexadecimal, as in client-go."""
    name = f"{regarding}.{stamp():x}"
    if len(name) <= _NAME_LENGTH and _NAME.fullmatch(name):
        return name
    return f"event-{new_uid()}"
