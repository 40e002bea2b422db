# SPDX-License-Identifier: Apache-2.0
"""How long a container that ended waits for its next run: not at all, then 10 s, doubling to 5 min."""

FIRST_SECONDS = 10.0
LONGEST_SECONDS = 300.0
FORGET_SECONDS = 2 * LONGEST_SECONDS
"""After a run that ended so long after the last restart, counting starts again."""


class CrashBackoff:
    """The delays of one container. Times are seconds of any clock."""

    def __init__(self) -> None:
        self._delay = 0.0
        self._restarted = 0.0

    def delay(self, ended: float) -> float:
        """Seconds to wait after a run that ended at `ended`, counted from then."""
        if self._delay and ended - self._restarted > FORGET_SECONDS:
            self._delay = 0.0
        return self._delay

    def restarted(self, now: float) -> None:
        """The container is started again now."""
        self._delay = min(self._delay * 2, LONGEST_SECONDS) if self._delay else FIRST_SECONDS
        self._restarted = now


def go_duration(seconds: float) -> str:
    """Whole seconds as Go prints a duration: `10s`, `1m20s`, `5m0s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
