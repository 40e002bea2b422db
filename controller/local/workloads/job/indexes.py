# SPDX-License-Identifier: Apache-2.0
"""Sets of completion indexes, written as Jobs write them: `0,2-5,7`.

Two neighbours are written `1,2`, three or more `1-3`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Indexes:
    """An immutable set of indexes, held as closed intervals in ascending order that do not touch."""

    intervals: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parse(cls, text: str, completions: int) -> "Indexes":
        """Read the form of the wire. Indexes that are not below `completions` and parts that are no numbers are
        dropped."""
        found: list[tuple[int, int]] = []
        for part in text.split(",") if text else ():
            first, _, last = part.partition("-")
            if not first.isdecimal() or (last and not last.isdecimal()):
                continue
            begin, end = int(first), min(int(last or first), completions - 1)
            if begin >= completions:
                break
            found.append((begin, end))
        return cls(tuple(_joined(found)))

    @classmethod
    def of(cls, indexes: Iterable[int]) -> "Indexes":
        """The set of these indexes."""
        return cls(tuple(_joined((index, index) for index in sorted(set(indexes)))))

    def __or__(self, other: "Indexes") -> "Indexes":
        return Indexes(tuple(_joined(sorted((*self.intervals, *other.intervals)))))

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and any(first <= index <= last for first, last in self.intervals)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def __str__(self) -> str:
        return ",".join(
            str(first) if first == last else f"{first}{',' if last == first + 1 else '-'}{last}"
            for first, last in self.intervals
        )

    def common(self, other: "Indexes") -> int:
        """The number of indexes in both sets."""
        return sum(
            max(0, min(last, end) - max(first, begin) + 1)
            for first, last in self.intervals
            for begin, end in other.intervals
        )

    def absent(self, count: int, completions: int) -> list[int]:
        """The first `count` indexes below `completions` that are not in the set."""
        found: list[int] = []
        candidate = 0
        for first, last in (*self.intervals, (completions, completions)):
            found.extend(range(candidate, min(first, completions, candidate + count - len(found))))
            if len(found) >= count:
                break
            candidate = max(candidate, last + 1)
        return found


def _joined(intervals: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ordered intervals, with those that touch or overlap made one."""
    current: tuple[int, int] | None = None
    for first, last in intervals:
        if current is None:
            current = first, last
        elif first <= current[1] + 1:
            current = current[0], max(current[1], last)
        else:
            yield current
            current = first, last
    if current is not None:
        yield current
