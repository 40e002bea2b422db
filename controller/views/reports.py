# SPDX-License-Identifier: Apache-2.0
"""The runs of jobs: each value where the training keeps them in a file of its output, else what it reported.

The training of a job of a local cluster writes `progress.jsonl` (`trainwright.progress`), which is read as it grows. Of
other jobs the reports are kept that somebody passes to `append`: in the same form, in a file of the cluster's folder,
or in memory.

In memory a run has a bounded number of rows: when there are too many, rows are joined two by two. A joined row keeps
what a chart must not lose: the last value of each metric, the lowest and the highest one, and whether one was not
finite. Rows of different attempts, and of before and after the training fell back to an earlier step, are never joined.
"""

import asyncio
import logging
import math
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from trainwright.api.kubernetes.core.v1 import ConfigMap
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.runtime import Client, Forbidden, KubernetesError, NotFound
from trainwright.controller.runtime.tasks import finished_in_thread
from trainwright.controller.trainer.progress.curve import (
    COUNTERS,
    Sample,
    after,
    falls,
    joined,
    thinned,
    with_segments,
)
from trainwright.controller.trainer.progress.ring import Damaged, Ring, belongs, config_map_name, read
from trainwright.progress import CURVE, CurveWriter

log = logging.getLogger(__name__)

RECORD_SECONDS = 10.0
"""Curves are shown without the manager's record after so long a time."""
FOLDER = "curves"
"""In the folder of a local cluster: the reports of jobs that keep no file of their own."""
MOST = 4096
SHOWN = 1000
"""Rows of a run that are given to a chart: a screen has not many more columns."""
WRITE_SECONDS = 0.5
LATELY = 2000
"""So many rows of each run can be told one by one to a page that is open."""
_PENDING = 20_000
"""Reports that are kept while they cannot be written."""
_BATCH = 1000
_LINE_BYTES = 1024 * 1024
_LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
_STEP, _TOTAL, _EPOCH, _EPOCHS = COUNTERS

_Result = TypeVar("_Result")


class _Line(msgspec.Struct, omit_defaults=True):
    """A line of the file; see `trainwright.progress.CurveWriter`. One without metrics begins what follows."""

    time: float
    step: float | None = None
    epoch: float | None = None
    percentage: float | None = None
    attempt: int | None = None
    total: float | None = None
    epochs: float | None = None
    count: int = 1
    metrics: dict[str, float | str] | None = None
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    not_finite: list[str] = []

    def done(self, begin: "_Line | None") -> int | None:
        """The percentage, from what the training has said at its begin."""
        if self.percentage is not None:
            return _percent(self.percentage, 100)
        if begin is None:
            return None
        if self.step is not None and begin.total:
            return _percent(self.step, begin.total)
        return _percent(self.epoch, begin.epochs) if self.epoch is not None and begin.epochs else None

    def sample(self, begin: "_Line | None" = None) -> Sample:
        values = {name: one for name, one in (self.metrics or {}).items() if isinstance(one, int | float)}
        odd = {name for name in self.metrics or () if name not in values}
        counted = {_STEP: self.step, _EPOCH: self.epoch}
        values |= {name: one for name, one in counted.items() if one is not None}
        return Sample(
            at=self.time,
            percentage=self.done(begin),
            attempt=begin.attempt if begin is not None else self.attempt,
            values=values,
            not_finite=frozenset((*self.not_finite, *odd)),
            count=max(1, self.count),
            lows=self.low,
            highs=self.high,
        )


def _percent(reached: float, total: float) -> int | None:
    share = 100 * reached / total
    return max(0, min(100, math.floor(share + 1e-9))) if math.isfinite(share) else None


_ENCODER, _DECODER = msgspec.json.Encoder(), msgspec.json.Decoder(_Line)


def _line(sample: Sample) -> _Line:
    return _Line(
        time=sample.at,
        step=sample.step,
        epoch=sample.values.get(_EPOCH),
        percentage=sample.percentage,
        attempt=sample.attempt,
        count=sample.count,
        metrics={
            **{name: value for name, value in sample.values.items() if name not in COUNTERS},
            **{name: "NaN" for name in sample.not_finite if name not in sample.values},
        },
        low=dict(sample.lows),
        high=dict(sample.highs),
        not_finite=sorted(sample.not_finite & sample.values.keys()),
    )


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


