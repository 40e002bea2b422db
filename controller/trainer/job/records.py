# SPDX-License-Identifier: Apache-2.0
"""What this process remembers of each TrainJob: one record a job, in which each room keeps a part of its own type.

A record begins with the first part and ends with its job, whoever made the parts: `JobRecords` follows the TrainJobs of
the cache, and a job that is made again under its name gets a new record. A memory saves work and delays reports; no
decision depends on it. After a restart it is empty, and the same decisions follow a few seconds later.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from trainwright.api.kubernetes.meta.v1 import Condition
from trainwright.api.objects import AnyObject, Key, uid_of
from trainwright.api.times import Now, wall_clock
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.api.trainer.v1alpha1.completion import had_pods
from trainwright.controller.runtime import Event, Trigger
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.cache.informer import Informer
from trainwright.controller.trainer.job.status import (
    CONDITION_STALLED,
    EXPLAINING,
    Finding,
    StateReason,
    entered,
    shows,
    state_of,
)
from trainwright.plugins.contract import JobState

T = TypeVar("T")


class JobRecord:
    __slots__ = ("_parts", "key", "uid")

    def __init__(self, key: Key, uid: str) -> None:
        self.key = key
        self.uid = uid
        self._parts: dict[type[Any], Any] = {}

    def get(self, kind: type[T]) -> T | None:
        return self._parts.get(kind)

    def part(self, kind: type[T], make: Callable[[], T] | None = None) -> T:
        """The part of this type; made by `make`, or without arguments, if there is none."""
        found: T | None = self._parts.get(kind)
        if found is None:
            found = self._parts[kind] = (make or kind)()
        return found

    def keep(self, part: T) -> T:
        """Keep a part in place of the one of its type."""
        self._parts[type(part)] = part
        return part

    def drop(self, kind: type[Any]) -> None:
        self._parts.pop(kind, None)

    def __bool__(self) -> bool:
        return bool(self._parts)


class JobRecords:
    """The records of all jobs, by key. The one place that finds out that a job is gone."""

    def __init__(self) -> None:
        self._records: dict[Key, JobRecord] = {}
        self._followers: list[Callable[[Event[AnyObject]], None]] = []
        self._leaving: list[Callable[[JobRecord], None]] = []
        self._informer: Informer | None = None

    def watch(self, cache: Cache) -> None:
        """Follow the TrainJobs of the cache. Call it before controllers are declared, which then see new records."""
        self._informer = cache.informer(TrainJob)
        self._informer.add_handler(self.handle, undecodable=True)

    def follow(
        self, changed: Callable[[Event[AnyObject]], None] | None = None, gone: Callable[[JobRecord], None] | None = None
    ) -> None:
        """Call these from now on; they must not block.

        `changed` is called for each event, after the record of a job that is gone has ended; `gone` for each record
        that ends, while it still has its parts.
        """
        if changed is not None:
            self._followers.append(changed)
        if gone is not None:
            self._leaving.append(gone)

    def handle(self, event: Event[AnyObject]) -> None:
        record = self._records.get(event.key)
        if record is not None and (event.new is None or uid_of(event.new) != record.uid):
            self.gone(record)
        for changed in self._followers:
            changed(event)

    def gone(self, record: JobRecord) -> None:
        """The job does not exist any longer."""
        if self._records.get(record.key) is record:
            del self._records[record.key]
            for gone in self._leaving:
                gone(record)

    def of(self, key: Key, uid: str, *, may_be_new: bool = False) -> JobRecord:
        """The record of the job with this uid, empty at first.

        A worker need not see that a job is gone: it may be deleted and made again before the worker takes its key, or
        while the worker waits for an answer. That worker gets a record that nobody keeps, since no event would end it.

        `may_be_new`: the job may be one that was read from the API server because the cache does not show it yet. Its
        record is kept, and whoever asks drops what it has put into it if the job turns out to be gone.
        """
        record = self._records.get(key)
        if record is not None and record.uid == uid:
            return record
        made = JobRecord(key, uid)
        if self._is_gone(key, uid, may_be_new=may_be_new):
            return made
        if record is not None:
            self.gone(record)
        self._records[key] = made
        return made

    def _is_gone(self, key: Key, uid: str, *, may_be_new: bool) -> bool:
        """Whether the cache shows that there is no such job, or another one."""
        if self._informer is None:
            return False
        store = self._informer.store
        job = store.get(key) or store.undecodable.get(key)
        return not may_be_new if job is None else uid_of(job) != uid

    def at(self, key: Key, kind: type[T]) -> T | None:
        """A part of the job with this key, as far as the cache has shown the job; None: there is none."""
        record = self._records.get(key)
        return record.get(kind) if record is not None else None

    def find(self, key: Key, uid: str, kind: type[T]) -> T | None:
        record = self._records.get(key)
        return record.get(kind) if record is not None and record.uid == uid else None

    def drop(self, key: Key, kind: type[Any]) -> None:
        """Forget a part of a job, and its record if that was all of it."""
        record = self._records.get(key)
        if record is not None:
            record.drop(kind)
            if not record:
                del self._records[key]

    def each(self, kind: type[T]) -> Iterator[T]:
        """The parts of this type. Nothing may be added or dropped meanwhile."""
        for record in self._records.values():
            part = record.get(kind)
            if part is not None:
                yield part

    def keys(self, kind: type[T], fits: Callable[[T], bool]) -> set[Key]:
        found = ((key, record.get(kind)) for key, record in self._records.items())
        return {key for key, part in found if part is not None and fits(part)}

    def __len__(self) -> int:
        return len(self._records)


FOUND = frozenset({*EXPLAINING, CONDITION_STALLED})
"""Types of all conditions that parts find."""


@dataclass(slots=True)
class _Unwritten:
    findings: dict[frozenset[str], Finding] = field(default_factory=dict)


class JobFindings:
    """What parts of the manager have found out about jobs, for the one controller that writes conditions.

    A part says which of its conditions a job should have, and the TrainJob's controller is triggered. What is kept is
    only what the job does not show yet: a part that has said nothing of a job leaves its conditions as they are, so a
    manager that has just started writes nothing. Conditions whose part is off are removed. Declare the parts before the
    manager runs.
    """

    def __init__(self, records: JobRecords) -> None:
        self._records = records
        self._absent = FOUND
        self.changed = Trigger("finding")
        """Queues a job whose conditions are to change."""

    def source(self, types: Collection[str]) -> "FindingSource":
        """What the part that finds conditions of these types says them with."""
        own = frozenset(types)
        self._absent -= own
        return FindingSource(self, own)

    def of(self, job: TrainJob) -> tuple[Finding, ...]:
        """What is to be written for the job, as far as it is known."""
        unwritten = self._records.find(Key(job.namespace, job.name), uid_of(job), _Unwritten)
        known = tuple(unwritten.findings.values()) if unwritten is not None else ()
        return (*known, Finding(self._absent, None)) if self._absent else known

    def say(self, job: TrainJob, finding: Finding) -> bool:
        """Returns whether this is new: neither written nor said before."""
        key, uid = Key(job.namespace, job.name), uid_of(job)
        unwritten = self._records.find(key, uid, _Unwritten)
        before = unwritten.findings.get(finding.types) if unwritten is not None else None
        if shows(job.status_or_empty.conditions or (), finding):
            if unwritten is not None and before is not None:
                del unwritten.findings[finding.types]
                if not unwritten.findings:
                    self._records.drop(key, _Unwritten)
            return False
        self._records.of(key, uid).part(_Unwritten).findings[finding.types] = finding
        if finding == before:
            return False
        self.changed(key)
        return True


@dataclass(frozen=True, slots=True)
class FindingSource:
    _findings: JobFindings
    types: frozenset[str]

    def say(self, job: TrainJob, condition: Condition | None) -> bool:
        """The job has this condition of those of the part; None: it has none of them. Returns whether that is new."""
        return self._findings.say(job, Finding(self.types, condition))


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One change of a job's state or reason, as this process saw it."""

    key: Key
    job: TrainJob
    """The job as it is now, or as it was last if it is gone."""
    before: StateReason | None
    """None: this process sees the job for the first time."""
    after: StateReason | None
    """None: the job is gone, or can no longer be decoded."""
    seconds: float | None = None
    """How long the job was in the state that it left. None: it left none, or when it entered is not known."""
    first_pod_seconds: float | None = None
    """Seconds from its creation or last resume to its first pod. None unless this change is its first pod."""


