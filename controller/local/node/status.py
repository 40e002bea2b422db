# SPDX-License-Identifier: Apache-2.0
"""What the node knows of the containers of a pod, and the status that follows, as the kubelet writes it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from trainwright.api import times
from trainwright.api.objects import Document, generation_of, status_of
from trainwright.controller.local.node.document import (
    HOST_IP,
    TERMINAL,
    containers_of,
    is_sidecar,
    phase_of,
    should_restart,
)

# ---------------------------------------------------------------------- state

EPOCH = datetime.fromtimestamp(0, UTC)
"""Start time of a container that could not be started, as runtimes report it."""


@dataclass(frozen=True, slots=True)
class Waiting:
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
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

    def begin(self, moment: datetime, container_id: str, *, started: bool = True, ready: bool = True) -> None:
        """A new run begins; probes and hooks say later what is not `started` or `ready` yet."""
        self.started, self.ready = started, ready
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
    init: dict[str, ContainerState]
    main: dict[str, ContainerState]
    start_time: datetime
    ready_to_start: bool = False
    """Whether volumes are there."""
    over: bool = False
    """Whether no container will run again."""
    verdict: PhaseVerdict | None = field(default=None)


# ---------------------------------------------------------------------- status
#
# Pure: from the pod's document and the state of its containers. Fields that others write (conditions of theirs,
# nominated node, qosClass) are not part of the result, which is merged into the stored status.


def status_document(pod: Document, state: PodState, now: datetime) -> Document:
    """What the node reports of a pod. `now` is the time of conditions that change."""
    phase = _phase_to_report(pod, state)
    document: Document = {
        "phase": phase,
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
        "startTime": times.format_time(state.start_time),
        "conditions": _conditions(pod, state, phase, now),
        "containerStatuses": [_container(one, state.main[one["name"]], init=False) for one in containers_of(pod).main],
        "observedGeneration": generation_of(pod) or None,
    }
    if state.ready_to_start:
        document |= {"podIP": HOST_IP, "podIPs": [{"ip": HOST_IP}]}
    if init := containers_of(pod).init:
        document["initContainerStatuses"] = [_container(one, state.init[one["name"]], init=True) for one in init]
    if state.verdict is not None and state.verdict.phase == phase:
        document |= {"reason": state.verdict.reason, "message": state.verdict.message}
    return {key: value for key, value in document.items() if value is not None}


FAILURES = "node.trainwright.dev/failures"
"""Annotation of a pod whose containers failed: when each did, to the microsecond, for `finishedAt` has whole seconds.

