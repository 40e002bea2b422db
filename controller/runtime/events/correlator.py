# SPDX-License-Identifier: Apache-2.0
"""Decides which occurrences become writes, as in client-go. No I/O; the time is a parameter.

1. From the tenth different note of one kind of event on, all notes become one combined event.
2. A repetition is counted instead of created; only the first repetition is written at once.
3. A bucket per object and type limits the writes: 25 at once, then one in five minutes.

All memory is bounded; a series that is dropped is written a last time. The reference to the object of an event has no
resourceVersion; with one, every occurrence would be about another object.
"""

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, NamedTuple, TypeAlias

from trainwright.api.objects import AnyObject, Document, name_of, namespace_of, uid_of
from trainwright.api.surroundings import new_uid, stamp
from trainwright.api.times import format_micro_time, format_time
from trainwright.controller.runtime.errors import ConfigurationError
from trainwright.controller.runtime.kinds import resource_of, type_name
from trainwright.controller.runtime.workqueue.limiters import TokenBucket

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


def event_object(obj: AnyObject) -> EventObject:
    """The reference to an object. Raises ConfigurationError where neither it nor its class says apiVersion and kind."""
    named = type_name(obj)
    if named is None:
        resource = resource_of(type(obj))
        named = resource.api_version, resource.kind
    api_version, kind = named
    if not api_version or not kind:
        raise ConfigurationError("the object of an event needs apiVersion and kind")
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


EPOCH = datetime.fromtimestamp(0, UTC)
DIFFERENT_NOTES = 10
"""Number of different notes from which they are combined."""
COMBINED_SECONDS = 600.0
"""Silence after which notes are no longer combined."""
COMBINED = "(combined from similar events): "
BURST = 25
REFILL_SECONDS = 300.0
ENTRIES = 4096
"""Maximum of entries in each memory."""
FORGET_SECONDS = 360.0
REFRESH_SECONDS = 1800.0


@dataclass(slots=True, eq=False)
class SeriesCount:
    """One event and its number of occurrences."""

    name: str
    namespace: str
    document: Document
    count: int = 1
    written: int = 0
    """The written count; 0: not written yet."""
    observed: datetime = EPOCH
    """Time of the last occurrence."""
    seen: float = 0.0
    """The same time by the clock of the caller."""

    @property
    def full(self) -> Document:
        """The whole event, for a create."""
        document = {**self.document, "metadata": {"name": self.name, "namespace": self.namespace}}
        return {**document, **self.progress} if self.count > 1 else document

    @property
    def progress(self) -> Document:
        """The changed fields after a repetition, for a patch."""
        return {
            "series": {"count": self.count, "lastObservedTime": format_micro_time(self.observed)},
            "count": self.count,
            "lastTimestamp": format_time(self.observed),
        }


@dataclass(slots=True)
class _Notes:
    different: set[str] = field(default_factory=set)
    seen: float = 0.0


class Correlator:
    """Decides what is written; the recorder writes."""

    def __init__(self, controller: str, instance: str) -> None:
        self._source = {
            "source": {"component": controller},
            "reportingComponent": controller,
            "reportingInstance": instance,
        }
        self._notes: OrderedDict[EventKind, _Notes] = OrderedDict()
        self._series: OrderedDict[tuple[EventKind, str], SeriesCount] = OrderedDict()
        self._buckets: OrderedDict[tuple[EventObject, str], TokenBucket] = OrderedDict()
        self._now = 0.0
        self.refused = 0
        """Occurrences that the rate limit refused."""

    def take(self, kind: EventKind, note: str, now: float, wall: datetime) -> list[SeriesCount]:
        """Take one occurrence; returns the series to write, usually one or none."""
        self._now = now
        note = self._note(kind, note, now)
        key = (kind, COMBINED if note.startswith(COMBINED) else note)
        series = self._series.get(key)
        if series is not None:
            self._series.move_to_end(key)
            series.count += 1
            series.seen, series.observed = now, wall
            return [series] if series.count == 2 and self._passes(kind) else []
        if not self._passes(kind):
            return []
        made = self._make(kind, note, now, wall)
        self._series[key] = made
        return [made, *self._crowded_out()]

    def due(self, now: float, *, refresh: bool = False, final: bool = False) -> list[SeriesCount]:
        """Series to write because time has passed. `refresh`: all that grew; `final`: the same, and forget all."""
        grown = []
        for key, series in list(self._series.items()):
            old = now - series.seen >= FORGET_SECONDS
            if (old or refresh or final) and series.written and series.count > max(series.written, 1):
                grown.append(series)
            if old or final:
                del self._series[key]
        return grown

    def forget(self, series: SeriesCount) -> None:
        """Forget a series that could not be written, so that the next occurrence is written."""
        for key, held in list(self._series.items()):
            if held is series:
                del self._series[key]

    def _note(self, kind: EventKind, note: str, now: float) -> str:
        notes = self._notes.get(kind)
        if notes is None or now - notes.seen > COMBINED_SECONDS:
            notes = self._notes[kind] = _Notes()
        self._notes.move_to_end(kind)
        if len(self._notes) > ENTRIES:
            self._notes.popitem(last=False)
        notes.seen = now
        if len(notes.different) < DIFFERENT_NOTES:
            notes.different.add(note)
        return cut(COMBINED + note, NOTE_BYTES) if len(notes.different) >= DIFFERENT_NOTES else note

    def _passes(self, kind: EventKind) -> bool:
        key = (kind.regarding, kind.type)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(1 / REFILL_SECONDS, BURST, time=lambda: self._now)
            if len(self._buckets) > ENTRIES:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        if bucket.delay_within(0.0) is None:
            self.refused += 1
            return False
        return True

    def _make(self, kind: EventKind, note: str, now: float, wall: datetime) -> SeriesCount:
        document: Document = {
            "eventTime": format_micro_time(wall),
            # For the many programs that know these alone, such as the Kubeflow SDK.
            "firstTimestamp": format_time(wall),
            "lastTimestamp": format_time(wall),
            "count": 1,
            **self._source,
            "type": kind.type,
            "reason": kind.reason,
            "action": kind.action,
            "message": note,
            "involvedObject": kind.regarding.document,
        }
        if kind.related is not None:
            document["related"] = kind.related.document
        namespace = kind.regarding.namespace or "default"
        return SeriesCount(event_name(kind.regarding.name), namespace, document, observed=wall, seen=now)

    def _crowded_out(self) -> list[SeriesCount]:
        if len(self._series) <= ENTRIES:
            return []
        _, oldest = self._series.popitem(last=False)
        return [oldest] if oldest.written and oldest.count > oldest.written else []
