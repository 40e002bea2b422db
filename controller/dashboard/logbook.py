# SPDX-License-Identifier: Apache-2.0
"""The log of a job, line by line: of one container, or of all ranks merged by time.

The API server gives a log as a stream only. So the first question about a log reads it whole into a file without a
name, with the place of each line in memory, and follows it from then on; ranges, searches and downloads are answered
from there. What was there at the first question is merged by time; later lines come in the order in which they arrive,
so a line never changes its number. A log that no page has asked about for a minute is dropped.
"""

import asyncio
import heapq
import itertools
import os
import tempfile
from array import array
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, TypeAlias

import msgspec

from trainwright.api.times import format_time, parse
from trainwright.controller.dashboard import contract
from trainwright.controller.runtime import Client, Forbidden, KubernetesError, NotFound
from trainwright.controller.runtime.errors import BadRequest
from trainwright.controller.runtime.tasks import TaskScope

MOST_LINES = 2000
"""Of one answer."""
MOST_FOUND = 10_000
MOST_SOURCES = 64
"""Containers that are merged: each takes a connection to the API server."""
MOST_BYTES = 1 << 30
"""Of one log. Nodes keep less of a container, 50 MiB by default."""
KEPT_SECONDS = 60.0
WAIT_SECONDS = 10.0
"""How long a question for more lines waits."""
RETRY_SECONDS = 3.0
_SWEEP_SECONDS = 10.0
_MARGIN = timedelta(seconds=10)
"""A log is followed from so long before its last line: the clock of its node may be set back meanwhile."""
ALL = "*"
"""In place of a pod: all ranks."""


@dataclass(frozen=True, slots=True, order=True)
class LogRun:
    pod: str
    container: str
    run: int
    """How often the container was restarted before."""
    previous: bool = field(default=False, compare=False)
    """It is the run before the present one."""
    label: str = field(default="", compare=False)
    """As people call it, such as `rank 0`."""


