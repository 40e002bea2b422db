# SPDX-License-Identifier: Apache-2.0
"""The reports of whole runs, kept for as long as their job, in a file beside the database of a local cluster.

`append` takes a report, `read` gives the run of a job, `forget` deletes it. A run has a bounded number of rows: when
there are too many, rows are joined two by two. A joined row keeps what a chart must not lose: the last value of each
metric, the lowest and the highest one, and whether one was not finite. Rows of different attempts, and of before and
after the training fell back to an earlier step, are never joined.

SQLite is written by one thread at a time, shortly after a report, so that the event loop never waits for the disk. A
process that is killed loses the reports of the last half second; the last one is in the TrainJob itself.
"""

import asyncio
import logging
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Client, Forbidden, KubernetesError, NotFound
from trainwright.controller.runtime.tasks import finished_in_thread
from trainwright.controller.trainer.progress.curve import (
    Damaged,
    Ring,
    Sample,
    after,
    belongs,
    config_map_name,
    falls,
    joined,
    read,
    thinned,
    with_segments,
)

log = logging.getLogger(__name__)

RECORD_SECONDS = 10.0
"""Curves are shown without the manager's record after so long a time."""
FILE = "curves.db"
"""In the folder of the cluster."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PRIMARY = 0xFF
"""Of an error code of SQLite: the rest says more."""
MOST = 4096
SHOWN = 1000
"""Rows of a run that are given to a chart: a screen has not many more columns."""
WRITE_SECONDS = 0.5
_PENDING = 20_000
"""Reports that are kept while the file cannot be written."""
_BATCH = 1000
_TABLE = """
CREATE TABLE IF NOT EXISTS reports (
  uid TEXT NOT NULL, number INTEGER NOT NULL, at REAL NOT NULL, percentage INTEGER, attempt INTEGER,
  count INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (uid, number)
) WITHOUT ROWID
"""
_READ = "SELECT at, percentage, attempt, count, body FROM reports WHERE uid = ?"

_Result = TypeVar("_Result")


class _Body(msgspec.Struct, rename={"values": "v", "not_finite": "n", "lows": "l", "highs": "h"}, omit_defaults=True):
    values: dict[str, float]
    not_finite: list[str] = []
    lows: dict[str, float] = {}
    highs: dict[str, float] = {}


_ENCODER, _DECODER = msgspec.json.Encoder(), msgspec.json.Decoder(_Body)


async def recorded(client: Client, job: TrainJob) -> tuple[Ring | None, str]:
    """The history that a manager keeps of a job; None: there is none, or it cannot be read, for the reason given."""
    name = config_map_name(job.name)
    try:
        async with asyncio.timeout(RECORD_SECONDS):
            found = await client.get(ConfigMap, name, job.namespace)
        return (read(found.data) if belongs(found, job) else None), ""
    except NotFound:
        return None, ""
    except Forbidden:
        why = f"no right to get configmaps in namespace {job.namespace}"
    except Damaged as error:
        why = f"ConfigMap {name} is damaged ({error})"
    except TimeoutError:
        why = f"ConfigMap {name} was not read within {RECORD_SECONDS:.0f} s"
    except KubernetesError as error:
        why = f"ConfigMap {name} cannot be read ({error})"
    return None, why


@dataclass(slots=True)
class _Tail:
    number: int
    """Of the last row; -1: there is none."""
    rows: int
    last: Sample | None
    stride: int
    """How many reports a row stands for."""


class KeptReports:
    """The runs of one cluster. Its methods are for the event loop."""

    def __init__(self, path: Path | None, *, most: int = MOST) -> None:
        """`path`: of the file; None keeps the runs in memory. `most`: rows of a run. Blocks for some milliseconds."""
        self._path, self._most = path, most
        self._pending: deque[tuple[str, Sample | None]] = deque()
        """None: the run is to be forgotten."""
        self._tails: dict[str, _Tail] = {}
        self._lock = asyncio.Lock()
        self._using = threading.Lock()
        self._wake = asyncio.Event()
        self._connection, self._unopened = _opened(path)
        self.problem = self._unopened
        """Why reports are not kept at the moment; empty: they are."""

    # ------------------------------------------------------------------ the interface

    def append(self, uid: str, report: Sample) -> None:
        if len(self._pending) < _PENDING:
            self._pending.append((uid, report))
            # What is kept in memory may wait for the next question, or for many others.
            if self._path is not None or len(self._pending) % _BATCH == 0:
                self._wake.set()

    async def read(self, uid: str, *, most: int = SHOWN) -> list[Sample]:
        """The whole run of a job, oldest first, in at most about so many rows."""
        return await self._in_thread(lambda: with_segments(thinned([*self._rows(uid), *self._unwritten(uid)], most)))

    async def begin_with(self, uid: str, recorded: Sequence[Sample]) -> None:
        """Put samples that a ring has kept before those that are here."""
        await self._in_thread(
            lambda: self._replace(uid, [*recorded, *after(recorded[-1] if recorded else None, self._rows(uid))])
        )

    def forget(self, uid: str) -> None:
        """The job was deleted: its run goes, too."""
        self._pending.append((uid, None))
        self._wake.set()

    async def keep_only(self, uids: Collection[str]) -> None:
        """Forget the runs of all other jobs: they were deleted while this process did not run."""
        kept = set(uids)
        for uid in await self._in_thread(self._uids):
            if uid not in kept:
                self.forget(uid)

    async def all(self, most: int) -> dict[str, list[Sample]]:
        """All runs by uid, each in at most about so many rows."""
        return await self._in_thread(lambda: {uid: thinned(self._rows(uid), most) for uid in self._uids()})

    async def run(self) -> None:
        """Write what comes, until cancelled."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._in_thread(lambda: None)
                await asyncio.sleep(WRITE_SECONDS)
        finally:
            with self._using:
                self._flush()

    def close(self) -> None:
        """Write what is left and close the file. Blocks."""
        with self._using:
            self._flush()
            self._connection.close()

    # ------------------------------------------------------------------ the file; of one thread at a time

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        def flushed() -> _Result:
            with self._using:
                self._flush()
                return work()

        async with self._lock:
            return await finished_in_thread(flushed)

    def _flush(self) -> None:
        """Write what is pending, in one transaction. What cannot be written waits for the next time."""
        taken = list(self._pending)
        if not taken:
            return
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                for uid, report in taken:
                    if report is None:
                        self._connection.execute("DELETE FROM reports WHERE uid = ?", (uid,))
                        self._tails.pop(uid, None)
                    else:
                        self._write(uid, report)
        except sqlite3.Error as error:
            self._tails.clear()  # they may be ahead of the file
            if not self.problem:
                log.warning("%s cannot be written: %s; curves since then are kept in memory", self._path, error)
            self.problem = f"{self._path} cannot be written ({error})"
            return
        self.problem = self._unopened
        for _ in taken:
            self._pending.popleft()

    def _write(self, uid: str, report: Sample) -> None:
        tail = self._tail(uid)
        last = tail.last
        if last is not None and _is_same(last, report):
            return
        if last is not None and last.count < tail.stride and not falls(last, report):
            tail.last = joined(last, report)
        else:
            tail.number, tail.rows, tail.last = tail.number + 1, tail.rows + 1, report
        self._put(uid, tail.number, tail.last)
        if tail.rows > self._most:
            self._replace(uid, thinned(self._rows(uid), self._most // 2))

    def _replace(self, uid: str, rows: Sequence[Sample]) -> None:
        self._connection.execute("DELETE FROM reports WHERE uid = ?", (uid,))
        for number, row in enumerate(rows):
            self._put(uid, number, row)
        self._tails.pop(uid, None)

    def _put(self, uid: str, number: int, row: Sample) -> None:
        body = _ENCODER.encode(_Body(dict(row.values), sorted(row.not_finite), dict(row.lows), dict(row.highs)))
        self._connection.execute(
            "INSERT OR REPLACE INTO reports VALUES (?, ?, ?, ?, ?, ?, ?)",
            (uid, number, row.at, row.percentage, row.attempt, row.count, body),
        )

    def _tail(self, uid: str) -> _Tail:
        if uid not in self._tails:
            run = self._connection.execute
            rows, number, stride = run(
                "SELECT count(*), coalesce(max(number), -1), coalesce(max(count), 1) FROM reports WHERE uid = ?", (uid,)
            ).fetchone()
            row = run(f"{_READ} AND number = ?", (uid, number)).fetchone()
            self._tails[uid] = _Tail(number, rows, _report(*row) if row is not None else None, stride)
        return self._tails[uid]

    def _rows(self, uid: str) -> list[Sample]:
        return [_report(*row) for row in self._connection.execute(f"{_READ} ORDER BY number", (uid,))]

    def _unwritten(self, uid: str) -> Iterator[Sample]:
        """What waits for a file that cannot be written."""
        return (report for one, report in list(self._pending) if one == uid and report is not None)

    def _uids(self) -> list[str]:
        return [uid for (uid,) in self._connection.execute("SELECT DISTINCT uid FROM reports")]


def _is_same(last: Sample, report: Sample) -> bool:
    """Whether a report is seen again, as after a restart."""
    is_as_far = last.at == report.at and last.percentage == report.percentage
    return is_as_far and report.values.items() <= last.values.items()


def _report(at: float, percentage: int | None, attempt: int | None, count: int, body: bytes) -> Sample:
    told = _DECODER.decode(body)
    return Sample(
        at=at,
        percentage=percentage,
        attempt=attempt,
        values=told.values,
        not_finite=frozenset(told.not_finite),
        count=count,
        lows=told.lows,
        highs=told.highs,
    )


def _opened(path: Path | None) -> tuple[sqlite3.Connection, str]:
    """Open the file. A damaged one is put aside, so that it does not keep the cluster from starting.

    One that cannot be opened now, on a full disk or while another process has it, stays as it is. Then the runs are in
    memory, and the text says why.
    """
    if path is None:
        return _connected(":memory:"), ""
    try:
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))  # not readable by others
        return _connected(str(path)), ""
    except (sqlite3.DatabaseError, OSError) as error:
        if getattr(error, "sqlite_errorcode", 0) & _PRIMARY not in _DAMAGED:
            problem = f"{path} cannot be opened ({error})"
            log.warning("%s; curves are kept in memory until the next start", problem)
            return _connected(":memory:"), problem
        aside = path.with_name(f"{path.name}.damaged")
        log.warning("%s is damaged (%s): it is put aside as %s, and curves begin again", path, error, aside)
        path.replace(aside)
        for more in ("-wal", "-shm", "-journal"):
            path.with_name(path.name + more).unlink(missing_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        return _connected(str(path)), ""


def _connected(name: str) -> sqlite3.Connection:
    connection = sqlite3.connect(name, isolation_level=None, check_same_thread=False, timeout=5.0)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(_TABLE)
        connection.execute("SELECT count(*) FROM (SELECT 1 FROM reports LIMIT 1)").fetchone()
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection
