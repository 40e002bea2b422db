# SPDX-License-Identifier: Apache-2.0
"""What is remembered of one job whose progress is read in a pod, and when it is read next. No I/O."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto

from trainwright.api.objects import Key, annotations_of, deletion_timestamp_of, key_of, uid_of
from trainwright.api.trainer.v1alpha1 import Metric, TrainJob
from trainwright.api.trainer.v1alpha1.constants import ANNOTATION_PROGRESS, PROGRESS_FILE
from trainwright.controller.trainer.job.state import State, is_ours, state_of
from trainwright.controller.trainer.progress.reading import Result
from trainwright.controller.trainer.progress.targets import FoundPod, Target

FIRST_SECONDS = 5.0
"""From the first sight of a ready pod to the first read."""
AGAIN_SECONDS = 1.0
"""Before a file that was being written is read again, and before a pod that was replaced is looked for."""
NOT_READY_SECONDS = 10.0
"""Before a pod that is not ready is looked for again, at first; later the interval."""
PATIENCE_SECONDS = 600.0
"""How long a file may be missing."""
LONGEST_SECONDS = 600.0
"""Longest delay after failures."""
TIMEOUTS = 2
"""A command that did not end may still run in the container, so after so many no more is started in this pod."""
OWN = 16
"""How many times of own reports are kept; the coalescer may write one of them later."""
JITTER = 0.1
"""Part of the interval by which a read may be earlier or later."""

Uniform = Callable[[float, float], float]
"""A random number between two."""


class Phase(Enum):
    """What there is to read of a job."""

    NOTHING = auto()
    """It asks for nothing, waits, is suspended or is being deleted."""
    FILE = auto()
    """It runs, and asks for its file to be read."""
    LAST = auto()
    """It has ended, and its last report is in the termination message."""


def phase_of(job: TrainJob) -> Phase:
    """The phase, as far as the job itself tells; its runtime may ask for a file, too."""
    if not is_ours(job) or deletion_timestamp_of(job) is not None or not may_ask(job):
        return Phase.NOTHING
    state = state_of(job).state
    if state in {State.COMPLETE, State.FAILED}:
        return Phase.LAST
    ready = any(one.ready > 0 for one in job.status_or_empty.jobs_status or ())
    return Phase.FILE if ready and state is not State.SUSPENDED else Phase.NOTHING


def is_ready(job: TrainJob, replicated: str) -> bool:
    """Whether JobSet counts the pods of a replicated job as ready."""
    counted = job.status_or_empty.jobs_status or ()
    return any(one.name == replicated and one.ready > 0 for one in counted)


def may_ask(job: TrainJob) -> bool:
    """Whether the job asks for a file, or leaves that to its runtime."""
    return annotations_of(job).get(ANNOTATION_PROGRESS, PROGRESS_FILE) == PROGRESS_FILE


@dataclass(slots=True)
class Watched:
    """The memory of one job."""

    job: TrainJob
    phase: Phase = Phase.NOTHING
    target: Target | None = None
    current: Target | None = None
    """What is read now: the target itself, or one of the initializers before it is ready."""
    loaded: dict[str, list[Metric]] = field(default_factory=dict)
    """What each initializer has reported last, by its replicated job."""
    resolved: bool = False
    """Whether `target` is known; None then means that no file is read."""
    asking: bool = False
    """Whether the target is being asked for."""
    pod: FoundPod | None = None
    """None: to be looked for."""
    reader: int = 0
    last: tuple[bytes, datetime] | None = None
    """Digest of the text that was read last, and when it was seen first."""
    passed_on: bool = False
    """Whether that text was taken."""
    own: deque[str] = field(default_factory=lambda: deque(maxlen=OWN))
    """`lastUpdatedTime` of the last reports that did not come by push."""
    said: set[tuple[str, str]] = field(default_factory=set)
    """Events that were written: uid of the pod, and what."""
    waiting_since: float | None = None
    """Since when the file is missing, by the clock of the event loop."""
    refusal: str = ""
    """What the API server said when it last refused a read."""
    failures: int = 0
    timeouts: int = 0
    again: bool = False
    """Whether this is the second look at a file that was being written."""
    planned: bool = False
    """Whether the next look was planned while one ran."""

    @property
    def key(self) -> Key:
        """Key of the job."""
        return key_of(self.job)

    @property
    def uid(self) -> str:
        """Uid of the job."""
        return uid_of(self.job)

    def ready(self) -> list[Target]:
        """What can be read: the training, or before it the initializers."""
        if self.target is None or is_ready(self.job, self.target.pod.job):
            return [self.target] if self.target is not None else []
        return [one for one in self.target.loading if is_ready(self.job, one.pod.job)]

    def choose(self) -> None:
        """Set what is read next. Initializers take turns: one report holds what all of them have told."""
        before, ready = self.current, self.ready()
        after = [one for one in ready if before is None or one.pod.job > before.pod.job]
        self.current = min(after or ready, key=lambda one: one.pod.job, default=None)
        if self.current != before:
            self.lose_pod()

    def lose_pod(self) -> None:
        """The pod may be another one: look for it again, and forget what was learned about it."""
        self.pod, self.reader, self.failures, self.timeouts = None, 0, 0, 0
        self.waiting_since, self.again = None, False

    def first_of(self, what: str) -> bool:
        """Whether this is the first event of its kind for this pod; then it counts as written."""
        entry = (self.pod.uid if self.pod is not None else "", what)
        if entry in self.said:
            return False
        self.said.add(entry)
        return True

    def after(self, result: Result, now: float, interval: float, uniform: Uniform) -> float | None:
        """Seconds until the next look; None: not before its pods change.

        Args:
            result: of the look that has ended.
            now: by the clock of the event loop.
            interval: seconds between two reads.
            uniform: a random number between two.
        """
        usual = interval * uniform(1 - JITTER, 1 + JITTER)
        again, self.again = self.again, False
        if result is Result.MISSING and self.waiting_since is None:
            self.waiting_since = now
        if result is not Result.MISSING:
            self.waiting_since = None
        match result:
            case Result.OK | Result.STALE | Result.MISSING:
                self.failures = self.timeouts = 0
                pause: float | None = usual
            case Result.EMPTY | Result.PARTIAL:
                self.again = not again
                pause = usual if again else AGAIN_SECONDS
            case Result.NO_READER:
                pause = None
            case Result.NOT_READY:
                pause = min(usual, self._delayed(NOT_READY_SECONDS / 2))
            case Result.GONE:
                pause = self._delayed(AGAIN_SECONDS / 2)
            case Result.TIMEOUT:
                self.timeouts += 1
                pause = self._delayed(usual) if self.timeouts < TIMEOUTS else None
            case _:
                pause = self._delayed(usual)
        return pause

    def is_overdue(self, now: float) -> bool:
        """Whether the file has been missing for so long that users should hear of it."""
        return self.waiting_since is not None and now - self.waiting_since >= PATIENCE_SECONDS

    def _delayed(self, seconds: float) -> float:
        self.failures += 1
        return min(LONGEST_SECONDS, seconds * 2.0 ** min(self.failures, 20))
