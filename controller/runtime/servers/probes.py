# SPDX-License-Identifier: Apache-2.0
"""Liveness and readiness: named checks. A check fails if it returns a reason or raises.

Liveness fails only for what a restart repairs: a blocked event loop. A silent watch recovers by itself and fails
readiness. The reason goes to the log, not to the caller, and once until it changes: probes come every few seconds.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

log = logging.getLogger(__name__)

Check: TypeAlias = Callable[[], Awaitable[str | None] | str | None]
"""Returns None, or the reason of a failure."""


class Checks:
    def __init__(self, path: str) -> None:
        self.path = path
        self._checks: dict[str, Check] = {}
        self._told: dict[str, str] = {}
        """The reason that was logged last, of each check that fails."""

    def add(self, name: str, check: Check) -> None:
        """Add or replace a check. Its name is a path below this one."""
        self._checks[name] = check

    async def run(self, *, exclude: Iterable[str] = (), only: str | None = None) -> dict[str, bool]:
        """Run the checks; returns which passed. Without checks `ping` passes. Raises KeyError for an unknown `only`."""
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
            log.exception("%s/%s: the check raised an exception", self.path, name)
            return False
        if not reason:
            self._told.pop(name, None)
        elif self._told.get(name) != reason:
            self._told[name] = reason
            log.warning("%s/%s failed: %s", self.path, name, reason)
        return not reason


def describe(results: dict[str, bool]) -> str:
    """The body of a verbose answer, as kube-apiserver writes it."""
    lines = [f"[{'+' if passed else '-'}]{name} {'ok' if passed else 'failed'}" for name, passed in results.items()]
    return "\n".join([*lines, "passed" if all(results.values()) else "failed"]) + "\n"
