# SPDX-License-Identifier: Apache-2.0
"""Random operations on the store beside a model that keeps every change for ever; for a test and a soak program."""

import asyncio
import random
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from trainwright.controller.local.apiserver.store import (
    Changed,
    Expired,
    ObjectName,
    ObjectStore,
    StoredObject,
    StoreWatch,
)
from trainwright.controller.local.apiserver.store import store as store_module
from trainwright.controller.local.apiserver.store.store import HISTORY_SECONDS

COLLECTIONS = ("configmaps", "events", "jobs.batch")
NAMES = tuple(ObjectName(namespace, name) for namespace in ("a", "a-b", "b") for name in ("x", "x-y", "z"))


@dataclass(frozen=True)
class Known:
    """A change that the model remembers."""

    version: int
    type: str
    collection: str
    name: ObjectName
    body: bytes
    moment: float


@dataclass
class Findings:
    """What happened."""

    counts: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list)


class Comparison:
    """One sequence of operations."""

    def __init__(self, seed: int, folder: Path | None) -> None:
        self._random = random.Random(seed)
        self._room_is_short = self._random.random() < 0.5
        self._path = None if folder is None else folder / f"{seed}.db"
        self._clock = 1_000_000.0
        self._compacted = 0.0
        """The clock at the last compaction."""
        self._short = False
        """Whether room was short once: then anything may be forgotten."""
        self._changes: list[Known] = []
        self._objects: dict[tuple[str, ObjectName], StoredObject] = {}
        self._replaced: list[tuple[str, StoredObject]] = []
        """Objects that are not the current ones any more."""
        self._watches: dict[StoreWatch, tuple[str, int, list[Known]]] = {}
        self.findings = Findings()
        self._store = self._open()

    def _open(self) -> ObjectStore:
        return ObjectStore(self._path, now=lambda: self._clock)

    async def run(self, count: int) -> None:
        """Do so many operations and compare."""
        operations = {
            self._write: 40,
            self._delete: 15,
            self._write_stale: 8,
            self._list: 20,
            self._watch: 6,
            self._take: 12,
            self._pass_time: 8,
            self._compact: 3,
            self._restart: 1 if self._path else 0,
        }
        for chosen in self._random.choices(list(operations), list(operations.values()), k=count):
            await chosen()
            # Commits begin with the next turn of the loop.
            await asyncio.sleep(0)
        await self._store.committed()
        for watch in list(self._watches):
            await self._end(watch)
        await self._store.close()

    # ------------------------------------------------------------------ operations

    async def _write(self) -> None:
        collection, name = self._random.choice(COLLECTIONS), self._random.choice(NAMES)
        before = self._objects.get((collection, name))
        one = self._store.write(collection, name, self._document(name), before)
        self._note("MODIFIED" if before else "ADDED", collection, one)
        if before is not None:
            self._replaced.append((collection, before))
        self._objects[collection, name] = one

    async def _delete(self) -> None:
        if not self._objects:
            return
        (collection, name), before = self._random.choice(list(self._objects.items()))
        last = self._store.delete(collection, before)
        del self._objects[collection, name]
        self._replaced.append((collection, before))
        self._note("DELETED", collection, last)

    async def _write_stale(self) -> None:
        """Write or delete something that is not there any more, or create what is there."""
        stale = self._random.choice(self._replaced) if self._replaced else None
        version = self._store.version
        try:
            if stale is not None and self._random.random() < 0.7:
                collection, before = stale
                if self._random.random() < 0.5:
                    self._store.delete(collection, before)
                else:
                    self._store.write(collection, before.name, self._document(before.name), before)
            elif self._objects:
                collection, name = self._random.choice(list(self._objects))
                self._store.write(collection, name, self._document(name), None)
            else:
                return
        except Changed:
            self._count("stale writes refused")
        else:
            self._wrong("a stale write was taken")
        if self._store.version != version:
            self._wrong("a refused write has a version")

    async def _list(self) -> None:
        collection, namespace = self._random.choice(COLLECTIONS), self._random.choice(("", "", "a", "a-b"))
        found = list(self._store.collection(collection).listed(namespace))
        self._count("lists")
        objects = {name: one for (of, name), one in self._objects.items() if of == collection}
        wanted = sorted((name.sort_key, name) for name in objects if namespace in ("", name.namespace))
        if found != [objects[name] for _, name in wanted]:
            self._wrong(f"{collection}: {[one.name for one in found]}, wanted {wanted}")
        elif found:
            after = self._random.choice(found)
            rest = list(self._store.collection(collection).listed(namespace, after.name.sort_key))
            if rest != found[found.index(after) + 1 :]:
                self._wrong(f"{collection} after {after.name}: {rest}")
        version = self._any_version()
        changed = any(change.version > version for change in self._of(collection))
        if self._store.changed_since(collection, version) != changed and not self._short:
            self._wrong(f"{collection} changed after {version}: {not changed}")

    async def _watch(self) -> None:
        collection, since = self._random.choice(COLLECTIONS), self._any_version()
        try:
            watch = self._store.watch(collection, since)
        except Expired:
            self._expired(since, "watch")
            return
        self._watches[watch] = (collection, since, [])

    async def _take(self) -> None:
        if not self._watches:
            return
        watch = self._random.choice(list(self._watches))
        await self._read(watch)
        if self._random.random() < 0.3:
            await self._store.committed()
            await self._end(watch)

    async def _pass_time(self) -> None:
        self._clock += self._random.choice((0.1, 1.0, 30.0, 120.0, HISTORY_SECONDS))

    async def _compact(self) -> None:
        if self._room_is_short and self._random.random() < 0.2:
            # As if there were too much history for the room that it has.
            with mock.patch.object(store_module, "HISTORY_BYTES", self._random.choice((2_000, 10_000))):
                await self._store.compact()
            self._short = True
        else:
            await self._store.compact()
        self._compacted = self._clock
        self._count("compactions")

    async def _restart(self) -> None:
        await self._store.committed()
        for watch in list(self._watches):
            await self._end(watch)
        version = self._store.version
        await self._store.close()
        self._store = self._open()
        self._count("restarts")
        if self._store.version != version:
            self._wrong(f"version {self._store.version} after a restart, {version} before")
        for (collection, name), before in self._objects.items():
            found = self._store.get(collection, name)
            if found is None or (found.version, found.body) != (before.version, before.body):
                self._wrong(f"{collection} {name} is not what it was before a restart")
            else:
                self._objects[collection, name] = found
        self._replaced.clear()

    # ------------------------------------------------------------------ comparing

    async def _read(self, watch: StoreWatch) -> None:
        for change in await watch.take(0.0):
            made = Known(change.version, change.type, change.collection, change.name, change.object.body, change.moment)
            self._watches[watch][2].append(made)

    async def _end(self, watch: StoreWatch) -> None:
        await self._read(watch)
        collection, since, seen = self._watches.pop(watch)
        self._store.unwatch(collection, watch)
        self._count("watches")
        wanted = [change for change in self._of(collection) if change.version > since]
        if seen != wanted:
            told = [(change.version, change.type) for change in seen]
            self._wrong(f"a watch of {collection} from {since} told {told}, wanted {len(wanted)} changes")

    def _expired(self, version: int, what: str) -> None:
        """Refusing is right only for what is older than a change that compaction may forget."""
        self._count(f"{what} of a version that is too old")
        if self._short:
            return
        forgettable = [one.version for one in self._changes if one.moment < self._compacted - HISTORY_SECONDS]
        if not forgettable or version >= forgettable[-1]:
            self._wrong(f"{what} at {version} is said to be too old, {forgettable[-1:]} may be forgotten")

    def _any_version(self) -> int:
        newest = self._store.version
        return self._random.choice((newest, self._random.randint(max(1, newest - 30), newest)))

    def _of(self, collection: str) -> list[Known]:
        return [change for change in self._changes if change.collection == collection]

    def _document(self, name: ObjectName) -> dict[str, object]:
        metadata = {"name": name.name, "namespace": name.namespace}
        number = str(self._random.getrandbits(30))
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"n": number}}

    def _note(self, kind: str, collection: str, one: StoredObject) -> None:
        self._count("writes")
        newest = self._changes[-1].version if self._changes else 1
        if one.version != newest + 1:
            self._wrong(f"version {one.version} comes after {newest}")
        self._changes.append(Known(one.version, kind, collection, one.name, one.body, self._clock))

    def _count(self, what: str) -> None:
        self.findings.counts[what] += 1

    def _wrong(self, what: str) -> None:
        self.findings.wrong.append(what)


def compare(seed: int, operations: int, *, durable: bool) -> Findings:
    """Run one sequence; a durable store is closed and opened from its file now and then."""
    with tempfile.TemporaryDirectory() as folder:

        async def run() -> Findings:
            comparison = Comparison(seed, Path(folder) if durable else None)
            await comparison.run(operations)
            return comparison.findings

        return asyncio.run(run())