Name: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^([a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?)?$")]


class WantedLog(msgspec.Struct, frozen=True):
    pod: Annotated[str, msgspec.Meta(pattern=r"^(\*|[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?)$")]
    """ALL: those of all ranks."""
    container: Name = ""
    previous: bool = False
    attempt: Annotated[int, msgspec.Meta(ge=1, lt=10**9)] | None = None
    """Of ALL: the pods of this attempt; None: of the present one."""


class Book:
    """The lines of some containers. Of the event loop, but for `found`."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - it lives as long as the book
        self._ends = array("Q")
        """Where each line ends in the file."""
        self._of = array("H")
        """The source of each line."""
        self.sources: list[LogRun] = []
        self.more: asyncio.Queue[list[LogRun]] = asyncio.Queue()
        """Those that are still to be read."""
        self.problems: dict[LogRun, str] = {}
        self.is_cut = False
        self.used = 0.0
        """Time of the event loop at which a page asked last."""
        self._busy = 0
        self.follows = 0
        """Containers whose lines may still come."""
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def is_reading(self) -> bool:
        """Whether what was there at the first question is not read yet."""
        return self._busy > 0

    @property
    def size(self) -> int:
        """In bytes."""
        return self._ends[-1] if self._ends else 0

    def close(self) -> None:
        self._file.close()

    def begin(self) -> None:
        """A reading of what is there begins."""
        self._busy += 1

    def end(self) -> None:
        self._busy -= 1
        self.tell()

    def tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, known: int) -> None:
        """Wait until there are other than so many lines, or nothing more will come, but not for long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while self.is_reading or (len(self) == known and self.follows):
                    await self._changed.wait()

    def add(self, lines: Iterable[tuple[int, bytes]]) -> None:
        """Append lines: number of the source; time, blank and text without the line break."""
        end = self.size
        parts: list[bytes] = []
        for source, line in lines:
            if end + len(line) > MOST_BYTES:
                self.is_cut = True
                break
            end += len(line) + 1
            parts += (line, b"\n")
            self._ends.append(end)
            self._of.append(source)
        if parts:
            data = memoryview(b"".join(parts))
            while data:
                data = data[os.write(self._file.fileno(), data) :]
            self.tell()

    def lines(self, first: int, count: int) -> list[bytes]:
        """A range of lines, each with time and blank."""
        last = min(len(self), first + count)
        if first >= last:
            return []
        begin = self._ends[first - 1] if first else 0
        data = os.pread(self._file.fileno(), self._ends[last - 1] - begin, begin)
        return data.split(b"\n")[:-1]

    def source_of(self, number: int) -> int:
        """The place in `sources` of the one that a line comes from."""
        return self._of[number]

    def found(self, text: str) -> tuple[list[int], bool]:
        """The numbers of lines that contain the text in any case, and whether there are more. Blocks."""
        needle = text.lower().encode()
        numbers: list[int] = []
        for first in range(0, len(self), MOST_LINES):
            for number, line in enumerate(self.lines(first, MOST_LINES), first):
                told = line.partition(b" ")[2].decode(errors="replace").lower().encode()
                if needle in told:
                    if len(numbers) == MOST_FOUND:
                        return numbers, True
                    numbers.append(number)
        return numbers, False

    async def pieces(self) -> AsyncIterator[bytes]:
        """The whole text, without times; with the name of the rank where there are several."""
        several = len(self.sources) > 1
        for first in range(0, len(self), MOST_LINES):
            lines = self.lines(first, MOST_LINES)
            names = [f"[{self.sources[self._of[first + place]].label}] ".encode() for place in range(len(lines))]
            yield b"".join(
                (name if several else b"") + line.partition(b" ")[2] + b"\n"
                for name, line in zip(names, lines, strict=True)
            )


class Logs:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._books: dict[tuple[str, WantedLog], Book] = {}
        self._scopes: dict[tuple[str, WantedLog], asyncio.Task[None]] = {}
        self._tasks: TaskScope | None = None

    async def run(self) -> None:
        """Keep what is looked at, until cancelled."""
        clock = asyncio.get_running_loop().time
        try:
            async with TaskScope("dashboard/logs") as self._tasks:
                while True:
                    await asyncio.sleep(_SWEEP_SECONDS)
                    for key in [one for one, book in self._books.items() if clock() - book.used > KEPT_SECONDS]:
                        self._drop(key)
        finally:
            self._tasks = None
            for book in self._books.values():
                book.close()
            self._books.clear()

    async def book(self, job: contract.Job, wanted: WantedLog) -> Book:
        """The lines of a log, as far as they are read. Raises NotFound, BadRequest."""
        assert self._tasks is not None
        sources = _sources_of(job, wanted)
        key = (job.row.uid, wanted)
        book = self._books.get(key)
        if book is None:
            book = self._books[key] = Book()
            filling = self._fill(book, job.row.namespace)
            self._scopes[key] = self._tasks.start(f"dashboard/log of {job.row.name}", filling)
        book.used = asyncio.get_running_loop().time()
        new = [one for one in sources if one not in book.sources][: MOST_SOURCES - len(book.sources)]
        if new:
            book.sources += new
            book.begin()
            book.more.put_nowait(new)
        return book

    def _drop(self, key: tuple[str, WantedLog]) -> None:
        book, task = self._books.pop(key), self._scopes.pop(key)
        task.add_done_callback(lambda _: book.close())
        task.cancel()

    async def _fill(self, book: Book, namespace: str) -> None:
        async with TaskScope("dashboard/log") as tasks:
            while True:
                sources = await book.more.get()
                book.follows += len(sources)
                ends = await self._merged(book, namespace, sources)
                for source, end in zip(sources, ends, strict=True):
                    tasks.start(f"dashboard/log/{source.pod}", self._followed(book, namespace, source, end))

    async def _merged(self, book: Book, namespace: str, sources: Sequence[LogRun]) -> list["_End"]:
        """Read what is there of several containers, in the order of time."""
        ends = [_End() for _ in sources]
        try:
            async with AsyncExitStack() as stack:
                tasks = await stack.enter_async_context(TaskScope("dashboard/log/merge"))
                streams = [
                    await stack.enter_async_context(aclosing(self._read(book, namespace, one, end)))
                    for one, end in zip(sources, ends, strict=True)
                ]
                heads = [tasks.start("dashboard/log/head", anext(stream, b"")) for stream in streams]
                numbers = [book.sources.index(one) for one in sources]
                heap = [
                    (line[: line.find(b" ")], place, line) for place, head in enumerate(heads) if (line := await head)
                ]
                heapq.heapify(heap)
                batch: list[tuple[int, bytes]] = []
                while heap:
                    _, place, line = heap[0]
                    batch.append((numbers[place], line))
                    following = await anext(streams[place], b"")
                    if following:
                        heapq.heapreplace(heap, (following[: following.find(b" ")], place, following))
                    else:
                        heapq.heappop(heap)
                    if len(batch) >= MOST_LINES:
                        book.add(batch)
                        batch = []
                        await asyncio.sleep(0)
                book.add(batch)
        finally:
            book.end()
        return ends

    async def _read(self, book: Book, namespace: str, source: LogRun, end: "_End") -> AsyncGenerator[bytes, None]:
        """What is there of one container, in whole lines. What cannot be read is told in the book."""
        try:
            async with self._client.open_log(
                source.pod, namespace, container=source.container, previous=source.previous, timestamps=True
            ) as chunks:
                async for lines in _whole_lines(chunks, last=source.previous):
                    for line in lines:
                        end.take(line)
                        yield line
        except KubernetesError as error:
            book.problems[source] = _words(error, source, namespace)
            end.is_final = isinstance(error, (Forbidden, NotFound))

    async def _followed(self, book: Book, namespace: str, source: LogRun, end: "_End") -> None:
        number = book.sources.index(source)
        try:
            while not (source.previous or end.is_final or book.is_cut):
                try:
                    # A time of the node: a number of seconds would be counted from the node's present, by our clock.
                    since = format_time(parse(end.time.decode()) - _MARGIN) if end.time else None
                    async with self._client.open_log(
                        source.pod,
                        namespace,
                        container=source.container,
                        follow=True,
                        timestamps=True,
                        since_time=since,
                    ) as chunks:
                        book.problems.pop(source, None)
                        skip = end.begin()
                        async for lines in _whole_lines(chunks, last=True):
                            book.add([(number, line) for line in lines if skip.is_new(line)])
                    end.is_final = True
                except BadRequest as error:  # it has not started, or its log is gone
                    book.problems[source] = _words(error, source, namespace)
                    end.is_final = True
                except KubernetesError as error:
                    book.problems[source] = _words(error, source, namespace)
                    end.is_final = isinstance(error, (Forbidden, NotFound))
                    book.tell()
                    if not end.is_final:
                        await asyncio.sleep(RETRY_SECONDS)
        finally:
            book.follows -= 1
            book.tell()


@dataclass(slots=True)
class _End:
    """Up to where a container's log was read: the time of the last line, and how many lines have that time."""

    time: bytes = b""
    count: int = 0
    is_final: bool = False
    _skip: int = 0
    _until: bytes = b""

    def take(self, line: bytes) -> None:
        time = line[: line.find(b" ")]
        self.count = self.count + 1 if time == self.time else 1
        self.time = time

    def begin(self) -> "_End":
        """The log is read again, from a time before this end on."""
        self._until, self._skip = self.time, self.count
        return self

    def is_new(self, line: bytes) -> bool:
        """Whether a line comes after this end, which it then moves."""
        time = line[: line.find(b" ")]
        if self._skip and time <= self._until:
            if time == self._until:
                self._skip -= 1
            return False
        # From here on the order of the lines counts: the clock of the node may be set back.
        self._skip = 0
        self.take(line)
        return True


async def _whole_lines(chunks: AsyncGenerator[bytes, None], *, last: bool) -> AsyncIterator[list[bytes]]:
    """The lines of a stream. `last`: also one without a line break at the end."""
    rest = b""
    async with aclosing(chunks):
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            if lines:
                yield lines
    if rest and last:
        yield [rest]


def _sources_of(job: contract.Job, wanted: WantedLog) -> list[LogRun]:
    """The runs of containers that a page asks for. Raises NotFound."""
    pods = job.pods
    if wanted.pod != ALL:
        pods = [pod for pod in pods if pod.name == wanted.pod]
    elif wanted.attempt is not None:
        pods = [pod for pod in pods if pod.attempt in (wanted.attempt, None)]
    else:
        pods = [pod for pod in pods if pod.current] or pods
    found = list(itertools.chain.from_iterable(_runs_of(pod, wanted) for pod in pods))
    if not found:
        text = "no container of the job has a log"
        if wanted.pod != ALL:
            named = f"container {wanted.container} of pod {wanted.pod}" if wanted.container else f"pod {wanted.pod}"
            text = f"{named} has no log{' of a run before' if wanted.previous else ''}"
        raise NotFound(text)
    return found


def _runs_of(pod: contract.Pod, wanted: WantedLog) -> Iterable[LogRun]:
    for one in pod.containers:
        if wanted.container and one.name != wanted.container:
            continue
        if wanted.pod == ALL and one.init:
            continue
        several = sum(not other.init for other in pod.containers) > 1
        label = f"{pod.who}/{one.name}" if several or one.init else pod.who
        # With all ranks, the run before the last restart tells what has happened; a page may also ask for it alone.
        if one.previous_log and (wanted.previous or wanted.pod == ALL):
            yield LogRun(pod.name, one.name, max(0, one.restarts - 1), previous=True, label=label)
        if one.log and not wanted.previous:
            yield LogRun(pod.name, one.name, one.restarts, label=label)


def _words(error: KubernetesError, source: LogRun, namespace: str) -> str:
    """Why a log will not come, for the user."""
    if isinstance(error, NotFound):
        return f"pod {source.pod} does not exist any more in namespace {namespace}; its log went with it"
    if isinstance(error, Forbidden):
        return f"no right to get pods/log in namespace {namespace}; ask its administrator for it"
    return f"{source.label}: {error.message}"


def answer_of(book: Book, first: int, count: int) -> contract.Lines:
    """A range of a log. A negative `first` counts from the end."""
    total = len(book)
    begin = max(0, total + first) if first < 0 else min(first, total)
    lines = [line.decode(errors="replace") for line in book.lines(begin, min(count, MOST_LINES))]
    parts = [line.partition(" ") for line in lines]
    return contract.Lines(
        total=total,
        first=begin,
        texts=[text for _, _, text in parts],
        times=[time for time, _, _ in parts],
        sources=[book.source_of(begin + place) for place in range(len(lines))],
        names=[one.label for one in book.sources],
        reading=book.is_reading,
        follows=book.follows > 0,
        problems=sorted({*book.problems.values()}),
        cut=book.is_cut,
    )
