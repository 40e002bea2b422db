# SPDX-License-Identifier: Apache-2.0
"""Lists of indexes such as `0,2-4`, as statuses and success policies of Jobs have them."""

from collections.abc import Iterator


class IndexesError(ValueError):
    """A list of indexes that cannot be read."""


def count_indexes(text: str, completions: int) -> int:
    """How many indexes a list names. Raises IndexesError."""
    last: int | None = None
    total = 0
    for first, final in intervals(text, completions):
        if last is not None and last >= first:
            raise IndexesError(f"non-increasing order, previous: {last}, current: {first}")
        total += final - first + 1
        last = final
    return total


def intervals(text: str, completions: int) -> Iterator[tuple[int, int]]:
    """First and last index of each part. Raises IndexesError."""
    for part in text.split(",") if text else ():
        limits = part.split("-")
        if len(limits) > 2:
            raise IndexesError(
                f'the fragment "{part}" violates the requirement that an index interval can have at most two parts '
                "separated by '-'"
            )
        numbers = [_index(limit, completions) for limit in limits]
        if len(numbers) > 1 and numbers[0] >= numbers[1]:
            raise IndexesError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
        yield numbers[0], numbers[-1]


def _index(text: str, completions: int) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise IndexesError(f'cannot convert string to integer for index: "{text}"')
    if int(text) >= completions:
        raise IndexesError(f'too large index: "{text}"')
    return int(text)


def overlap(completed: str, failed: str, completions: int) -> int | None:
    """The first index that is in both lists; None if there is none, or if a list cannot be read."""
    try:
        one, other = list(intervals(completed, completions)), list(intervals(failed, completions))
    except IndexesError:
        return None
    common = [max(a, c) for a, b in one for c, d in other if a <= d and c <= b]
    return min(common, default=None)
