# SPDX-License-Identifier: Apache-2.0
"""What keeps a TrainJob from going on, and for how long.

A cause is shown as the condition `Blocked` only after it has lasted for five seconds: a runtime that is applied along
with its job, or an API server that restarts, is nobody's concern. The condition is taken away, not set False, when the
cause is gone. How long a cause has lasted is remembered by this process alone; after a restart the count begins anew,
and a condition that is there stays as it is meanwhile.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from trainwright.controller.runtime import Key
from trainwright.controller.runtime.errors import ApiError, Conflict, KubernetesError, NotControlled
from trainwright.controller.trainer.runtimes import RuntimeMissing, RuntimeUnsupported
from trainwright.controller.trainer.snapshot import SnapshotInvalid
from trainwright.plugins.contract import FactUnavailable, PipelineError

PATIENCE_SECONDS = 5.0
MESSAGE_LIMIT = 300
"""Characters of a condition's message: it is read in tables."""


class Reason(StrEnum):
    """Reasons of the condition `Blocked`."""

    RUNTIME_MISSING = "RuntimeMissing"
    SNAPSHOT_INVALID = "SnapshotInvalid"
    BUILD_FAILED = "BuildFailed"
    APPLY_REFUSED = "ApplyRefused"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One cause, in words for whoever looks at the job."""

    reason: Reason
    message: str
    """What, where and what to do; the same text for the same cause."""
    error: Exception
    final: bool
    """Whether trying again is useless until something changes, which wakes the job by itself."""
    defect: bool = False
    """Whether nobody foresaw it: the log has it with its traceback."""


_SHOWN: dict[type[KubernetesError], tuple[Reason, bool]] = {
    RuntimeMissing: (Reason.RUNTIME_MISSING, True),
    # Who took the name of the snapshot is not watched, so that its going wakes nobody.
    SnapshotInvalid: (Reason.SNAPSHOT_INVALID, False),
    FactUnavailable: (Reason.BUILD_FAILED, False),
    PipelineError: (Reason.BUILD_FAILED, True),
    RuntimeUnsupported: (Reason.BUILD_FAILED, True),
    NotControlled: (Reason.APPLY_REFUSED, False),
    ApiError: (Reason.APPLY_REFUSED, False),
}
"""What is shown of an error, and whether trying again is useless."""


def obstacle_of(error: Exception) -> Obstacle | None:
    """What is shown of an error. None: it is tried again and not shown, as conflicts and a silent API server are."""
    if isinstance(error, Conflict):
        return None
    for kind, (reason, final) in _SHOWN.items():
        if isinstance(error, kind):
            # A plugin's own exception is the cause of what the pipeline raises.
            defect = isinstance(error, PipelineError) and error.__cause__ is not None
            return Obstacle(reason, _told(error), error, final=final, defect=defect)
    if isinstance(error, KubernetesError):
        return None
    message = f"the manager failed at this job ({type(error).__name__}: {error}): see its log"
    return Obstacle(Reason.BUILD_FAILED, message, error, final=False, defect=True)


def _told(error: KubernetesError) -> str:
    """The error's text; of an answer of the API server, with the object (jobsets/mine) in the place of the request."""
    if not isinstance(error, ApiError):
        return str(error)
    path = error.request.partition(" ")[2].partition("?")[0]
    _, _, namespaced = path.partition("/namespaces/")
    _, _, what = namespaced.partition("/")
    return f"{what}: {error.message}" if what else str(error)


class Obstacles:
    """Remembers since when each job has had an obstacle."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """`monotonic` gives seconds on a clock that never goes back, such as the event loop's."""
        self._monotonic = monotonic
        self._since: dict[Key, tuple[Reason, float]] = {}

    def met(self, key: Key, obstacle: Obstacle) -> float:
        """The job has this obstacle now. Returns the seconds until it is to be shown; 0 when it is."""
        now = self._monotonic()
        reason, since = self._since.get(key, (obstacle.reason, now))
        if reason is not obstacle.reason:
            since = now
        self._since[key] = (obstacle.reason, since)
        return max(0.0, since + PATIENCE_SECONDS - now)

    def begins(self, key: Key, obstacle: Obstacle) -> bool:
        """Whether the job has not had an obstacle of this reason until now."""
        return self._since.get(key, (None, 0.0))[0] is not obstacle.reason

    def gone(self, key: Key) -> None:
        """The job has none, or there is no such job any more."""
        self._since.pop(key, None)

    def waiting(self, reason: Reason) -> set[Key]:
        """The jobs that have an obstacle of that reason."""
        return {key for key, (found, _) in self._since.items() if found is reason}


def shortened(message: str) -> str:
    """The message within the limit of a condition, without its middle: API servers say last what is wrong."""
    if len(message) <= MESSAGE_LIMIT:
        return message
    end = MESSAGE_LIMIT // 2
    return f"{message[: MESSAGE_LIMIT - end - 1]}…{message[-end:]}"
