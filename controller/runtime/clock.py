# SPDX-License-Identifier: Apache-2.0
"""Wall-clock time, for what is written into objects.

Durations and deadlines inside the process use the event loop's clock instead. The wire forms are `api.times`'.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

Now: TypeAlias = Callable[[], datetime]
"""Where a component takes wall-clock time from; tests pass their own."""


def wall_clock() -> datetime:
    """The current time, in UTC."""
    return datetime.now(UTC)
