# SPDX-License-Identifier: Apache-2.0
"""The containers of a pod, and how they ended."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from trainwright.api.objects import Document, dig, uid_of
from trainwright.api.times import moment
from trainwright.controller.trainer.failures.first import LATE_SECONDS, ended_by_deletion, exact_end, written_failures
from trainwright.controller.trainer.failures.last_words import (
    LAUNCHER_SECONDS,
    is_later,
    is_victim,
    program_ended,
    telling_line,
)
from trainwright.controller.trainer.failures.record import Entry, entries_of, entries_of_jobset, name_of_record
from trainwright.controller.trainer.job.pods import attempt_of
from trainwright.controller.trainer.why.kinds import CONFIG_MAP
from trainwright.plugins.contract.picture import Picture, created_at, holds, index_of, pod_order

_LOGS = 8
"""That are read to find the culprit."""


@dataclass(frozen=True, slots=True)
class PodContainer:
    name: str
    image: str
    init: bool
    restarts: int
    waiting: Document | None
    running: Document | None
    terminated: Document | None
    """How the present run ended."""
    last: Document | None
    """How the run before ended."""
    spec: Document

    @property
    def ends(self) -> list[Document]:
        """How the runs that are known ended with an error, the one before first."""
        return [state for state in (self.last, self.terminated) if state is not None and state.get("exitCode")]

    @property
    def ended(self) -> Document | None:
        """How the container ended last with an error: in its present run, else in the one before."""
        return next(reversed(self.ends), None)


def containers_of(pod: Document) -> Iterator[PodContainer]:
    """The containers of the pod, those of initialisation first."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    for init, field, statuses in (
        (True, "initContainers", "initContainerStatuses"),
        (False, "containers", "containerStatuses"),
    ):
        specs = {one.get("name"): one for one in spec.get(field) or ()}
        for one in status.get(statuses) or ():
            own = specs.get(one.get("name")) or {}
            state = one.get("state") or {}
            yield PodContainer(
                name=str(one.get("name")),
                image=str(own.get("image") or one.get("image") or ""),
                init=init,
                restarts=int(one.get("restartCount") or 0),
                waiting=state.get("waiting"),
                running=state.get("running"),
                terminated=state.get("terminated"),
                last=dig(one, "lastState.terminated"),
                spec=own,
            )


def made_good(picture: Picture) -> frozenset[str]:
    """The pods, by uid, whose place another pod has taken that is ready or has succeeded."""
    latest: dict[tuple[str, int, int], Document] = {}
    for pod in sorted(picture.present_pods, key=lambda pod: str(created_at(pod))):
        latest[pod_order(pod)[:3]] = pod
    good = {
        place: uid_of(pod)
        for place, pod in latest.items()
        if holds(pod, "Ready") is not None or dig(pod, "status.phase") == "Succeeded"
    }
    return frozenset(
        uid_of(pod) for pod in picture.present_pods if good.get(pod_order(pod)[:3], uid_of(pod)) != uid_of(pod)
    )


@dataclass(frozen=True)
class FailedContainer:
    pod: Document
    container: PodContainer
    state: Document

    @property
    def code(self) -> int:
        return int(self.state.get("exitCode") or 0)

    @property
    def is_previous(self) -> bool:
        """Whether its log is that of the run before the present one."""
        return self.state is self.container.last

    @property
    def out_of_memory(self) -> bool:
        return self.state.get("reason") == "OOMKilled"

    @property
    def finished(self) -> datetime | None:
        return moment(self.state.get("finishedAt"))

    @property
    def stopped(self) -> bool:
        """Whether its pod was being ended before, so that it is a victim."""
        return self.began[0]

    @cached_property
    def began(self) -> tuple[bool, str, str]:
        """Whether the first of its runs that are known was stopped, and when it ended, as exactly as is known."""
        written, found = written_failures(self.pod), []
        for state in self.container.ends:
            finished = str(state.get("finishedAt") or "")
            exact, stopped = exact_end(written, self.container.name, state)
            found.append((stopped if exact else ended_by_deletion(self.pod, finished), finished or "~", exact or "~"))
        return min(found)

    @property
    def order(self) -> tuple[tuple[bool, str, str], bool, bool, int]:
        """Sorts the likely cause first: the earliest; then one with a reason; then one that was not killed."""
        killed = self.code in (143, 134) or (self.code == 137 and not self.out_of_memory)
        return self.began, not self.out_of_memory, killed, index_of(self.pod)


