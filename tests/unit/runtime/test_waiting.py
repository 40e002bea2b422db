# SPDX-License-Identifier: Apache-2.0
"""Waiting for a state, and what it says when the state does not come."""

import asyncio
from collections.abc import Callable

import pytest

from trainwright.controller.runtime.testing.clock import jumping
from trainwright.controller.runtime.testing.waiting import (
    GaveUp,
    at_least,
    contains,
    equals,
    eventually,
    eventually_sync,
    has_length,
    is_empty,
)


def counting(*, error: Exception | None = None) -> Callable[[], int]:
    """Counts its calls; the first one may fail."""
    seen = 0

    def look() -> int:
        nonlocal seen
        seen += 1
        if error is not None and seen == 1:
            raise error
        return seen

    return look


def test_the_value_that_holds_is_returned() -> None:
    assert eventually_sync(counting(), at_least(3)) == 3
    assert eventually_sync(lambda: "x") == "x"


def test_giving_up_says_what_was_last_seen() -> None:
    with pytest.raises(GaveUp, match=r"^the job is there did not hold after 0 s; last seen: \['pending'\]$") as failure:
        eventually_sync(lambda: ["pending"], has_length(2), seconds=0, what="the job is there")
    assert failure.value.last == ["pending"]


def test_only_exceptions_that_are_ignored_are() -> None:
    assert eventually_sync(counting(error=FileNotFoundError("no")), ignore=(FileNotFoundError,)) == 2
    with pytest.raises(PermissionError):
        eventually_sync(counting(error=PermissionError("no")), ignore=(FileNotFoundError,))


def test_an_ignored_exception_is_what_was_last_seen() -> None:
    with pytest.raises(GaveUp, match=r"last seen: FileNotFoundError\('no'\)$"):
        eventually_sync(counting(error=FileNotFoundError("no")), seconds=0, ignore=(FileNotFoundError,))


@jumping
async def test_a_look_may_be_a_function_or_a_coroutine_function() -> None:
    look = counting()

    async def later() -> int:
        await asyncio.sleep(1)
        return look()

    assert await eventually(look, equals(2)) == 2
    assert await eventually(later, equals(4)) == 4


@jumping
async def test_a_look_that_hangs_ends_with_the_time() -> None:
    first = True

    async def hang() -> str:
        nonlocal first
        if first:
            first = False
            return "half of it"
        await asyncio.sleep(1000)
        return "all of it"

    with pytest.raises(GaveUp, match="after 5 s; the last look had no answer after 5 s; last seen: half of it"):
        await eventually(hang, equals("all of it"), seconds=5)
    assert asyncio.get_running_loop().time() == 5


@jumping
async def test_a_timeout_of_the_look_itself_is_its_own() -> None:
    async def slow() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await eventually(slow)


@pytest.mark.parametrize(
    ("holds", "value", "other"),
    [
        (equals([1]), [1], [2]),
        (contains("a"), {"a": 1}, {"b": 1}),
        (has_length(2), "ab", "a"),
        (at_least(2), 2, 1),
        (is_empty, {}, {"a": 1}),
        (is_empty, None, "x"),
    ],
)
def test_shorthands(holds: Callable[[object], bool], value: object, other: object) -> None:
    assert holds(value)
    assert not holds(other)
