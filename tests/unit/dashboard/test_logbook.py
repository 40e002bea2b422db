# SPDX-License-Identifier: Apache-2.0
"""The log of a job in ranges: merged by time, followed without a gap, searched, and dropped when nobody looks."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import pytest_asyncio

from trainwright.controller.dashboard import contract, logbook
from trainwright.controller.dashboard.logbook import ALL, Book, Logs, WantedLog, answer_of
from trainwright.controller.runtime import Client
from trainwright.controller.runtime.errors import Forbidden, NotFound
from trainwright.controller.runtime.tasks import TaskScope

SAMPLES = Path(__file__).parent / "samples"
pytestmark = pytest.mark.asyncio


def stamped(second: float, text: str) -> bytes:
    return f"2026-11-25T11:00:{second:012.9f}Z {text}\n".encode()


class Cluster:
    """Has logs. Used as a client."""

    def __init__(self) -> None:
        self.there: dict[str, list[bytes]] = {}
        """The lines of each pod."""
        self.coming: dict[str, asyncio.Queue[bytes | None]] = {}
        self.asked: list[dict[str, Any]] = []
        self.refuses: set[str] = set()

    @asynccontextmanager
    async def open_log(self, pod: str, namespace: str, **asked: Any) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        assert (namespace, asked["timestamps"]) == ("default", True)
        self.asked.append({"pod": pod, **asked})
        if pod in self.refuses:
            raise Forbidden("no", code=403, reason="Forbidden")
        yield self._chunks(pod, follow=asked.get("follow", False))

    async def _chunks(self, pod: str, *, follow: bool) -> AsyncGenerator[bytes, None]:
        for line in list(self.there.get(pod, ())):
            # Chunks end anywhere.
            yield line[:7]
            yield line[7:]
        if follow:
            queue = self.coming.setdefault(pod, asyncio.Queue())
            while (said := await queue.get()) is not None:
                yield said

    def say(self, pod: str, line: bytes | None) -> None:
        self.coming.setdefault(pod, asyncio.Queue()).put_nowait(line)


@pytest_asyncio.fixture
async def cluster() -> Cluster:
    return Cluster()


@pytest_asyncio.fixture
async def logs(cluster: Cluster) -> AsyncIterator[Logs]:
    made = Logs(cast("Client", cluster))
    async with TaskScope("test") as tasks:
        tasks.start("logs", made.run())
        await asyncio.sleep(0)
        yield made


def job(*pods: str, **fields: Any) -> contract.Job:
    """A job with these pods, whose ranks count up."""
    found = msgspec.json.decode((SAMPLES / "job_running.json").read_bytes(), type=contract.Job)
    like = found.pods[0]
    one = msgspec.structs.replace(like.containers[0], log=True, previous_log=False, restarts=0, init=False)
    made = [
        msgspec.structs.replace(
            like,
            name=name,
            rank=rank,
            who=f"rank {rank}",
            replicated_job="node",
            current=True,
            attempt=1,
            containers=[one],
            **fields,
        )
        for rank, name in enumerate(pods)
    ]
    row = msgspec.structs.replace(found.row, namespace="default")
    return msgspec.structs.replace(found, row=row, pods=made)


async def until(book: Book, count: int) -> contract.Lines:
    """The lines, once there are so many."""
    while len(book) != count or book.is_reading:
        await book.wait(len(book))
    return answer_of(book, 0, 1000)


async def test_ranks_are_merged_by_time(cluster: Cluster, logs: Logs) -> None:
    cluster.there = {
        "a": [stamped(1, "a1"), stamped(3, "a3"), stamped(5, "a5")],
        "b": [stamped(2, "b2"), stamped(4, "b4")],
    }
    book = await logs.book(job("a", "b"), WantedLog(ALL))
    found = await until(book, 5)
    assert found.texts == ["a1", "b2", "a3", "b4", "a5"]
    assert [found.names[one] for one in found.sources] == ["rank 0", "rank 1", "rank 0", "rank 1", "rank 0"]
    assert found.times[0] == "2026-11-25T11:00:01.000000000Z"
    assert (found.follows, found.reading, found.problems) == (True, False, [])
    text = b"".join([piece async for piece in book.pieces()])
    assert text.startswith(b"[rank 0] a1\n[rank 1] b2\n")


async def test_lines_that_come_are_appended_once_each(cluster: Cluster, logs: Logs) -> None:
    """The log is followed from a time before its end, so its last lines come again, also two of one time."""
    cluster.there = {"a": [stamped(1, "one"), stamped(2, "two"), stamped(2, "two again")]}
    book = await logs.book(job("a"), WantedLog("a"))
    await until(book, 3)
    cluster.say("a", stamped(2, "two a third time"))
    cluster.say("a", stamped(3, "three"))
    found = await until(book, 5)
    assert found.texts == ["one", "two", "two again", "two a third time", "three"]
    # By the node's clock, whatever ours says.
    assert cluster.asked[-1]["since_time"] == "2026-11-25T10:59:52Z"
    cluster.say("a", None)
    while book.follows:
        await book.wait(len(book))
    assert not answer_of(book, 0, 0).follows


async def test_lines_after_the_clock_of_the_node_was_set_back_are_shown(cluster: Cluster, logs: Logs) -> None:
    cluster.there = {"a": [stamped(30, "one"), stamped(31, "two")]}
    book = await logs.book(job("a"), WantedLog("a"))
    await until(book, 2)
    cluster.say("a", stamped(1, "three"))
    cluster.say("a", stamped(31, "four"))
    assert (await until(book, 4)).texts == ["one", "two", "three", "four"]


async def test_ranges_count_from_both_ends(cluster: Cluster, logs: Logs) -> None:
    cluster.there = {"a": [stamped(number / 100, f"line {number}") for number in range(5000)]}
    book = await logs.book(job("a"), WantedLog("a"))
    await until(book, 5000)
    assert answer_of(book, 4000, 2).texts == ["line 4000", "line 4001"]
    last = answer_of(book, -2, 10)
    assert (last.first, last.texts) == (4998, ["line 4998", "line 4999"])
    assert answer_of(book, 9999, 10).texts == []
    assert len(answer_of(book, 0, 10**6).texts) == logbook.MOST_LINES
    numbers, more = book.found("LINE 499")
    assert (numbers[:2], len(numbers), more) == ([499, 4990], 11, False)
    assert book.found("2026-11-25") == ([], False)  # times are no text of the log


async def test_a_container_that_starts_later_joins(cluster: Cluster, logs: Logs) -> None:
    cluster.there = {"a": [stamped(1, "a1")], "b": [stamped(0, "b0")]}
    book = await logs.book(job("a"), WantedLog(ALL))
    await until(book, 1)
    assert await logs.book(job("a", "b"), WantedLog(ALL)) is book
    assert (await until(book, 2)).texts == ["a1", "b0"]  # a line keeps its number


async def test_what_may_not_be_read_is_told_and_the_others_are_shown(cluster: Cluster, logs: Logs) -> None:
    cluster.there = {"a": [stamped(1, "a1")]}
    cluster.refuses = {"b"}
    found = await until(await logs.book(job("a", "b"), WantedLog(ALL)), 1)
    assert found.texts == ["a1"]
    assert found.problems == ["no right to get pods/log in namespace default; ask its administrator for it"]


async def test_a_log_that_is_not_there_is_not_found(logs: Logs) -> None:
    with pytest.raises(NotFound, match="pod c has no log"):
        await logs.book(job("a"), WantedLog("c"))
    with pytest.raises(NotFound, match="no log of a run before"):
        await logs.book(job("a"), WantedLog("a", previous=True))
    with pytest.raises(NotFound, match="no container of the job"):
        await logs.book(job(), WantedLog(ALL))


async def test_an_attempt_is_shown_alone(cluster: Cluster, logs: Logs) -> None:
    cluster.there = {"a": [stamped(1, "first")], "b": [stamped(2, "second")]}
    both = job("a", "b")
    pods = [msgspec.structs.replace(both.pods[0], current=False), msgspec.structs.replace(both.pods[1], attempt=2)]
    both = msgspec.structs.replace(both, pods=pods)
    for wanted, text in (
        (WantedLog(ALL, attempt=1), "first"),
        (WantedLog(ALL, attempt=2), "second"),
        (WantedLog(ALL), "second"),
    ):
        assert (await until(await logs.book(both, wanted), 1)).texts == [text]
