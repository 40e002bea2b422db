# SPDX-License-Identifier: Apache-2.0
"""What the node knows of the containers of a pod: plain data, from which `status` makes what is reported."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias

EPOCH = datetime.fromtimestamp(0, UTC)
"""Start time of a container that could not be started, as runtimes report it."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not started yet, or between two runs."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """The process runs."""

    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminated:
    """The process has ended, or could not be started."""

    exit_code: int
    reason: str
    message: str = ""
    started_at: datetime
    finished_at: datetime
    container_id: str = ""


@dataclass(frozen=True, slots=True)
class ContainerFailure:
    """A run that ended with another code than 0."""

    run: int
    exit_code: int
    at: datetime
    stopped: bool
    """Whether the node had begun to stop it: it is a consequence, not a cause."""


State: TypeAlias = Waiting | Running | Terminated


@dataclass(slots=True)
class ContainerState:
    """One container."""

    state: State
    last: Terminated | None = None
    """The run before this one."""
    before_last: Terminated | None = None
    """The run before that, while the container waits for its next one."""
    restarts: int = 0
    image_id: str = ""
    container_id: str = ""
    started: bool = True
    """Whether the present run has passed its startup probe and its postStart hook."""
    ready: bool = True
    """Whether the present run has passed its readiness probe."""
    failures: "list[ContainerFailure]" = field(default_factory=list)
    """The first failed run and the last two."""

    def begin(self, moment: datetime, container_id: str, *, started: bool = True) -> None:
        """A new run has started; `started` is False if probes or hooks have to say more."""
        self.started = self.ready = started
        if isinstance(self.state, Terminated):
            self.last = self.state
        self.state = Running(moment)
        self.container_id = container_id

    def end(self, terminated: Terminated, *, stopped: bool = False) -> None:
        """The run has ended; `stopped` says that the node had begun to stop it."""
        self.state = terminated
        if terminated.exit_code:
            self.failures.append(ContainerFailure(self.restarts, terminated.exit_code, terminated.finished_at, stopped))
            del self.failures[1:-2]

    def wait(self, reason: str, message: str = "") -> None:
        """The next run has not started."""
        if isinstance(self.state, Terminated):
            self.before_last, self.last = self.last, self.state
        self.state = Waiting(reason, message)

    def lose(self, now: datetime) -> None:
        """Nobody knows how the run ended, in the words of a kubelet."""
        if isinstance(self.state, Running):
            self.end(
                Terminated(
                    exit_code=137,
                    reason="ContainerStatusUnknown",
                    message="The container could not be located when the pod was terminated",
                    started_at=self.state.started_at,
                    finished_at=now,
                    container_id=self.container_id,
                ),
                stopped=True,
            )

    def settle(self) -> None:
        """No further run: show the end of the last run, if there was one."""
        if isinstance(self.state, Waiting) and self.last is not None:
            self.state, self.last, self.before_last = self.last, self.before_last, None


@dataclass(frozen=True, slots=True)
class PhaseVerdict:
    """A phase that does not follow from the containers."""

    phase: str
    reason: str
    message: str
    disruption: str = ""
    """Reason of the condition DisruptionTarget; empty if the pod itself is the cause."""


@dataclass(slots=True)
class PodState:
    """All containers of a pod, by name."""

    init: dict[str, ContainerState]
    main: dict[str, ContainerState]
    start_time: datetime
    ready_to_start: bool = False
    """Whether volumes are there."""
    over: bool = False
    """Whether no container will run again."""
    verdict: PhaseVerdict | None = field(default=None)
