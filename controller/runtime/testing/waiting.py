# SPDX-License-Identifier: Apache-2.0
"""Waits for the state of a real system, which announces no changes, and says what it last saw when it gives up.

    job = eventually_sync(lambda: get("job", "train"), lambda job: "Complete" in conditions(job))
    await eventually(lambda: watches.open, equals(1))

`look` reads the state, `holds` says whether it is the wanted one; without `holds` any true value is. Let `look` return
what a person needs to understand a failure: `lambda: pods()` with `has_length(2)` reports the pods,
`lambda: len(pods()) == 2` reports False.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Collection, Container
from typing import Any, TypeVar, overload

T = TypeVar("T")

SECONDS = 60.0
POLL_SECONDS = 0.05
_SHOWN = 4000
_LONG_LOOK = 1.0
_NOTHING = object()


class GaveUp(AssertionError):  # noqa: N818 - what the waiting did; pytest shows it as a failed assertion
    """The state did not come in time. `last` is what was last seen: a value, or an exception that counts as one."""

    def __init__(self, message: str, last: Any) -> None:
        super().__init__(message)
        self.last = last


def eventually_sync(
    look: Callable[[], T],
    holds: Callable[[T], object] = bool,
    *,
    seconds: float = SECONDS,
    what: str = "",
    ignore: tuple[type[Exception], ...] = (),
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Poll `look` until its value `holds`; returns the value. Blocks the thread: a coroutine awaits `eventually`.

    Args:
        look: reads the state.
        holds: whether the state is the wanted one.
        seconds: how long to wait at most.
        what: names the wanted state in the error, where the call does not say enough.
        ignore: exceptions of `look` that mean "not yet".
        now: the clock that `seconds` are of.
        sleep: lets time pass on it.

    Raises:
        GaveUp: with what was last seen.
    """
    deadline = now() + seconds
    while True:
        last: Any
        try:
            last = found = look()
        except ignore as error:
            last = error
        else:
            if holds(found):
                return found
        if now() >= deadline:
            raise _gave_up(what, seconds, last)
        sleep(POLL_SECONDS)


@overload
async def eventually(
    look: Callable[[], Awaitable[T]],
    holds: Callable[[T], object] = bool,
    *,
    seconds: float = SECONDS,
    what: str = "",
    ignore: tuple[type[Exception], ...] = (),
) -> T: ...
@overload
async def eventually(
    look: Callable[[], T],
    holds: Callable[[T], object] = bool,
    *,
    seconds: float = SECONDS,
    what: str = "",
    ignore: tuple[type[Exception], ...] = (),
) -> T: ...
async def eventually(
    look: Callable[[], Any],
    holds: Callable[[Any], object] = bool,
    *,
    seconds: float = SECONDS,
    what: str = "",
    ignore: tuple[type[Exception], ...] = (),
) -> Any:
    """As `eventually_sync`, without blocking the event loop. `look` may be a coroutine function.

    A look that takes longer than the time left is cancelled.
    """
    last: Any = _NOTHING
    now = asyncio.get_running_loop().time
    began = now()
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            while True:
                began = now()
                try:
                    found = look()
                    if inspect.isawaitable(found):
                        found = await found
                except ignore as error:
                    last = error
                else:
                    last = found
                    if holds(found):
                        return found
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        if not limit.expired():
            raise
        raise _gave_up(what, seconds, last, now() - began) from None


def _gave_up(what: str, seconds: float, last: Any, looking: float = 0.0) -> GaveUp:
    """`looking`: seconds since the last look began, which ended without an answer if that is long ago."""
    seen = "nothing" if last is _NOTHING else last if isinstance(last, str) and last else repr(last)
    if len(seen) > _SHOWN:
        seen = f"{seen[:_SHOWN]}…"
    hung = f"; the last look had no answer after {looking:.0f} s" if looking >= _LONG_LOOK else ""
    return GaveUp(f"{what or 'it'} did not hold after {seconds:g} s{hung}; last seen: {seen}", last)


def in_coroutine() -> bool:
    """Whether an event loop runs in this thread, which a wait would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def equals(wanted: object) -> Callable[[object], bool]:
    return lambda found: found == wanted


def contains(item: object) -> Callable[[Container[Any]], bool]:
    return lambda found: item in found


def has_length(wanted: int) -> Callable[[Collection[Any]], bool]:
    """Whether the value has so many items."""
    return lambda found: len(found) == wanted


def at_least(wanted: float) -> Callable[[float], bool]:
    """Whether the value is `wanted` or more."""
    return lambda found: found >= wanted


def is_empty(found: object) -> bool:
    """Whether the value is empty, None or false: for looks that return what is still wrong."""
    return not found
