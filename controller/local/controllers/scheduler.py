# SPDX-License-Identifier: Apache-2.0
"""Binds pending pods to nodes.

All pending pods are looked at together, so that the most important one is placed first. That is one key, which every
change of a pod or a node queues. Affinity and anti-affinity between pods and spread constraints are ignored: they say
which of several nodes a pod goes to, and a local cluster has one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from trainwright.api.amounts import Amounts, add, of_containers, read
from trainwright.api.conditions import find
from trainwright.api.nodes import selects, tolerates, untolerated
from trainwright.api.objects import (
    Document,
    Key,
    conditions_of,
    created_of,
    deletion_timestamp_of,
    generation_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from trainwright.api.quantity import Quantity
from trainwright.api.times import format_time
from trainwright.controller.local.controllers.base import Check, ControllerBase, EventReport, PlannedWrite
from trainwright.controller.local.controllers.objects import NODE, POD, is_terminal, node_of
from trainwright.controller.runtime import Conflict, Done, Manager, NotFound, Result
from trainwright.controller.runtime.errors import is_namespace_ending
from trainwright.controller.runtime.lag import Pacer

NO_NODES = "no nodes available to schedule pods"
REPORTER = "default-scheduler"
"""Reporting controller of the events, and the scheduler that pods name."""
_CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_ALL = Key("", "pending-pods")


def requests_of(pod: Document) -> Amounts:
    """What has to be free on a node for the pod: the most that it needs at any time of its life."""
    spec = spec_of(pod)
    # Resources of the whole pod stand in place of those of its containers.
    needed = of_containers(spec, "requests") | read((spec.get("resources") or {}).get("requests"))
    add(needed, read(spec.get("overhead")))
    return needed


@dataclass
class NodeInfo:
    """A node with the pods on it that have not ended."""

    node: Document
    pods: list[Document] = field(default_factory=list)
    left: Amounts = field(init=False)
    """Of its allocatable amounts, and of its places for pods."""

    def __post_init__(self) -> None:
        self.left = read(status_of(self.node).get("allocatable"))
        pods, self.pods = self.pods, []
        for pod in pods:
            if not is_terminal(pod):
                self.add(pod)

    def add(self, pod: Document) -> None:
        self.pods.append(pod)
        for name, amount in (*requests_of(pod).items(), ("pods", Quantity.parse(1))):
            self.left[name] = self.left.get(name, Quantity(0)) - amount

    def missing(self, requested: Amounts) -> list[str]:
        """What is short for a pod, in the words of kube-scheduler."""
        short = ["Too many pods"] if self.left.get("pods", Quantity(0)) < Quantity.parse(1) else []
        first = [name for name in ("cpu", "memory", "ephemeral-storage") if name in requested]
        names = (*first, *sorted(requested.keys() - set(first)))
        scarce = [n for n in names if requested[n] and self.left.get(n, Quantity(0)) < requested[n]]
        return [*short, *(f"Insufficient {name}" for name in scarce)]


def places_of(nodes: Iterable[Document], pods: Iterable[Document], assumed: Mapping[str, str]) -> list[NodeInfo]:
    """The nodes in the order of their names, with the pods on them.

    `assumed`: the nodes, by uid of the pod, of pods whose binding is not visible yet.
    """
    on: dict[str, list[Document]] = {}
    for pod in pods:
        on.setdefault(node_of(pod) or assumed.get(uid_of(pod), ""), []).append(pod)
    return [NodeInfo(node, on.get(name_of(node), [])) for node in sorted(nodes, key=name_of)]


class FitRefusal(NamedTuple):
    reasons: Sequence[str]
    by_room: bool
    """Whether it would fit if other pods went away."""


@dataclass(frozen=True, slots=True)
class FitVerdict:
    """Where a pod goes, or why it does not go anywhere."""

    pod: Document
    node: str = ""
    message: str = ""


def schedule(
    pending: Iterable[Document], places: Sequence[NodeInfo], check: Check | None = None
) -> Iterator[FitVerdict]:
    """Place the pods, the most important and then the oldest first. A pod without a place does not hold up others.

    The verdicts come one by one, so that the caller can pause in between.
    """

    def rank(pod: Document) -> tuple[int, str, str]:
        return -int(spec_of(pod).get("priority") or 0), created_of(pod), name_of(pod)

    for pod in sorted(pending, key=rank):
        refusals: list[FitRefusal] = []
        for place in places:
            refusal = _refusal(pod, place)
            if refusal is None and check is not None and (reason := check(pod, place.pods)):
                refusal = FitRefusal((reason,), by_room=True)
            if refusal is None:
                place.add(pod)
                yield FitVerdict(pod, node=name_of(place.node))
                break
            refusals.append(refusal)
        else:
            yield FitVerdict(pod, message=_message(refusals))


def _refusal(pod: Document, place: NodeInfo) -> FitRefusal | None:
    node, spec = place.node, spec_of(pod)
    if spec_of(node).get("unschedulable") and not tolerates(spec, _CORDON):
        return FitRefusal(("node(s) were unschedulable",), by_room=False)
    if untolerated(spec, node):
        return FitRefusal(("node(s) had untolerated taint(s)",), by_room=False)
    if not selects(spec, node):
        return FitRefusal(("node(s) didn't match Pod's node affinity/selector",), by_room=False)
    if (ports := _host_ports(pod)) and any(ports & _host_ports(other) for other in place.pods):
        return FitRefusal(("node(s) didn't have free ports for the requested pod ports",), by_room=True)
    if short := place.missing(requests_of(pod)):
        return FitRefusal(short, by_room=not NodeInfo(node).missing(requests_of(pod)))
    return None


def _host_ports(pod: Document) -> set[tuple[str, int]]:
    spec = spec_of(pod)
    return {
        (str(port.get("protocol") or "TCP"), int(port["hostPort"]))
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }


def _message(refusals: Sequence[FitRefusal]) -> str:
    """The sentence in which kube-scheduler says why no node takes a pod."""
    if not refusals:
        return NO_NODES
    helps = {True: "No preemption victims found for incoming pod", False: "Preemption is not helpful for scheduling"}
    reasons = Counter(reason for refusal in refusals for reason in refusal.reasons)
    found, tail = (
        ", ".join(sorted(f"{count} {reason}" for reason, count in counted.items()))
        for counted in (reasons, Counter(helps[refusal.by_room] for refusal in refusals))
    )
    available = f"0/{len(refusals)} nodes are available"
    return f"{available}: {found}. no new claims to deallocate, preemption: {available}: {tail}."


def planned(verdict: FitVerdict, now: datetime) -> PlannedWrite | None:
    """What carries out a verdict; None: the pod says already why it does not fit."""
    pod = verdict.pod
    if not verdict.node:
        return _refused(pod, verdict.message, now)
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name_of(pod), "namespace": namespace_of(pod), "uid": uid_of(pod)},
        "target": {"kind": "Node", "name": verdict.node},
    }
    note = f"Successfully assigned {namespace_of(pod)}/{name_of(pod)} to {verdict.node}"
    done = EventReport("Normal", "Scheduled", note, action="Binding")
    # It was deleted, or bound by someone else; its event brings the next look.
    return PlannedWrite(verb="bind", kind=POD, obj=pod, body=body, tolerate=(NotFound, Conflict), done=done)


def _refused(pod: Document, message: str, now: datetime) -> PlannedWrite | None:
    wanted: Document = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastProbeTime": None,
    }
    current: Document = find(conditions_of(pod), "PodScheduled") or {}
    if all(current.get(name) == value for name, value in wanted.items()):
        return None
    same = current.get("status") == "False"
    wanted["lastTransitionTime"] = current.get("lastTransitionTime") if same else format_time(now)
    if generation_of(pod):
        wanted["observedGeneration"] = generation_of(pod)
    return PlannedWrite(
        verb="patch",
        kind=POD,
        obj=pod,
        body={"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [wanted]}},
        options={"type": "strategic", "subresource": "status"},
        tolerate=NotFound,
        done=EventReport("Warning", "FailedScheduling", message, action="Scheduling"),
    )


class Scheduler(ControllerBase):
    REPORTER = REPORTER

    def declare(self, manager: Manager) -> None:
        self._assumed: dict[str, str] = {}
        builder = manager.controller("scheduler").watches(POD, lambda _: (_ALL,)).watches(NODE, lambda _: (_ALL,))
        builder.reconcile(self.reconcile, workers=1)

    async def reconcile(self, key: Key) -> Result:  # noqa: ARG002 - there is only one
        pods = self.cache.list(POD)
        unseen = {uid_of(pod) for pod in pods if not node_of(pod)}
        self._assumed = {uid: node for uid, node in self._assumed.items() if uid in unseen}
        pending = [pod for pod in pods if _is_pending(pod) and uid_of(pod) not in self._assumed]
        if not pending:
            return Done()
        places = places_of(self.cache.list(NODE), pods, self._assumed)
        pacer = Pacer()
        errors: list[Exception] = []
        for verdict in schedule(pending, places, self.settings.check):
            if (write := planned(verdict, self.now())) is not None:
                # A webhook may refuse one binding; the other pods do not wait for it.
                refused = await self.write([write], verdict.pod)
                errors += [error for error in refused if not is_namespace_ending(error)]
                if verdict.node and not refused:
                    self._assumed[uid_of(verdict.pod)] = verdict.node
            await pacer.pause()
        if errors:
            raise errors[0]
        return Done()


def _is_pending(pod: Document) -> bool:
    spec = spec_of(pod)
    return (
        not node_of(pod)
        and not spec.get("schedulingGates")
        and deletion_timestamp_of(pod) is None
        and not is_terminal(pod)
        and (spec.get("schedulerName") or REPORTER) == REPORTER
    )