class RunFile:
    """A file of values, read as it grows. Anybody may have written it: what is no line of ours is passed over."""

    def __init__(self, path: Path, since: float = 0.0) -> None:
        """`since`: values from before are those of another job that had the same output."""
        self.path, self._since = path, since
        self._file: tuple[int, int] | None = None
        self._offset = 0
        self._begin: _Line | None = None

    def is_new(self) -> bool:
        """Whether it was replaced or cut since it was read: then it is read from the begin. Raises OSError."""
        known = self.path.stat()
        if self._file == (known.st_dev, known.st_ino) and known.st_size >= self._offset:
            return False
        self._file, self._offset, self._begin = None, 0, None
        return True

    def read(self) -> Iterator[Sample]:
        """What was added. Raises OSError."""
        # A pipe in its place must not be waited for.
        with os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            known = os.fstat(stream.fileno())
            file = known.st_dev, known.st_ino
            if not stat.S_ISREG(known.st_mode) or self._file not in (None, file):
                return  # it was replaced at this moment, as `is_new` says the next time
            self._file = file
            stream.seek(self._offset)
            while (text := stream.readline(_LINE_BYTES)).endswith(b"\n"):
                self._offset += len(text)
                with suppress(msgspec.DecodeError):
                    line = _DECODER.decode(text)
                    if line.metrics is None:
                        self._begin = line
                    elif self._since <= line.time < _LATEST:
                        yield line.sample(self._begin)


