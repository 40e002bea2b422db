# SPDX-License-Identifier: Apache-2.0
"""The store: watches that wait, its file, a full disk, and what expires.

tests/integration/local/test_store_at_random.py compares versions, lists, history and watches with a model.
"""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from trainwright.controller.local.apiserver.store import (
    Disk,
    Expired,
    ObjectName,
    ObjectStore,
    Overflow,
    StateFileError,
    StateLostError,
    objects,
)
from trainwright.controller.local.apiserver.store.disk import ChangeRow
from trainwright.controller.local.apiserver.store.store import HISTORY_SECONDS, expire_events
from trainwright.controller.runtime.testing.waiting import contains, eventually

A, B = ObjectName("default", "a"), ObjectName("default", "b")
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """The connections to state files, in the order in which they are opened: by them a test breaks the file."""
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def noted(*arguments: Any, **how: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **how))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    return opened


def limit_pages(file: sqlite3.Connection, pages: int) -> None:
    """Let the file have no more pages: SQLite reports that as a full disk."""
    file.execute(f"PRAGMA max_page_count={pages}")


def fail(file: sqlite3.Connection, event: str, how: str = "ABORT") -> None:
    """Let statements fail; `how`: ABORT leaves their transaction open, ROLLBACK ends it, as a full disk does."""
    file.execute(
        f"CREATE TEMP TRIGGER fails BEFORE {event} ON changes BEGIN SELECT RAISE({how}, 'disk I/O error'); END"
    )


def document(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, **more}


def content(one: Any) -> Any:
    return one.document().get("data")


async def test_a_watch_that_is_not_read_is_ended_and_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "BACKLOG_BYTES", 1000)
    store = ObjectStore()
    slow, fast = store.watch("configmaps", store.version), store.watch("configmaps", store.version)
    expected = None
    for number in range(20):
        expected = store.write("configmaps", A, document(data={"x": str(number) * 100}), expected)
        assert [content(change.object)["x"][0] for change in await fast.take()] == [str(number)[0]]
    with pytest.raises(Overflow):
        await slow.take()


async def test_nobody_is_told_of_a_change_before_it_is_on_disk(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "state.db")
    watch = store.watch("configmaps", store.version)
    one = store.write("configmaps", A, document(), None)
    assert one.document()["metadata"]["resourceVersion"] == str(one.version)
    assert store.notified_revision < store.version
    assert await watch.take(0) == []
    await store.committed()
    assert store.notified_revision == store.version
    assert len(await watch.take(0)) == 1
    store.unwatch("configmaps", watch)
    assert await watch.take() == []
    await store.close()
    assert (tmp_path / "state.db").stat().st_mode & 0o777 == 0o600


def test_a_file_in_use_is_refused(tmp_path: Path) -> None:
    used = Disk(tmp_path / "used.db")
    with pytest.raises(StateFileError, match="is in use: another cluster runs from this folder"):
        Disk(tmp_path / "used.db")
    used.close()


