# SPDX-License-Identifier: Apache-2.0
"""What a reconciler may answer. Anything that goes wrong is raised instead; see `errors.Terminal`."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing more to do until something changes. The same as returning None."""


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Come back after `seconds`, or earlier if something changes; failures are forgotten."""

    seconds: float
    priority: int | None = None
    """For the next run; None keeps the current one (Q-48)."""
    reason: str = "retry after"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Come back after a delay that grows each time: not an error, but not finished either."""

    reason: str
    priority: int | None = None


Result: TypeAlias = Done | RetryAfter | Backoff | None