The order of these times is that in which the programs ended on the node; see `process.ends`.
"""


def annotations_to_report(state: PodState) -> dict[str, str]:
    failures = sorted(
        ((one.at, name, one) for name, container in (state.init | state.main).items() for one in container.failures),
        key=lambda entry: entry[:2],
    )
    if not failures:
        return {}
    entries = [
        {"container": name, "run": one.run, "exitCode": one.exit_code, "at": times.format_micro_time(at)}
        | ({"stopped": True} if one.stopped else {})
        for at, name, one in failures
    ]
    return {FAILURES: json.dumps(entries)}


def differs(pod: Document, document: Document) -> bool:
    """Whether the stored status of a pod lacks something that the node reports."""
    stored = status_of(pod)
    for key, value in document.items():
        if key == "conditions":
            held = {one.get("type"): one for one in stored.get("conditions") or ()}
            if any(not _covers(held.get(one["type"]) or {}, one) for one in value):
                return True
        elif stored.get(key) != value:
            return True
    return False


def _covers(stored: Document, wanted: Document) -> bool:
    return all(stored.get(key) == value for key, value in wanted.items() if value is not None)


# ---------------------------------------------------------------------- phase


def _phase_to_report(pod: Document, state: PodState) -> str:
    """The phase; a terminal one that the server already has is never left."""
    if (stored := phase_of(pod)) in TERMINAL:
        return stored
    found = state.verdict.phase if state.verdict is not None else phase(pod, state)
    if found in TERMINAL and not state.over:
        # Reported when nothing runs any more: controllers take a terminal phase as the end of the processes.
        return "Pending" if all(_never_ran(one) for one in state.main.values()) else "Running"
    return found


def phase(pod: Document, state: PodState) -> str:
    init, main = containers_of(pod)
    if before := _phase_before_main(pod, state, [one for one in init if not is_sidecar(one)]):
        return before
    states = [state.main[one["name"]] for one in main]
    every = [*states, *(state.init[one["name"]] for one in init if is_sidecar(one))]
    if any(_never_ran(one) for one in every):
        return "Pending"
    if any(isinstance(one.state, Running) for one in every):
        return "Running"
    ends = [end for one in states if (end := _end_of(one)) is not None]
    if not state.over and any(should_restart(pod, one, end.exit_code) for one, end in zip(main, ends, strict=True)):
        return "Running"
    return "Succeeded" if all(end.exit_code == 0 for end in ends) else "Failed"


def _phase_before_main(pod: Document, state: PodState, containers: Iterable[Document]) -> str:
    """The phase while init containers (without sidecars) decide it; empty when all are done."""
    ends = [(one, _end_of(state.init[one["name"]])) for one in containers]
    if any(end and end.exit_code != 0 and not should_restart(pod, one, end.exit_code) for one, end in ends):
        return "Failed"
    # One that failed and is started again has an end: then containers that never ran make the phase Pending.
    return "Pending" if any(end is None for _, end in ends) else ""


def _never_ran(container: ContainerState) -> bool:
    return isinstance(container.state, Waiting) and container.last is None


def _end_of(container: ContainerState) -> Terminated | None:
    """The end of the run that counts for the phase; None while it runs or before the first run."""
    if isinstance(container.state, Terminated):
        return container.state
    return container.last if isinstance(container.state, Waiting) else None


# ---------------------------------------------------------------------- containers


def _container(container: Document, state: ContainerState, *, init: bool) -> Document:
    running = isinstance(state.state, Running)
    succeeded = isinstance(state.state, Terminated) and state.state.exit_code == 0
    document: Document = {
        "name": container["name"],
        "image": container.get("image") or "",
        "imageID": state.image_id,
        "restartCount": state.restarts,
        # An init container is ready when it is done.
        "ready": succeeded if init and not is_sidecar(container) else running and state.ready,
        "started": running and state.started,
        "state": _state(state.state),
        "lastState": _state(state.last) if state.last is not None else {},
    }
    if state.container_id:
        document["containerID"] = state.container_id
    return document


def _state(state: State) -> Document:
    match state:
        case Waiting(reason, message):
            return {"waiting": {"reason": reason, "message": message} if message else {"reason": reason}}
        case Running(started_at):
            return {"running": {"startedAt": times.format_time(started_at)}}
        case Terminated():
            terminated: dict[str, Any] = {
                "exitCode": state.exit_code,
                "reason": state.reason,
                "message": state.message,
                "startedAt": times.format_time(state.started_at),
                "finishedAt": times.format_time(state.finished_at),
                "containerID": state.container_id,
            }
            return {"terminated": {key: value for key, value in terminated.items() if value not in {"", None}}}


# ---------------------------------------------------------------------- conditions


def _conditions(pod: Document, state: PodState, phase: str, now: datetime) -> list[Document]:
    containers = _containers_ready(pod, state, phase)
    conditions = {
        "PodReadyToStartContainers": ("True" if state.ready_to_start and not state.over else "False", "", ""),
        "Initialized": _initialized(pod, state, phase),
        "Ready": containers,
        "ContainersReady": containers,
        "PodScheduled": ("True", "", ""),
    }
    verdict = state.verdict
    if verdict is not None and verdict.phase == phase and verdict.disruption:
        conditions["DisruptionTarget"] = ("True", verdict.disruption, verdict.message)
    stored = {one.get("type"): one for one in status_of(pod).get("conditions") or ()}
    return [_condition(pod, kind, *values, stored.get(kind), now) for kind, values in conditions.items()]


def _condition(
    pod: Document, kind: str, status: str, reason: str, message: str, stored: Document | None, now: datetime
) -> Document:
    since = times.format_time(now)
    if stored is not None and stored.get("status") == status and stored.get("lastTransitionTime"):
        since = stored["lastTransitionTime"]
    document: Document = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": since}
    # None clears what an earlier state said.
    document |= {"reason": reason or None, "message": message or None}
    if generation := generation_of(pod):
        document["observedGeneration"] = generation
    return document


def _containers_ready(pod: Document, state: PodState, phase: str) -> tuple[str, str, str]:
    if phase == "Succeeded":
        return "False", "PodCompleted", ""
    if phase == "Failed":
        return "False", "PodFailed", ""
    init, main = containers_of(pod)
    unready = [
        one["name"]
        for one in [*(one for one in init if is_sidecar(one)), *main]
        if not _is_ready(_of(state, one["name"]))
    ]
    if unready:
        return "False", "ContainersNotReady", f"containers with unready status: {_listed(unready)}"
    return "True", "", ""


def _initialized(pod: Document, state: PodState, phase: str) -> tuple[str, str, str]:
    if phase == "Succeeded":
        return "True", "PodCompleted", ""
    if any(not _never_ran(one) for one in state.main.values()):
        return "True", "", ""
    incomplete = [one["name"] for one in containers_of(pod).init if not _is_initialized(one, state.init[one["name"]])]
    if incomplete:
        return "False", "ContainersNotInitialized", f"containers with incomplete status: {_listed(incomplete)}"
    return "True", "", ""


def _is_initialized(container: Document, state: ContainerState) -> bool:
    if is_sidecar(container):
        return isinstance(state.state, Running) and state.started
    return isinstance(state.state, Terminated) and state.state.exit_code == 0


def _is_ready(state: ContainerState) -> bool:
    return isinstance(state.state, Running) and state.ready


def _of(state: PodState, name: str) -> ContainerState:
    return state.init[name] if name in state.init else state.main[name]


def _listed(names: Iterable[str]) -> str:
    return f"[{' '.join(names)}]"
