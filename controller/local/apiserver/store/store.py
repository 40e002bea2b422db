# SPDX-License-Identifier: Apache-2.0
"""The store of a cluster."""

import asyncio
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import cast

from trainwright.api import times
from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.store.disk import ChangeRow, Disk, StateLostError, is_full
from trainwright.controller.local.apiserver.store.objects import (
    ChangeType,
    Collection,
    ObjectName,
    StoreChange,
    StoredObject,
    StoreWatch,
    stored,
)

log = logging.getLogger(__name__)

HISTORY_SECONDS = 300.0
"""How long a change is kept at least, as long as there is room: the interval of the real server's compaction."""
HISTORY_BYTES = 64 * 2**20
"""What history may hold at most."""
_SLICE = 500
"""Changes that are forgotten in one turn of the event loop."""
_ROOM_SECONDS = 1.0
"""How often a commit is tried again while the disk is full."""
_BEGINNING = 1
"""The version of a new etcd."""


class Changed(Exception):  # noqa: N818 - an outcome, not a defect
    """The object is not the expected one any more."""


class Expired(Exception):  # noqa: N818 - an outcome, not a defect
    """The version is older than the history, which begins with the oldest."""

    def __init__(self, version: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {version} ({oldest})")


class ObjectStore:
    """All objects of a cluster.

    Writes take effect at once, in the order of the calls; `committed` tells when they are durable. Watches are told
    after that, never before.

    Args:
        path: of the state file; None keeps everything in memory.
        now: the time of changes, in seconds since the epoch.
        first: the version that a store without objects has.
        observe: called with each change once it is durable, before any watch is told.

    Raises:
        StateFileError: the state file cannot be used.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        now: Callable[[], float] = time.time,
        first: int = 1,
        observe: Callable[[StoreChange], None] | None = None,
    ) -> None:
        self._now = now
        self._observe = observe
        self._first = first
        self._version = self._notified = first
        self._collections: dict[str, Collection] = {}
        self._history: deque[StoreChange] = deque()
        self._history_bytes = 0
        self._oldest = first
        self._uncommitted: list[StoreChange] = []
        self._commit: asyncio.Future[None] | None = None
        self._next_commit: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None
        self._has_written = self._full = self._closing = False
        self._retry: asyncio.TimerHandle | None = None
        """Of a commit that waits for room on the disk."""
        self._failed = asyncio.Event()
        self._disk: Disk | None = None
        self._writer: ThreadPoolExecutor | None = None
        if path is not None:
            self._disk = Disk(path)
            self._writer = ThreadPoolExecutor(1, "store")
            self._load(self._disk)

    def _load(self, disk: Disk) -> None:
        for row in disk.objects():
            self.collection(row.collection).put(
                StoredObject(ObjectName(row.namespace, row.name), row.version, row.body)
            )
            self._version = max(self._version, row.version)
        oldest = None
        for change in disk.changes():
            oldest = change.version if oldest is None else oldest
            self._version = max(self._version, change.version)
            self._remember(_change_of(change))
        # Objects that were written before the history began.
        self._oldest = self._version if oldest is None else oldest - 1
        self._notified = self._version
        for collection in self._collections.values():
            collection.forgotten = max(collection.forgotten, self._oldest)

    def begin_with(self, objects: Iterable[tuple[str, StoredObject]]) -> None:
        """Take over the objects of another store, by collection; for a store in memory without any write."""
        assert self._disk is None
        assert not self._history
        for collection, one in objects:
            self.collection(collection).put(one)
            self._version = max(self._version, one.version)
        self._notified = self._oldest = self._version
        for made in self._collections.values():
            made.forgotten = self._version

    # ------------------------------------------------------------------ reading

    @property
    def version(self) -> int:
        """The version of the cluster: that of the newest change."""
        return self._version

    @property
    def notified_revision(self) -> int:
        """The version up to which everything was told to those who watch."""
        return self._notified

    def collections(self) -> list[str]:
        return list(self._collections)

    def objects(self) -> Iterator[tuple[str, StoredObject]]:
        for name, collection in self._collections.items():
            yield from ((name, one) for one in collection.by_name.values())

    def collection(self, name: str) -> Collection:
        """A collection, by a name such as `jobs.batch`; made if it is not there."""
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = Collection(name, self._oldest)
        return found

    def get(self, collection: str, name: ObjectName) -> StoredObject | None:
        return self.collection(collection).by_name.get(name)

    def document(self, collection: str, name: str, namespace: str = "") -> Document | None:
        found = self.get(collection, ObjectName(namespace, name))
        return None if found is None else found.document()

    def documents(self, collection: str, namespace: str = "") -> list[Document]:
        return [one.document() for one in self.collection(collection).listed(namespace)]

    def changed_since(self, collection: str, version: int) -> bool:
        """Whether an object of a collection changed, or may have changed, after a version."""
        current = self.collection(collection)
        version = self._from_the_beginning(version)
        return version < current.forgotten or (bool(current.history) and current.history[-1].version > version)

    def watch(self, collection: str, since: int) -> StoreWatch:
        """The changes of a collection after a version; close with `unwatch`. Raises Expired if that is too long ago."""
        current = self.collection(collection)
        since = self._from_the_beginning(since)
        if since < current.forgotten:
            raise Expired(since, current.forgotten)
        missed: list[StoreChange] = []
        for change in reversed(current.history):
            if change.version <= since:
                break
            if change.version <= self._notified:
                missed.append(change)
        watch = StoreWatch(since, reversed(missed))
        current.watches[watch] = None
        return watch

    def _from_the_beginning(self, version: int) -> int:
        """Version 1 is that of a store without any write, whatever number this one begins with."""
        return self._first if version == _BEGINNING else version

    def unwatch(self, collection: str, watch: StoreWatch) -> None:
        watch.close()
        self.collection(collection).watches.pop(watch, None)

    # ------------------------------------------------------------------ writing

    def write(
        self, collection: str, name: ObjectName, document: Document, expected: StoredObject | None
    ) -> StoredObject:
        """Create or replace an object, which gets its version; `expected` is what is there, None for a creation.

        Raises Changed if something else is there, ObjectTooLarge for too many bytes.
        """
        target = self.collection(collection)
        if target.by_name.get(name) is not expected:
            raise Changed
        self._check()
        one = stored(name, self._version + 1, document)
        self._version += 1
        target.put(one)
        self._note(StoreChange("ADDED" if expected is None else "MODIFIED", collection, one, expected, self._now()))
        return one

    def delete(self, collection: str, expected: StoredObject) -> StoredObject:
        """Delete an object. Returns its last state with the version of the deletion. Raises Changed for another one."""
        target = self.collection(collection)
        if target.by_name.get(expected.name) is not expected:
            raise Changed
        self._check()
        self._version += 1
        last = stored(expected.name, self._version, expected.document())
        target.drop(expected.name)
        self._note(StoreChange("DELETED", collection, last, expected, self._now()))
        return last

    async def committed(self, version: int | None = None) -> None:
        """Return when everything up to a version, by default that of now, is durable, and told to those who watch.

        Who read something waits with its version before it passes it on.
        """
        wanted = self._version if version is None else version
        while self._notified < wanted and self._failure is None:
            waiting = self._commit or self._next_commit
            if waiting is None:
                break
            await asyncio.shield(waiting)
        self._check()

    async def watch_file(self) -> None:
        """Wait until the state file cannot be written. Raises StateLostError then."""
        await self._failed.wait()
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            assert self._disk is not None
            raise StateLostError(
                f"{self._disk.path} cannot be written ({self._failure}), so the cluster ends: make room and start it "
                "again; what was answered is kept"
            ) from self._failure

    def _note(self, change: StoreChange) -> None:
        self._remember(change)
        if self._disk is None:
            self._tell(change)
            return
        self._uncommitted.append(change)
        if self._next_commit is None:
            loop = asyncio.get_running_loop()
            self._next_commit = loop.create_future()
            if self._commit is None:
                loop.call_soon(self._begin_commit)

    def _begin_commit(self) -> None:
        assert self._writer is not None
        assert self._disk is not None
        self._commit, self._next_commit = self._next_commit, None
        self._write_file([_row_of(change) for change in self._uncommitted])

    def _write_file(self, batch: list[ChangeRow]) -> None:
        assert self._writer is not None
        assert self._disk is not None
        self._retry = None
        loop = asyncio.get_running_loop()
        written = self._writer.submit(self._disk.commit, batch)
        written.add_done_callback(lambda done: loop.call_soon_threadsafe(self._end_commit, batch, done.exception()))

    def _end_commit(self, batch: list[ChangeRow], error: BaseException | None) -> None:
        # A cluster that starts without room ends with a sentence instead: nothing of it runs yet.
        if is_full(error) and self._has_written and not self._closing:
            self._wait_for_room(batch)
            return
        self._full = False
        self._has_written = self._has_written or error is None
        count = len(batch)
        done, self._commit = self._commit, None
        told, self._uncommitted = self._uncommitted[:count], self._uncommitted[count:]
        if error is not None:
            # What was not written must not be believed: nothing is answered any more.
            self._failure = error
            self._failed.set()
        else:
            for change in told:
                self._tell(change)
        if done is not None and not done.done():
            done.set_result(None)
        # After a failure what waits must not be written either: it was made from what the file does not have.
        if self._next_commit is not None and self._failure is None:
            self._begin_commit()

    def _wait_for_room(self, batch: list[ChangeRow]) -> None:
        """Try again until there is room. Whoever wrote waits for the answer, and who reads what is told does not."""
        if not self._full:
            assert self._disk is not None
            log.error("the disk of %s is full: writes wait until there is room", self._disk.path)
        self._full = True
        self._retry = asyncio.get_running_loop().call_later(_ROOM_SECONDS, self._write_file, batch)

    def _tell(self, change: StoreChange) -> None:
        self._notified = change.version
        if self._observe is not None:
            self._observe(change)
        for watch in self.collection(change.collection).watches:
            watch.offer(change)

    # ------------------------------------------------------------------ history

    def _remember(self, change: StoreChange) -> None:
        self.collection(change.collection).history.append(change)
        self._history.append(change)
        self._history_bytes += change.size

    async def compact(self, *, keep: float = HISTORY_SECONDS) -> None:
        """Forget changes older than `keep` seconds, or too many. Called from time to time, never twice at once.

        It works in slices: between two of them the event loop answers requests, and the file takes their commits.
        """
        limit, done = self._now() - keep, 0
        while self._history and (self._history[0].moment < limit or self._history_bytes > HISTORY_BYTES):
            # What is not in the file yet cannot be taken out of it.
            if self._history[0].version > self._notified:
                break
            self._forget(self._history.popleft())
            done += 1
            if done % _SLICE == 0:
                await asyncio.sleep(0)
        if self._disk is None or self._writer is None:
            return
        loop = asyncio.get_running_loop()
        try:
            # Each slice waits behind the commits that came before it.
            while await loop.run_in_executor(self._writer, self._disk.forget, self._oldest):
                pass
        except (OSError, sqlite3.Error) as error:
            # Nothing is lost: the next compaction tries again, and until then the file grows.
            log.warning("old changes stay in the state file until the next compaction: %s", error)

    def _forget(self, change: StoreChange) -> None:
        collection = self.collection(change.collection)
        first = collection.history.popleft()
        assert first is change
        collection.forgotten = change.version
        self._history_bytes -= change.size
        self._oldest = max(self._oldest, change.version)

    # ------------------------------------------------------------------ the end

    async def close(self) -> None:
        """Write what waits, end all watches, close the file."""
        self._closing = True
        if self._retry is not None:
            # No answer has left for what waits, so nobody believes it.
            self._retry.cancel()
        elif self._disk is not None and self._failure is None:
            with suppress(StateLostError):  # told to those who wrote
                await self.committed()
        for collection in self._collections.values():
            for watch in list(collection.watches):
                watch.close()
        if self._writer is not None and self._disk is not None:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._disk.close)
            self._writer.shutdown()


def _row_of(change: StoreChange) -> ChangeRow:
    before = change.before
    return ChangeRow(
        change.version,
        change.type,
        change.collection,
        change.name.namespace,
        change.name.name,
        change.object.body,
        before.body if before else None,
        before.version if before else None,
        change.moment,
    )


def _change_of(row: ChangeRow) -> StoreChange:
    name = ObjectName(row.namespace, row.name)
    before = None if row.before is None else StoredObject(name, row.before_version or 0, row.before)
    return StoreChange(
        cast("ChangeType", row.type), row.collection, StoredObject(name, row.version, row.body), before, row.moment
    )


EVENT_LIFETIME = timedelta(hours=1)
_COLLECTION = "events"


def expire_events(store: ObjectStore, now: datetime) -> int:
    """Delete the events that nobody has written for their lifetime; returns how many."""
    old = [one for one in store.collection(_COLLECTION).listed() if now - _written(one.document()) >= EVENT_LIFETIME]
    for one in old:
        store.delete(_COLLECTION, one)
    return len(old)


def _written(event: Document) -> datetime:
    """When an event was written last. A series of events is written again for each further one."""
    series = event.get("series") or {}
    found = (
        event["metadata"]["creationTimestamp"],
        event.get("lastTimestamp"),
        event.get("eventTime"),
        series.get("lastObservedTime"),
    )
    return max(times.parse(moment) for moment in found if moment)