class Run:
    """A run in memory, as the lines of a file."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: list[bytes] = []
        self._last: Sample | None = None
        """Not among the rows yet."""
        self._stride = 1
        """How many values a row stands for."""
        self.number = 0
        """Of the last value."""
        self.lately: deque[Sample] = deque(maxlen=LATELY)

    def add(self, sample: Sample) -> None:
        last = self._last
        self.number += 1
        self.lately.append(sample)
        if last is not None and last.count < self._stride and not falls(last, sample):
            self._last = joined(last, sample)
            return
        if last is not None:
            self._rows.append(_ENCODER.encode(_line(last)))
        self._last = sample
        if len(self._rows) >= self._most:
            self.begin_again(thinned(self.samples(), self._most // 2))

    def is_last(self, sample: Sample) -> bool:
        """Whether a report is seen again, as after a restart."""
        last = self._last
        is_as_far = last is not None and (last.at, last.percentage) == (sample.at, sample.percentage)
        return is_as_far and last is not None and sample.values.items() <= last.values.items()

    def begin_again(self, rows: Sequence[Sample]) -> None:
        """Put rows in place of those that are here."""
        self._rows = [_ENCODER.encode(_line(one)) for one in rows[:-1]]
        self._last = rows[-1] if rows else None
        self._stride = max((one.count for one in rows), default=1)

    def samples(self) -> list[Sample]:
        found = [_DECODER.decode(row).sample() for row in self._rows]
        return [*found, self._last] if self._last is not None else found


class _Kept:
    """What is known of the run of one job."""

    def __init__(self, most: int, own: RunFile | None, reported: RunFile | None) -> None:
        self.most = most
        self.own = own
        """The file that its training writes."""
        self.reported = reported
        """The file for what it reports."""
        self.has_own = False
        self.run = Run(most)
        self.generation = 0
        """Rises when the run begins again."""
        self.writer: CurveWriter | None = None

    def refresh(self) -> Run:
        """The run as of now; of a file that cannot be read, as it was."""
        with suppress(OSError):
            if self.own is not None:
                is_new = self.own.is_new()
                found = self.own.read()
                if is_new or not self.has_own:
                    # What was reported before it stands in the file as well.
                    first = next(found, None)
                    if first is None:
                        return self.run
                    self.has_own = True
                    self._begin_again()
                    self.run.add(first)
                for sample in found:
                    self.run.add(sample)
        return self.run

    def begin(self) -> None:
        """Read what was reported before this process began."""
        with suppress(OSError):
            if self.reported is not None and self.reported.is_new():
                for sample in self.reported.read():
                    self.run.add(sample)

    def take(self, samples: Iterable[Sample]) -> None:
        """Take in reports, unless the training keeps each value. Raises OSError: they cannot be written."""
        self.refresh()
        for sample in samples:
            if self.has_own or self.run.is_last(sample):
                continue
            self.run.add(sample)
            if self.reported is None:
                continue
            if self.writer is None:
                self.reported.path.parent.mkdir(mode=0o700, exist_ok=True)
                self.writer = CurveWriter(str(self.reported.path))
            line = _line(sample)
            begin = {"attempt": line.attempt, "total": None, "epochs": None}
            line.attempt = None
            self.writer.add([msgspec.to_builtins(line)], begin, last=True)

    def put_before(self, recorded: Sequence[Sample]) -> None:
        rows = [*recorded, *after(recorded[-1] if recorded else None, self.run.samples())]
        number = self.run.number
        self._begin_again()
        self.run.begin_again(rows)
        self.run.number = number

    def _begin_again(self) -> None:
        self.generation, self.run = self.generation + 1, Run(self.most)


class KeptReports:
    """The runs of one cluster. Its methods are for the event loop; files are read and written by one thread."""

    def __init__(self, folder: Path | None = None, *, most: int = MOST) -> None:
        """`folder`: for what jobs report that keep no file; None keeps it in memory. `most`: rows of a run."""
        self._folder, self._most = folder, most
        self._kept: dict[str, _Kept] = {}
        self._outputs: dict[str, RunFile] = {}
        self._pending: deque[tuple[str, Sample | None]] = deque()
        """None: the run is to be forgotten."""
        self._lock = asyncio.Lock()
        self._using = threading.Lock()
        self._wake = asyncio.Event()
        self.problem = ""
        """Why reports are not kept at the moment; empty: they are."""

    # ------------------------------------------------------------------ the interface

    def has_output(self, uid: str, output: Path, since: float) -> None:
        """The training of the job may keep each value in this folder."""
        self._outputs[uid] = RunFile(output / CURVE, since)

    def append(self, uid: str, report: Sample) -> None:
        if len(self._pending) < _PENDING:
            self._pending.append((uid, report))
            # What is kept in memory may wait for the next question, or for many others.
            if self._folder is not None or len(self._pending) % _BATCH == 0:
                self._wake.set()

    async def read(self, uid: str, *, most: int = SHOWN) -> tuple[list[Sample], tuple[int, int]]:
        """The whole run of a job, oldest first, in at most about so many rows; and where it ends, for `news`."""

        def rows() -> tuple[list[Sample], tuple[int, int]]:
            kept = self._of(uid)
            run = kept.refresh()
            return with_segments(thinned(run.samples(), most)), (kept.generation, run.number)

        return await self._in_thread(rows)

    async def news(self, uid: str, since: tuple[int, int]) -> tuple[list[Sample] | None, tuple[int, int]]:
        """What came after a place; None: the run has begun again since, or grown by too much. And where it ends."""

        def rows() -> tuple[list[Sample] | None, tuple[int, int]]:
            kept = self._of(uid)
            run = kept.refresh()
            count, place = run.number - since[1], (kept.generation, run.number)
            if since[0] != kept.generation or count > len(run.lately):
                return None, place
            return [*run.lately][len(run.lately) - count :], place

        return await self._in_thread(rows)

    async def begin_with(self, uid: str, recorded: Sequence[Sample]) -> None:
        """Put samples that a ring has kept before those that are here."""
        await self._in_thread(lambda: self._of(uid).put_before(recorded))

    def forget(self, uid: str) -> None:
        """The job was deleted: what it reported goes, too. The file that its training wrote stays."""
        self._pending.append((uid, None))
        self._wake.set()

    async def keep_only(self, uids: Collection[str]) -> None:
        """Forget the runs of all other jobs: they were deleted while this process did not run."""
        folder, kept = self._folder, set(uids)
        there = {path.stem for path in folder.glob("*.jsonl")} if folder is not None else set[str]()
        for uid in sorted((there | self._kept.keys()) - kept):
            self.forget(uid)
        await self._in_thread(lambda: None)

    async def run(self) -> None:
        """Write what comes, until cancelled."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._in_thread(lambda: None)
                await asyncio.sleep(WRITE_SECONDS)
        finally:
            self.close()

    def close(self) -> None:
        """Write what is left. Blocks."""
        with self._using:
            self._flush()

    # ------------------------------------------------------------------ of one thread at a time

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        def flushed() -> _Result:
            with self._using:
                self._flush()
                return work()

        async with self._lock:
            return await finished_in_thread(flushed)

    def _of(self, uid: str) -> _Kept:
        if uid not in self._kept:
            reported = RunFile(self._folder / f"{uid}.jsonl") if self._folder is not None else None
            self._kept[uid] = _Kept(self._most, self._outputs.get(uid), reported)
            self._kept[uid].begin()
        return self._kept[uid]

    def _flush(self) -> None:
        """Take in what is pending. What cannot be written is in memory."""
        taken = [self._pending.popleft() for _ in range(len(self._pending))]
        if not taken:
            return
        found: dict[str, list[Sample]] = {}
        problem = ""
        for uid, report in taken:
            if report is not None:
                found.setdefault(uid, []).append(report)
                continue
            found.pop(uid, None)
            self._outputs.pop(uid, None)
            self._kept.pop(uid, None)
            if self._folder is not None:
                with suppress(OSError):
                    (self._folder / f"{uid}.jsonl").unlink()
        for uid, reports in found.items():
            try:
                self._of(uid).take(reports)
            except OSError as error:
                problem = f"{self._folder} cannot be written ({error})"
        if problem and not self.problem:
            log.warning("%s; curves since then are kept in memory", problem)
        self.problem = problem


def every_value(output: Path, since: float) -> Iterator[Sample]:
    """Each value that a training has kept, without joining more. Raises OSError: there are none."""
    return RunFile(output / CURVE, since).read()
