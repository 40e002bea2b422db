# SPDX-License-Identifier: Apache-2.0
"""The reports of a run in little memory, thinned evenly: every second one is dropped when the ring is full.

Of losses, the lowest and the highest value of what was dropped stays. The manager writes the ring to the ConfigMap
`<job>-progress`, which every view reads with the rights of its user:

    found = await client.get(ConfigMap, config_map_name(job.name), job.namespace)
    ring = read(found.data) if belongs(found, job) else None
"""

import math
from array import array
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from trainwright.api.objects import AnyObject, Document, labels_of, owner_reference, owners_of, uid_of
from trainwright.api.trainer.v1alpha1 import TrainJob
from trainwright.controller.trainer.progress.curve import COUNTERS, Sample, after, rounded

POINTS = 184
"""Most rows. With three metrics, one of them a loss, a full ring takes 9.8 KiB of memory, of the 10 that a job may."""
BANDS = 2
"""Most losses of which a ring keeps the lowest and the highest value between two rows."""
METRICS = 32
"""Most metrics of a ring; four of these places are for losses and for the names of `PREFERRED`."""
_RESERVED = 4
PREFERRED = ("loss", "current_step", "current_epoch")
TOTALS = ("total_steps", "total_epochs")
"""Metrics that are constants of the run, and not kept."""
NAME_BYTES = 8192
"""Most bytes of all metric names together, as JSON."""
TEXT_BYTES = 32 * 1024
"""Most bytes of a ring as text."""
VERSION = 1
_NONE = float("nan")
_WIDEST = 3e38
"""Of the lowest and highest values."""
_MOST_ROWS = 10_000
"""Most rows of a text that is read."""
_MOST_COUNT = 65_535
"""Of attempts and segments."""
_STEP = COUNTERS[0]


LABEL, LABEL_VALUE = "trainwright.dev/progress-history", "v1"
"""Marks the ConfigMaps that the manager made, so that no other one is ever written. Views may select by it."""
KEY = "history.json"
"""The key of the ring in `data`."""


class Damaged(ValueError):  # noqa: N818 - it names what was found
    """A text that cannot be decoded as a ring."""


class _Document(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=False):
    """A ring as text. `start` is in seconds since 1970, and `seconds` count from there."""

    version: int
    start: int
    stride: int
    seconds: list[int]
    percentage: list[int | None]
    attempt: list[int | None]
    segment: list[int]
    metrics: dict[str, list[float | None]]
    left_out: int = msgspec.field(default=0, name="leftOut")
    low: dict[str, list[float | None]] = {}
    """Of losses: the lowest value since the row before, where it is not the row's own."""
    high: dict[str, list[float | None]] = {}


_ENCODER, _DECODER = msgspec.json.Encoder(), msgspec.json.Decoder(_Document)


