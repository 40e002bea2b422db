# SPDX-License-Identifier: Apache-2.0
"""What this process remembers of each TrainJob: one record a job, in which each room keeps a part of its own type.

A record begins with the first part and ends with its job, whoever made the parts: `JobRecords` follows the TrainJobs of
the cache, and a job that is made again under its name gets a new record. A memory saves work and delays reports; no
decision depends on it. After a restart it is empty, and the same decisions follow a few seconds later.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from trainwright.api.objects import AnyObject, Key, uid_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Event
from trainwright.controller.runtime.cache.cache import Cache
from trainwright.controller.runtime.cache.informer import Informer

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
