# SPDX-License-Identifier: Apache-2.0
"""The containers of a pod, and how they ended."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from trainwright.api.objects import Document, uid_of
from trainwright.plugins.contract.picture import Picture, created_at, holds, index_of, moment, pod_order


@dataclass(frozen=True, slots=True)
class Container:
    """One container with its state."""

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
    def ended(self) -> Document | None:
        """How the container ended last with an error: in its present run, else in the one before."""
        for state in (self.terminated, self.last):
            if state is not None and state.get("exitCode"):
                return state
        return None


def containers_of(pod: Document) -> Iterator[Container]:
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
            yield Container(
                name=str(one.get("name")),
                image=str(own.get("image") or one.get("image") or ""),
                init=init,
                restarts=int(one.get("restartCount") or 0),
                waiting=state.get("waiting"),
                running=state.get("running"),
                terminated=state.get("terminated"),
                last=(one.get("lastState") or {}).get("terminated"),
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
        if holds(pod, "Ready") is not None or (pod.get("status") or {}).get("phase") == "Succeeded"
    }
    return frozenset(
        uid_of(pod) for pod in picture.present_pods if good.get(pod_order(pod)[:3], uid_of(pod)) != uid_of(pod)
    )


@dataclass(frozen=True, slots=True)
class Failure:
    """One container that ended with an error."""

    pod: Document
    container: Container
    state: Document

    @property
    def code(self) -> int:
        """The exit code."""
        return int(self.state.get("exitCode") or 0)

    @property
    def out_of_memory(self) -> bool:
        """Whether the kernel killed it for memory."""
        return self.state.get("reason") == "OOMKilled"

    @property
    def finished(self) -> datetime | None:
        """When it ended."""
        return moment(self.state.get("finishedAt"))

    @property
    def order(self) -> tuple[str, bool, bool, int]:
        """Sorts the likely cause first: the earliest; then one with a reason; then one that was not killed."""
        killed = self.code in (143, 134) or (self.code == 137 and not self.out_of_memory)
        return (str(self.state.get("finishedAt") or "~"), not self.out_of_memory, killed, index_of(self.pod))


def failures(picture: Picture) -> list[Failure]:
    """The containers of the present attempt that ended with an error, the first cause first."""
    found = [
        Failure(pod, container, state)
        for pod in picture.present_pods
        for container in containers_of(pod)
        for state in (container.terminated, container.last)
        if state is not None and state.get("exitCode")
    ]
    return sorted(found, key=lambda one: one.order)
