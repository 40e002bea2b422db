# SPDX-License-Identifier: Apache-2.0
"""Which occurrences become writes (E-1 to E-5, E-11 to E-13), without I/O and with the time given.

In this order: from the tenth different note of one kind of event on, all become one combined event; a repetition is
counted instead of created, and only the first of them is written at once; per object and type a bucket of 25, refilled
with one per five minutes, limits the writes. Everything kept is bounded; what falls out is written a last time.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from trainwright.api.times import format_micro_time
from trainwright.controller.runtime.events.occurrence import NOTE_BYTES, Occurrence, Reference, cut, event_name
from trainwright.controller.runtime.objects import Document

DIFFERENT_NOTES = 10
"""From this one on they are combined."""
COMBINED_SECONDS = 600.0
"""Of silence, after which notes are told apart again."""
COMBINED = "(combined from similar events): "
BURST = 25
REFILL_SECONDS = 300.0
ENTRIES = 4096
"""Kept of each kind at most."""
FORGET_SECONDS = 360.0
REFRESH_SECONDS = 1800.0


@dataclass(slots=True, eq=False)
class Series:
    """One event and how often it occurred."""

    name: str
    namespace: str
    document: Document
    count: int = 1
    written: int = 0
    """The count that the API server knows; 0: nothing was written yet."""
    observed: str = ""
    """When it occurred last, wire form."""
    seen: float = 0.0
    """The same by the caller's clock."""

    @property
    def full(self) -> Document:
        """The whole event, for a create."""
        document = {**self.document, "metadata": {"name": self.name, "namespace": self.namespace}}
        return {**document, **self.progress} if self.count > 1 else document

    @property
    def progress(self) -> Document:
        """What a repetition changes, for a patch."""
        return {"series": {"count": self.count, "lastObservedTime": self.observed}}


class _Kind(NamedTuple):
    """What events have in common that differ in their note."""

    regarding: Reference
    related: Reference | None
    type: str
    reason: str
    action: str


@dataclass(slots=True)
class _Notes:
    different: set[str] = field(default_factory=set)
    seen: float = 0.0


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Correlator:
    """Decides; the recorder writes."""

    def __init__(self, controller: str, instance: str) -> None:
        self._source = {"reportingController": controller, "reportingInstance": instance}
        self._notes: OrderedDict[_Kind, _Notes] = OrderedDict()
        self._series: OrderedDict[tuple[_Kind, str], Series] = OrderedDict()
        self._buckets: OrderedDict[tuple[Reference, str], _Bucket] = OrderedDict()
        self.refused = 0
        """Occurrences that the bucket kept from being written."""

    def take(self, occurrence: Occurrence, now: float, wall: datetime) -> list[Series]:
        """One occurrence; gives what to write because of it, usually one series or none."""
        kind = _Kind(*occurrence[:5])
        note = self._note(kind, occurrence.note, now)
        key = (kind, COMBINED if note.startswith(COMBINED) else note)
        series = self._series.get(key)
        if series is not None:
            self._series.move_to_end(key)
            series.count += 1
            series.seen, series.observed = now, format_micro_time(wall)
            return [series] if series.count == 2 and self._passes(kind, now) else []
        if not self._passes(kind, now):
            return []
        made = self._make(kind, note, now, wall)
        self._series[key] = made
        return [made, *self._crowded_out()]

    def due(self, now: float, *, refresh: bool = False, final: bool = False) -> list[Series]:
        """What to write because time passed. `refresh`: every series that grew; `final`: the same, and forget all."""
        grown = []
        for key, series in list(self._series.items()):
            old = now - series.seen >= FORGET_SECONDS
            if (old or refresh or final) and series.written and series.count > max(series.written, 1):
                grown.append(series)
            if old or final:
                del self._series[key]
        return grown

    def forget(self, series: Series) -> None:
        """It could not be written: let the next occurrence try anew."""
        for key, held in list(self._series.items()):
            if held is series:
                del self._series[key]

    def _note(self, kind: _Kind, note: str, now: float) -> str:
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

    def _passes(self, kind: _Kind, now: float) -> bool:
        key = (kind.regarding, kind.type)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(BURST, now)
            if len(self._buckets) > ENTRIES:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.at) / REFILL_SECONDS)
        bucket.at = now
        if bucket.tokens < 1:
            self.refused += 1
            return False
        bucket.tokens -= 1
        return True

    def _make(self, kind: _Kind, note: str, now: float, wall: datetime) -> Series:
        moment = format_micro_time(wall)
        document: Document = {
            "eventTime": moment,
            **self._source,
            "type": kind.type,
            "reason": kind.reason,
            "action": kind.action,
            "note": note,
            "regarding": kind.regarding.document,
        }
        if kind.related is not None:
            document["related"] = kind.related.document
        namespace = kind.regarding.namespace or "default"
        return Series(event_name(kind.regarding.name), namespace, document, observed=moment, seen=now)

    def _crowded_out(self) -> list[Series]:
        if len(self._series) <= ENTRIES:
            return []
        _, oldest = self._series.popitem(last=False)
        return [oldest] if oldest.written and oldest.count > oldest.written else []
