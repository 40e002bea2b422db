# SPDX-License-Identifier: Apache-2.0
"""Health and readiness: named checks, each a function that raises or returns a reason (M-27).

Liveness fails only for what a restart would cure: a stalled event loop. A silent watch heals itself and shows in
readiness. The reason of a failing check goes to the log, not to the caller.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

log = logging.getLogger(__name__)

Check: TypeAlias = Callable[[], Awaitable[str | None] | str | None]
"""Gives None if all is well, else why not."""


class Checks:
    """The checks behind one path."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        """Add or replace a check; its name is a path below this one."""
        self._checks[name] = check

    def names(self) -> list[str]:
        """In order of adding."""
        return list(self._checks)

    async def run(self, *, exclude: Iterable[str] = (), only: str | None = None) -> dict[str, bool]:
        """Run the checks; gives which passed. Without any check, one named ping passes. Raises KeyError for `only`."""
        left_out = frozenset(exclude)
        if only is not None:
            return {only: await self._one(only, self._checks[only])}
        results = {name: await self._one(name, check) for name, check in self._checks.items() if name not in left_out}
        return results or {"ping": True}

    async def _one(self, name: str, check: Check) -> bool:
        try:
            answer = check()
            reason = await answer if inspect.isawaitable(answer) else answer
        except Exception:
            log.exception("%s/%s: the check raised", self.path, name)
            return False
        if reason:
            log.warning("%s/%s: %s", self.path, name, reason)
        return not reason


def describe(results: dict[str, bool]) -> str:
    """The body of a verbose answer."""
    lines = [f"[{'+' if passed else '-'}]{name} {'ok' if passed else 'failed'}" for name, passed in results.items()]
    return "\n".join([*lines, "passed" if all(results.values()) else "failed"]) + "\n"
