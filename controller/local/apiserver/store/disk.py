# SPDX-License-Identifier: Apache-2.0
"""The state file: current objects and recent changes in SQLite, written by one thread.

Every transaction holds the changes of one turn of the event loop. WAL with `synchronous=NORMAL` loses nothing that was
committed when the process is killed; a power cut may lose the last transactions, and leaves a sound file. The
exclusive locking mode needs no shared memory, so it works in home folders on a network, and keeps a second process out.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from trainwright.api.errors import UserError

FORMAT = 1
"""The version of the tables. A file of another one is refused."""
_APPLICATION = 0x54574C43
"""Marks the file as ours: `TWLC`."""
_SLICE = 100
"""Rows of history that one transaction deletes. A commit that comes meanwhile waits for it."""
_PAGES = 500
"""Pages that it gives back to the file system: more than that many rows have, as a rule."""

_TABLES = """
CREATE TABLE objects (
  collection TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY (collection, namespace, name)
) WITHOUT ROWID;
CREATE TABLE changes (
  version INTEGER PRIMARY KEY, type TEXT NOT NULL, collection TEXT NOT NULL, namespace TEXT NOT NULL,
  name TEXT NOT NULL, body BLOB NOT NULL, before BLOB, before_version INTEGER, moment REAL NOT NULL
);
"""


class StateFileError(UserError):
    """The state file cannot be used; the message says why and what to do."""


class StateLostError(UserError):
    """The state file could not be written: what the process holds in memory is more than what it can keep."""


def is_full(error: BaseException | None) -> bool:
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL


class DiskRow(NamedTuple):
    collection: str
    namespace: str
    name: str
    version: int
    body: bytes


class ChangeRow(NamedTuple):
    version: int
    type: str
    collection: str
    namespace: str
    name: str
    body: bytes
    before: bytes | None
    before_version: int | None
    moment: float


class Disk:
    """The state file. All methods block; one thread calls them."""

    def __init__(self, path: Path) -> None:
        """Open or create it. Raises StateFileError: it is in use, damaged, or of another program or version."""
        self.path = path
        new = not path.exists()
        if new:
            # Before there is anything in it: nobody else may read it, not even for a moment.
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.5)
        try:
            self._prepare(new)
        except sqlite3.OperationalError as error:
            self._connection.close()
            if "locked" in str(error):
                raise StateFileError(f"{path} is in use: another cluster runs from this folder") from error
            raise StateFileError(f"{path} cannot be opened: {error}") from error
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise StateFileError(f"{path} is damaged ({error}); delete it to begin anew") from error
        except StateFileError:
            self._connection.close()
            raise

    def _prepare(self, new: bool) -> None:
        run = self._connection.execute
        run("PRAGMA locking_mode=EXCLUSIVE")
        if new:
            run("PRAGMA auto_vacuum=INCREMENTAL")
        run("PRAGMA journal_mode=WAL")
        run("PRAGMA synchronous=NORMAL")
        run("BEGIN IMMEDIATE")
        (application,) = run("PRAGMA application_id").fetchone()
        (version,) = run("PRAGMA user_version").fetchone()
        if version == 0 and application == 0 and not run("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in _TABLES.split(";"):
                run(statement)
            run(f"PRAGMA application_id={_APPLICATION}")
            run(f"PRAGMA user_version={FORMAT}")
        elif application != _APPLICATION:
            run("ROLLBACK")
            raise StateFileError(f"{self.path} is not the state of a local cluster; use another folder")
        elif version != FORMAT:
            run("ROLLBACK")
            raise StateFileError(
                f"{self.path} has format {version}, which this version cannot read (it reads {FORMAT}); nothing was "
                "changed: start it with the version that wrote it, or use another folder"
            )
        run("COMMIT")

    def objects(self) -> Iterator[DiskRow]:
        rows = self._connection.execute(f"SELECT {', '.join(DiskRow._fields)} FROM objects")  # noqa: S608
        return (DiskRow(*row) for row in rows)

    def changes(self) -> Iterator[ChangeRow]:
        rows = self._connection.execute(f"SELECT {', '.join(ChangeRow._fields)} FROM changes ORDER BY version")  # noqa: S608
        return (ChangeRow(*row) for row in rows)

    def commit(self, changes: Sequence[ChangeRow]) -> None:
        """Write changes, and what they make of the current objects, in one transaction."""
        run, many = self._connection.execute, self._connection.executemany
        with self._transaction():
            many("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", changes)
            for change in changes:
                if change.type == "DELETED":
                    run(
                        "DELETE FROM objects WHERE collection=? AND namespace=? AND name=?",
                        (change.collection, change.namespace, change.name),
                    )
                else:
                    run(
                        "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)",
                        (change.collection, change.namespace, change.name, change.version, change.body),
                    )

    def forget(self, through: int) -> bool:
        """Delete a slice of the changes up to a version, and free its space. Returns whether more may be left."""
        with self._transaction():
            # The newest change stays, for the version of the cluster.
            deleted = self._connection.execute(
                "DELETE FROM changes WHERE version IN (SELECT version FROM changes WHERE version <= ?"
                " AND version < (SELECT max(version) FROM changes) ORDER BY version LIMIT ?)",
                (through, _SLICE),
            )
        self._connection.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall()
        return deleted.rowcount == _SLICE

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit at the end of the block. After an error no transaction is open: it would refuse all that follow."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # A full disk, among others, has ended the transaction already.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Write what waits in the log into the file, and close it."""
        self._connection.close()