Listener: TypeAlias = Callable[[Transition], None]


@dataclass(slots=True)
class _Seen:
    job: TrainJob
    found: StateReason
    since: datetime | None
    """When it entered its state, if that is known."""
    had_pods: bool


class JobStates:
    """The one place that sees every change of a job's state: add a listener to act on it.

    Listeners are called once for each change, on every replica, whether or not it leads.
    """

    def __init__(self, records: JobRecords, *, now: Now = wall_clock) -> None:
        self._now = now
        self._records = records
        self._listeners: list[Listener] = []
        records.follow(self._handle, self._gone)

    def listen(self, listener: Listener) -> None:
        """Call `listener` for each transition from now on; it must not block and must not raise."""
        self._listeners.append(listener)

    def _handle(self, event: Event[AnyObject]) -> None:
        job = event.new
        if job is None:
            return
        record = self._records.of(event.key, uid_of(job))
        if not isinstance(job, TrainJob):
            self._gone(record)  # it can no longer be decoded
            return
        seen = record.get(_Seen)
        if seen is None:
            self._first_seen(record, job)
            return
        seen.job = job
        self._look(event.key, seen, state_of(job))

    def _gone(self, record: JobRecord) -> None:
        seen = record.get(_Seen)
        if seen is not None:
            record.drop(_Seen)
            self._tell(Transition(key=record.key, job=seen.job, before=seen.found, after=None))

    def _first_seen(self, record: JobRecord, job: TrainJob) -> None:
        found = state_of(job)
        # When a job of another state had its first pod is not known.
        counts = had_pods(job) if found.state.is_active else found.state is not JobState.SUSPENDED
        record.keep(_Seen(job, found, entered(job, found.state), counts))
        self._tell(Transition(key=record.key, job=job, before=None, after=found))

    def _look(self, key: Key, seen: _Seen, after: StateReason) -> None:
        before, now, spent, first_pod = seen.found, self._now(), None, None
        if after.state is JobState.SUSPENDED:
            seen.had_pods = False
        elif after.state.is_active and had_pods(seen.job) and not seen.had_pods:
            seen.had_pods = True
            first_pod = _seconds(entered(seen.job, JobState.PENDING), now)
        if before[:2] == after[:2] and first_pod is None:
            return
        if before.state is not after.state:
            spent, seen.since = _seconds(seen.since, now), now
        seen.found = after
        self._tell(
            Transition(key=key, job=seen.job, before=before, after=after, seconds=spent, first_pod_seconds=first_pod)
        )

    def _tell(self, transition: Transition) -> None:
        for listener in self._listeners:
            listener(transition)


def _seconds(since: datetime | None, now: datetime) -> float | None:
    return None if since is None else max(0.0, (now - since).total_seconds())