class Ring:
    """The reports of one run, oldest first."""

    __slots__ = (
        "_absorbed",
        "_attempts",
        "_columns",
        "_highs",
        "_lows",
        "_most",
        "_percentages",
        "_seconds",
        "_segments",
        "_stride",
        "left_out",
    )

    def __init__(self, *, points: int = POINTS) -> None:
        """Empty. `points`: most rows, at least 4."""
        self._most = points
        self._seconds = array("q")
        self._percentages = array("b")
        self._attempts = array("H")
        self._segments = array("H")
        self._columns: dict[str, array[float]] = {}
        # Four bytes have the six digits that are kept.
        self._lows: dict[str, array[float]] = {}
        self._highs: dict[str, array[float]] = {}
        self._stride = 1
        self._absorbed = 0
        """How many reports the last row stands for."""
        self.left_out = 0
        """Most metrics of one report for which there was no place."""

    def __len__(self) -> int:
        return len(self._seconds)

    # ------------------------------------------------------------------ in

    def add(self, sample: Sample) -> bool:
        """Take in a report. Returns whether anything is new: the same report again changes nothing.

        Its segment is found here. A percentage beyond 0 to 100 counts as none.
        """
        seconds = math.floor(sample.at)
        percent = sample.percentage if sample.percentage is not None and 0 <= sample.percentage <= 100 else -1
        count = min(sample.attempt, _MOST_COUNT) if sample.attempt is not None and sample.attempt > 0 else 0
        numbers = {name: rounded(float(number)) for name, number in sample.values.items() if name not in TOTALS}
        segment = 0
        edges = {name: (sample.low(name), sample.high(name)) for name in sample.lows.keys() | sample.highs.keys()}
        absorbed: dict[str, tuple[float | None, float | None]] = {}
        if self._seconds:
            if self._is_last(seconds, percent, numbers):
                return False
            segment = min(self._segments[-1] + self._falls(percent, numbers), _MOST_COUNT)
            same_run = segment == self._segments[-1] and count == self._attempts[-1]
            if len(self) > 1 and self._absorbed < self._stride and same_run:
                absorbed = self._edges(len(self) - 1)
                self._pop()
                self._absorbed += 1
            else:
                self._absorbed = 1
        self._append(seconds, percent, count, segment, numbers)
        self._widen(len(self) - 1, edges)
        self._widen(len(self) - 1, absorbed)
        if len(self) > self._most:
            self._thin()
        return True

    def _is_last(self, seconds: int, percent: int, numbers: Mapping[str, float]) -> bool:
        if (self._seconds[-1], self._percentages[-1]) != (seconds, percent):
            return False
        kept = {name: column[-1] for name, column in self._columns.items() if not math.isnan(column[-1])}
        return kept == {name: numbers[name] for name in numbers if name in self._columns}

    def _falls(self, percent: int, numbers: Mapping[str, float]) -> bool:
        steps = self._columns.get(_STEP)
        if steps is not None and not math.isnan(steps[-1]) and _STEP in numbers:
            return numbers[_STEP] < steps[-1]
        return 0 <= percent < self._percentages[-1]

    def _append(self, seconds: int, percent: int, attempt: int, segment: int, numbers: Mapping[str, float]) -> None:
        rows, refused = len(self), 0
        self._seconds.append(seconds)
        self._percentages.append(percent)
        self._attempts.append(attempt)
        self._segments.append(segment)
        for name, column in self._columns.items():
            column.append(numbers.get(name, _NONE))
        for column in (*self._lows.values(), *self._highs.values()):
            column.append(_NONE)
        for name, number in numbers.items():
            if name in self._columns:
                continue
            if self._has_place(name):
                self._columns[name] = array("d", [_NONE]) * rows
                self._columns[name].append(number)
            else:
                refused += 1
        self.left_out = max(self.left_out, refused)

    def _has_place(self, name: str) -> bool:
        preferred = name in PREFERRED or name.endswith("loss")
        if len(self._columns) >= (METRICS if preferred else METRICS - _RESERVED):
            return False
        return sum(map(_name_bytes, (*self._columns, name))) <= NAME_BYTES

    def _pop(self) -> None:
        columns: list[array[Any]] = [self._seconds, self._percentages, self._attempts, self._segments]
        for column in (*columns, *self._columns.values(), *self._lows.values(), *self._highs.values()):
            column.pop()

    def _edges(self, row: int) -> dict[str, tuple[float | None, float | None]]:
        """The lowest and the highest value of each loss that a row stands for."""
        return {
            name: (self._at(self._lows, name, row), self._at(self._highs, name, row))
            for name, column in self._columns.items()
            if name.endswith("loss") and not math.isnan(column[row])
        }

    def _at(self, bands: Mapping[str, "array[float]"], name: str, row: int) -> float:
        band = bands.get(name)
        return self._columns[name][row] if band is None or math.isnan(band[row]) else rounded(band[row])

    def _widen(self, row: int, edges: Mapping[str, tuple[float | None, float | None]]) -> None:
        """Let a row stand for these values of losses, too."""
        for name, (low, high) in edges.items():
            column = self._columns.get(name)
            if column is None or math.isnan(column[row]) or not name.endswith("loss"):
                continue
            for bands, edge, sign in ((self._lows, low, 1), (self._highs, high, -1)):
                if edge is None or sign * rounded(edge) >= sign * self._at(bands, name, row) or abs(edge) > _WIDEST:
                    continue
                if name not in bands and len(bands) >= BANDS:
                    continue
                bands.setdefault(name, array("f", [_NONE]) * len(self))[row] = rounded(edge)

    def _thin(self) -> None:
        """Drop every second row; the first and the last one stay. What a loss was there, the row after it tells."""
        rows = len(self)
        for row in range(1, rows - 1, 2):
            same = (self._attempts[row], self._segments[row]) == (self._attempts[row + 1], self._segments[row + 1])
            if same:
                self._widen(row + 1, self._edges(row))
        kept = [0, *range(2, rows, 2)]
        if kept[-1] == rows - 1:
            self._absorbed += self._stride  # the last row takes in the one before it
        else:
            kept.append(rows - 1)
        self._stride *= 2
        self._seconds = _picked(self._seconds, kept)
        self._percentages = _picked(self._percentages, kept)
        self._attempts = _picked(self._attempts, kept)
        self._segments = _picked(self._segments, kept)
        for bands in (self._lows, self._highs):
            bands.update({name: _picked(column, kept) for name, column in bands.items()})
        thinned = {name: _picked(column, kept) for name, column in self._columns.items()}
        # A name that is no longer used makes place for others.
        self._columns = {name: column for name, column in thinned.items() if not all(map(math.isnan, column))}

    def begin_with(self, recorded: "Ring") -> None:
        """Put the samples of another ring, which then must not be used any more, before those that are here."""
        later = after(recorded.last, self.samples())
        for name in Ring.__slots__:
            setattr(self, name, getattr(recorded, name))
        for sample in later:
            self.add(sample)

    # ------------------------------------------------------------------ out

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics, in the order in which they appeared."""
        return tuple(self._columns)

    def samples(self) -> list[Sample]:
        """All of them, oldest first."""
        return list(map(self._sample, range(len(self))))

    @property
    def last(self) -> Sample | None:
        return self._sample(len(self) - 1) if len(self) else None

    def _sample(self, row: int) -> Sample:
        percent = self._percentages[row]
        return Sample(
            at=float(self._seconds[row]),
            percentage=percent if percent >= 0 else None,
            attempt=self._attempts[row] or None,
            values={name: column[row] for name, column in self._columns.items() if not math.isnan(column[row])},
            segment=self._segments[row],
            lows={name: rounded(column[row]) for name, column in self._lows.items() if not math.isnan(column[row])},
            highs={name: rounded(column[row]) for name, column in self._highs.items() if not math.isnan(column[row])},
        )

    def rise(self, seconds: float) -> tuple[int, int] | None:
        """How much the percentage has risen, and in how many seconds, over the last `seconds` of the last segment.

        None if its last report has no percentage.
        """
        if not self._seconds or self._percentages[-1] < 0:
            return None
        first = len(self) - 1
        segment, oldest = self._segments[first], self._seconds[first] - seconds
        for row in range(first, -1, -1):
            if self._segments[row] != segment or self._seconds[row] < oldest:
                break
            if self._percentages[row] >= 0:
                first = row
        return self._percentages[-1] - self._percentages[first], self._seconds[-1] - self._seconds[first]

    def curve(self, metric: str) -> list[float]:
        """The values of a metric, oldest first; empty for one that is not kept."""
        return [number for number in self._columns.get(metric, ()) if not math.isnan(number)]

    # ------------------------------------------------------------------ as text

    def encode(self, limit: int = TEXT_BYTES) -> str:
        """The ring as text of at most `limit` bytes of UTF-8; the ring is thinned until it fits."""
        text = self._text()
        while len(text) > limit and len(self) > 2:
            self._thin()
            text = self._text()
        return text.decode()

    def _text(self) -> bytes:
        start = self._seconds[0] if self._seconds else 0
        document = _Document(
            version=VERSION,
            start=start,
            stride=self._stride,
            seconds=[seconds - start for seconds in self._seconds],
            percentage=[percent if percent >= 0 else None for percent in self._percentages],
            attempt=[attempt or None for attempt in self._attempts],
            segment=list(self._segments),
            # An array has no null; JSON has no NaN, and msgspec writes it as null.
            metrics={name: list(column) for name, column in self._columns.items()},
            left_out=self.left_out,
            low={name: [*map(rounded, column)] for name, column in self._lows.items()},
            high={name: [*map(rounded, column)] for name, column in self._highs.items()},
        )
        return _ENCODER.encode(document)

    @classmethod
    def decode(cls, text: str, *, points: int = POINTS) -> "Ring":
        """Read a text of `encode`. It may have been edited by anybody. Raises Damaged."""
        try:
            document = _DECODER.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise Damaged(f"it cannot be decoded: {error}") from error
        rows = len(document.seconds)
        columns: Sequence[Sequence[Any]] = (
            document.percentage,
            document.attempt,
            document.segment,
            *document.metrics.values(),
            *document.low.values(),
            *document.high.values(),
        )
        if document.version != VERSION:
            raise Damaged(f"version {document.version} is not known; {VERSION} is")
        if any(len(column) != rows for column in columns):
            raise Damaged("its columns have different lengths")
        if not {*document.low, *document.high} <= {*document.metrics}:
            raise Damaged("it has extremes of metrics that it does not have")
        if rows > _MOST_ROWS or len(document.metrics) > METRICS or document.stride < 1:
            raise Damaged("it is larger than any that the manager writes")
        ring = cls(points=points)
        try:
            ring._fill(document)
        except (OverflowError, ValueError, OSError) as error:
            raise Damaged(f"a value is out of range: {error}") from error
        while len(ring) > points:
            ring._thin()
        return ring

    def _fill(self, document: _Document) -> None:
        self._stride = self._absorbed = min(document.stride, 2**31)
        self.left_out = max(0, document.left_out)
        self._seconds = array("q", [document.start + seconds for seconds in document.seconds])
        for seconds in (min(self._seconds, default=0), max(self._seconds, default=0)):
            datetime.fromtimestamp(seconds, UTC)
        percentages = [-1 if percent is None else percent for percent in document.percentage]
        if not all(-1 <= percent <= 100 for percent in percentages):
            raise ValueError("a percentage is not between 0 and 100")
        self._percentages = array("b", percentages)
        self._attempts = array("H", [attempt or 0 for attempt in document.attempt])
        self._segments = array("H", document.segment)
        for name, column in document.metrics.items():
            self._columns[name] = array("d", [_NONE if number is None else number for number in column])
        for bands, told in ((self._lows, document.low), (self._highs, document.high)):
            for name, column in [*told.items()][:BANDS]:
                numbers = (_NONE if number is None or abs(number) > _WIDEST else number for number in column)
                bands[name] = array("f", numbers)


def _name_bytes(name: str) -> int:
    try:
        return len(_ENCODER.encode(name))
    except UnicodeEncodeError:  # half of a surrogate pair cannot be encoded
        return NAME_BYTES + 1


def _picked(column: "array[Any]", rows: Sequence[int]) -> "array[Any]":
    return array(column.typecode, [column[row] for row in rows])


# ---------------------------------------------------------------------- the ConfigMap


def config_map_name(job: str) -> str:
    return f"{job}-progress"


def belongs(found: AnyObject, job: TrainJob) -> bool:
    """Whether the manager made this ConfigMap for this very job, and not for one of the same name before it."""
    own = any(owner.uid == uid_of(job) and owner.kind == TrainJob.RESOURCE.kind for owner in owners_of(found))
    return own and labels_of(found).get(LABEL) == LABEL_VALUE


def read(data: Mapping[str, str] | None) -> Ring:
    """The ring in the `data` of a ConfigMap. Raises Damaged."""
    text = (data or {}).get(KEY)
    if text is None:
        raise Damaged(f"key {KEY} is missing")
    return Ring.decode(text)


def document_of(job: TrainJob, text: str) -> Document:
    """The ConfigMap to create. It goes away with the job, and its changes start no reconcile of the job."""
    reference = {**owner_reference(job, TrainJob.RESOURCE), "controller": False, "blockOwnerDeletion": False}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": config_map_name(job.name),
            "namespace": job.namespace,
            "labels": {LABEL: LABEL_VALUE},
            "ownerReferences": [reference],
        },
        "data": {KEY: text},
    }
