# SPDX-License-Identifier: Apache-2.0
"""Which job is explained next: the jobs that asked for it, in a fair order. No I/O and no clock."""

from typing import Generic, TypeVar

from trainwright.api.objects import Key

T = TypeVar("T")

AGAIN_EACH = 4
"""One of this many turns belongs to a job that was explained before, however many new jobs there are."""


class Reads(Generic[T]):
    """Jobs whose turn has not come yet.

    Jobs that were never explained go first, so a cluster full of jobs that wait for long does not hide why a new one
    waits. In each group the one that has waited longest goes first.
    """

    def __init__(self) -> None:
        self._new: dict[Key, T] = {}
        self._again: dict[Key, T] = {}
        self._turns = 0

    def __len__(self) -> int:
        return len(self._new) + len(self._again)

    def ask(self, key: Key, about: T, *, is_new: bool) -> None:
        """Give the job a turn. One that has asked already keeps its place; `about` replaces what it came with."""
        home = self._new if is_new else self._again
        (self._again if is_new else self._new).pop(key, None)
        home[key] = about

    def drop(self, key: Key) -> None:
        """The job needs no turn."""
        self._new.pop(key, None)
        self._again.pop(key, None)

    def next(self) -> tuple[Key, T] | None:
        """Take the job whose turn it is; None: no job has asked."""
        if not self:
            return None
        self._turns += 1
        first, second = self._new, self._again
        if self._turns % AGAIN_EACH == 0:
            first, second = second, first
        home = first or second
        key = next(iter(home))
        return key, home.pop(key)