@pytest.mark.parametrize(
    ("pragma", "message"),
    [
        ("user_version=0", r"has format 0, which this version cannot read .* nothing was changed"),
        ("user_version=99", "has format 99, which this version cannot read"),
        ("application_id=1", "is not the state of a local cluster"),
        ("", "is damaged"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_not_changed(tmp_path: Path, pragma: str, message: str) -> None:
    path = tmp_path / "state.db"
    if pragma:
        Disk(path).close()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA {pragma}")
    else:
        path.write_bytes(b"no database" * 100)
    before = path.read_bytes()
    with pytest.raises(StateFileError, match=message):
        Disk(path)
    assert path.read_bytes() == before


async def test_events_expire_an_hour_after_they_were_written_last() -> None:
    store = ObjectStore()
    hour = timedelta(hours=1)
    for name, created, last in (("old", hour, hour), ("repeated", hour, hour / 2), ("new", hour / 2, hour / 2)):
        event = document(name, lastTimestamp=(NOW - last).strftime("%Y-%m-%dT%H:%M:%SZ"))
        event["metadata"]["creationTimestamp"] = (NOW - created).strftime("%Y-%m-%dT%H:%M:%SZ")
        store.write("events", ObjectName("default", name), event, None)
    watch = store.watch("events", store.version)
    assert expire_events(store, NOW) == 1
    assert {one.name.name for one in store.collection("events").listed()} == {"repeated", "new"}
    assert [change.type for change in await asyncio.wait_for(watch.take(), 1)] == ["DELETED"]


async def test_a_compacted_history_has_no_hole_after_a_restart(tmp_path: Path) -> None:
    clock = [1000.0]
    store = ObjectStore(tmp_path / "state.db", now=lambda: clock[0])
    one = store.write("configmaps", A, document(), None)
    for _ in range(2):
        # The newest change stays in the file, for the version, though it is forgotten.
        await store.committed()
        clock[0] += HISTORY_SECONDS + 1
        await store.compact()
        one = store.write("configmaps", A, document(), one)
        one = store.write("configmaps", A, document(), one)
    await store.close()
    store = ObjectStore(tmp_path / "state.db", now=lambda: clock[0])
    kept = [change.version for change in store.collection("configmaps").history]
    assert kept == list(range(kept[0], one.version + 1))
    with pytest.raises(Expired):
        store.watch("configmaps", kept[0] - 2)
    await store.close()


async def test_a_watch_is_not_told_what_waited_for_its_commit_when_it_began(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path / "state.db")
    one = store.write("configmaps", A, document(), None)
    watch = store.watch("configmaps", one.version)
    store.write("configmaps", B, document("b"), None)
    await store.committed()
    assert [change.name for change in await watch.take(1.0)] == [B]
    await store.close()


async def test_what_waits_for_a_commit_that_fails_is_not_written(
    tmp_path: Path, files: list[sqlite3.Connection]
) -> None:
    store = ObjectStore(tmp_path / "state.db")
    fail(files[0], "INSERT")
    one = store.write("configmaps", A, document(data={"x": "1"}), None)
    await asyncio.sleep(0)  # its commit begins
    store.write("configmaps", A, document(data={"x": "2"}), one)
    with pytest.raises(StateLostError, match="disk I/O error"):
        await store.committed()
    await store.close()
    again = ObjectStore(tmp_path / "state.db")
    assert again.get("configmaps", A) is None
    await again.close()


async def test_writes_wait_while_the_disk_is_full(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, files: list[sqlite3.Connection]
) -> None:
    store = ObjectStore(tmp_path / "state.db")
    one = store.write("configmaps", A, document(), None)
    await store.committed()
    watch = store.watch("configmaps", one.version)
    limit_pages(files[0], 1)
    big = store.write("configmaps", A, document(data={"x": "1" * 100_000}), one)
    waiting = asyncio.ensure_future(store.committed())
    await eventually(lambda: caplog.text, contains("is full: writes wait until there is room"))
    last = store.write("configmaps", B, document("b"), None)
    assert not waiting.done()
    assert store.notified_revision == one.version
    await store.committed(one.version)  # who reads what is there already does not wait
    limit_pages(files[0], 1_000_000)
    await waiting
    await store.committed()
    assert [change.version for change in await watch.take(1.0)] == [big.version, last.version]
    await store.close()
    again = ObjectStore(tmp_path / "state.db")
    assert again.version == last.version
    await again.close()


async def test_a_store_ends_while_the_disk_is_full(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, files: list[sqlite3.Connection]
) -> None:
    store = ObjectStore(tmp_path / "state.db")
    one = store.write("configmaps", A, document(), None)
    await store.committed()
    limit_pages(files[0], 1)
    store.write("configmaps", A, document(data={"x": "1" * 100_000}), one)
    await eventually(lambda: caplog.text, contains("is full"))
    await store.close()
    again = ObjectStore(tmp_path / "state.db")
    found = again.get("configmaps", A)
    assert found is not None
    assert found.version == one.version, "what was not answered is not there"
    await again.close()


async def test_a_start_on_a_full_disk_ends(tmp_path: Path, files: list[sqlite3.Connection]) -> None:
    store = ObjectStore(tmp_path / "state.db")
    limit_pages(files[0], 1)
    store.write("configmaps", A, document(data={"x": "1" * 100_000}), None)
    with pytest.raises(StateLostError, match="disk is full"):
        await store.committed()
    await store.close()


def change(version: int) -> ChangeRow:
    return ChangeRow(version, "MODIFIED", "configmaps", "default", "a", b"{}", None, None, 0.0)


async def test_a_compaction_that_the_file_refuses_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, files: list[sqlite3.Connection]
) -> None:
    moment = 0.0
    store = ObjectStore(tmp_path / "state.db", now=lambda: moment)
    one = store.write("configmaps", A, document(), None)
    store.write("configmaps", A, document(data={"x": "1"}), one)
    await store.committed()
    fail(files[0], "DELETE")
    moment = HISTORY_SECONDS + 1
    await store.compact()
    await store.close()
    assert "old changes stay in the state file until the next compaction: disk I/O error" in caplog.text


async def test_a_compaction_lets_requests_and_commits_go_between(tmp_path: Path) -> None:
    """Thousands of changes are forgotten in slices: meanwhile the loop turns, and what is written becomes durable."""
    clock = [0.0]
    store = ObjectStore(tmp_path / "state.db", now=lambda: clock[0])
    one = store.write("configmaps", A, document(), None)
    for number in range(3_000):
        one = store.write("configmaps", A, document(data={"x": str(number)}), one)
    await store.committed()
    clock[0] = HISTORY_SECONDS + 1
    compaction = asyncio.ensure_future(store.compact())
    turns = 0
    while store.collection("configmaps").history:
        turns += 1
        await asyncio.sleep(0)
    assert turns > 3_000 // 1_000
    written = store.write("configmaps", A, document(data={"x": "meanwhile"}), one)
    await store.committed()
    assert not compaction.done()
    await compaction
    await store.close()
    store = ObjectStore(tmp_path / "state.db", now=lambda: clock[0])
    assert [change.version for change in store.collection("configmaps").history] == [written.version]
    await store.close()


@pytest.mark.parametrize("how", ["ABORT", "ROLLBACK"])
def test_history_that_cannot_be_deleted_is_deleted_with_the_next(
    tmp_path: Path, files: list[sqlite3.Connection], how: str
) -> None:
    disk = Disk(tmp_path / "state.db")
    disk.commit([change(version) for version in range(1, 5)])
    fail(files[0], "DELETE", how)
    with pytest.raises(sqlite3.Error, match="disk I/O error"):
        disk.forget(2)
    files[0].execute("DROP TRIGGER fails")
    disk.commit([change(5)])
    disk.forget(3)
    assert [row.version for row in disk.changes()] == [4, 5]
    disk.close()


@pytest.mark.parametrize("how", ["ABORT", "ROLLBACK"])
def test_a_commit_that_fails_says_why(tmp_path: Path, files: list[sqlite3.Connection], how: str) -> None:
    disk = Disk(tmp_path / "state.db")
    fail(files[0], "INSERT", how)
    with pytest.raises(sqlite3.Error, match="disk I/O error"):
        disk.commit([change(1)])
    disk.close()