def failures(picture: Picture) -> list[FailedContainer]:
    """The containers of the present attempt that ended with an error, the first cause first.

    Of a container that failed twice, its present run tells: a kubelet keeps no log of the run before that. A record
    that a manager has taken knows which one was seen first. Without one, words of a victim go last.
    """
    runs = (
        FailedContainer(pod, container, state)
        for pod in picture.present_pods
        for container in containers_of(pod)
        if (state := container.ended) is not None
    )
    found = sorted(runs, key=lambda one: one.order)
    if len(found) < 2:
        return found
    culprit = _recorded(picture, found) or _by_words(picture, found)
    return [culprit, *(one for one in found if one is not culprit)]


def _recorded(picture: Picture, found: list[FailedContainer]) -> FailedContainer | None:
    """The failure that the record names, if it is that of a run which the pods still show."""
    entry = record_of(picture).get(attempt_of(picture.present_pods[0]))
    for one in found if entry is not None else ():
        pod, name = uid_of(one.pod), one.container.name
        runs = ((pod, name, str(end.get("finishedAt") or ""), end.get("exitCode")) for end in one.container.ends)
        if entry is not None and entry.run in runs:
            return one
    return None


def is_culprit_gone(picture: Picture) -> bool:
    """Whether the record names a pod of the present attempt that is gone, as when its Job fails; others lost it."""
    entries, present = record_of(picture), picture.present_pods
    if not entries or not present or max(entries) != attempt_of(present[0]):
        return False
    culprit = entries[max(entries)].pod_uid
    return bool(culprit) and all(uid_of(pod) != culprit for pod in present)


def record_data(picture: Picture) -> Mapping[str, str]:
    """The record of failures, if a manager has written one for this very job."""
    record = picture.get(CONFIG_MAP, name_of_record(picture.name))
    return (record.get("data") or {}) if record is not None and picture.is_controller_of(record) else {}


def record_of(picture: Picture) -> dict[int, Entry]:
    """The attempts of the present JobSet that a manager has recorded."""
    entries = entries_of(record_data(picture))
    return entries_of_jobset(entries, uid_of(picture.jobset)) if picture.jobset is not None else entries


def _by_words(picture: Picture, found: list[FailedContainer]) -> FailedContainer:
    """The first one whose log does not tell of another failure, if its program ended soon enough to be the reason."""
    first = found[0]
    lines = _log(picture, first)
    if first.out_of_memory or not is_victim(lines, first.code, stopped=first.stopped):
        return first
    victim = program_ended(lines, first.began[1])
    latest = LATE_SECONDS + LAUNCHER_SECONDS
    others = [one for one in found[1:_LOGS] if not is_later(one.began[1], victim, latest)]
    # All are asked for at once: a round of reading for each would take long.
    logs = [_log(picture, one) for one in others]
    for one, lines in zip(others, logs, strict=True):
        is_late = is_later(program_ended(lines, one.began[1]), victim, LATE_SECONDS)
        if not is_late and not is_victim(lines, one.code, stopped=one.stopped):
            return one
    return first


def _log(picture: Picture, failure: FailedContainer) -> Sequence[str]:
    return picture.log(failure.pod, failure.container.name, previous=failure.is_previous)


def last_words(picture: Picture, failure: FailedContainer) -> str:
    """The line of the log that says most of the failure; empty without a log."""
    return telling_line(_log(picture, failure), failure.code)
