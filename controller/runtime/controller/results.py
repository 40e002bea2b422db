# SPDX-License-Identifier: Apache-2.0
"""Results of a reconcile. For errors raise an exception; see `errors.Terminal`."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Done:
    """Do nothing until something changes. The same as returning None."""


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Reconcile again after `seconds`, or earlier if something changes. Resets the failure count."""

    seconds: float
    priority: int | None = None
    """Priority of the next run; None keeps the current one."""
    reason: str = "retry after"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Retry after a delay that grows with each failure in a row. The failure count is kept."""

    reason: str
    priority: int | None = None
    """Priority of the next run; None keeps the current one."""
    at_most: float | None = None
    """Upper bound of the delay in seconds, such as the time left until a deadline; None: the limiter's delay alone.

    The bound shortens one delay. It does not reset the failure count, so the delays after it go on growing.
    """
    error: Exception | None = None
    """The failure to retry, if there is one: logged and counted as if it had been raised.

    A `Terminal` error is not retried. With `at_most` the key is still looked at once more after that time.
    """


Result: TypeAlias = Done | RetryAfter | Backoff | None
