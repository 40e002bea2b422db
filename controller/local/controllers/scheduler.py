# SPDX-License-Identifier: Apache-2.0
"""Binds pending pods to nodes.

All pending pods are looked at together, so that the most important one is placed first. That is one key, which every
change of a pod or a node queues.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

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
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from trainwright.api.quantity import Quantity
from trainwright.api.rights import WATCH, Rule
from trainwright.api.selectors import label_selector_of
from trainwright.api.times import format_time
from trainwright.controller.local.controllers.base import Check, ControllerBase
from trainwright.controller.local.controllers.objects import NODE, POD, is_terminal, node_of
from trainwright.controller.runtime import (
    ApiError,
    Conflict,
    Done,
    EventRecorder,
    Forbidden,
    Manager,
    NotFound,
    Pacer,
    Result,
    is_namespace_ending,
)


def requests_of(pod: Document) -> Amounts:
    """What has to be free on a node for the pod: the most that it needs at any time of its life."""
    spec = spec_of(pod)
    # Resources of the whole pod stand in place of those of its containers.
    needed = of_containers(spec, "requests") | read((spec.get("resources") or {}).get("requests"))
    add(needed, read(spec.get("overhead")))
    return needed


def left_on(node: Document, pods: Iterable[Document]) -> Amounts:
    """What is left of a node's allocatable amounts, and of its places for pods, with these pods on it."""
    left = read(status_of(node).get("allocatable"))
    for pod in pods:
        if not is_terminal(pod):
            take(left, requests_of(pod))
    return left


def take(left: Amounts, requested: Amounts) -> None:
    """Subtract a pod from what is left, in place."""
    for name, amount in (*requested.items(), ("pods", Quantity.parse(1))):
        left[name] = left.get(name, Quantity(0)) - amount


def missing(left: Amounts, requested: Amounts) -> list[str]:
    """What is short for a pod, in the words of kube-scheduler."""
    short = ["Too many pods"] if left.get("pods", Quantity(0)) < Quantity.parse(1) else []
    first = [name for name in ("cpu", "memory", "ephemeral-storage") if name in requested]
    others = sorted(requested.keys() - set(first))
    short += [
        f"Insufficient {name}"
        for name in (*first, *others)
        if requested[name] and left.get(name, Quantity(0)) < requested[name]
    ]
    return short


NO_NODES = "no nodes available to schedule pods"
_CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class FitRefusal:
    """Why a pod does not fit on a node."""

    reasons: tuple[str, ...]
    by_room: bool
    """Whether it would fit if other pods went away."""


@dataclass
class NodeInfo:
    """A node with the pods on it."""

    node: Document
    pods: list[Document] = field(default_factory=list)
    left: Amounts = field(init=False)

    def __post_init__(self) -> None:
        self.left = left_on(self.node, self.pods)

    def add(self, pod: Document) -> None:
        """Count a pod that was placed here."""
        self.pods.append(pod)
        take(self.left, requests_of(pod))

    def ports(self) -> set[tuple[str, int]]:
        """The host ports that are taken, with their protocols."""
        return {port for pod in self.pods if not is_terminal(pod) for port in host_ports(pod)}


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
    for pod in sorted(pending, key=lambda pod: (-priority_of(pod), created_of(pod), name_of(pod))):
        refusals: list[FitRefusal] = []
        for place in places:
            refusal = refusal_of(pod, place, places, check)
            if refusal is None:
                place.add(pod)
                yield FitVerdict(pod, node=name_of(place.node))
                break
            refusals.append(refusal)
        else:
            yield FitVerdict(pod, message=message_of(refusals, len(places)))


def priority_of(pod: Document) -> int:
    """`spec.priority`, 0 if it is not set."""
    return int(spec_of(pod).get("priority") or 0)


def host_ports(pod: Document) -> set[tuple[str, int]]:
    """The ports of the node that the containers of a pod ask for."""
    spec = spec_of(pod)
    return {
        (str(port.get("protocol") or "TCP"), int(port["hostPort"]))
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }


def refusal_of(
    pod: Document, place: NodeInfo, places: Sequence[NodeInfo], check: Check | None = None
) -> FitRefusal | None:
    """Why the pod does not fit on a node; None: it does."""
    refusal = _refusal_by_node(pod, place) or _refusal_by_pods(pod, place, places)
    if refusal is None and check is not None and (reason := check(pod, place.pods)):
        return FitRefusal((reason,), by_room=True)
    return refusal


def _refusal_by_node(pod: Document, place: NodeInfo) -> FitRefusal | None:
    node, spec = place.node, spec_of(pod)
    if spec_of(node).get("unschedulable") and not tolerates(spec, _CORDON):
        return FitRefusal(("node(s) were unschedulable",), by_room=False)
    if untolerated(spec, node):
        return FitRefusal(("node(s) had untolerated taint(s)",), by_room=False)
    if not selects(spec, node):
        return FitRefusal(("node(s) didn't match Pod's node affinity/selector",), by_room=False)
    if host_ports(pod) & place.ports():
        return FitRefusal(("node(s) didn't have free ports for the requested pod ports",), by_room=True)
    if short := missing(place.left, requests_of(pod)):
        return FitRefusal(tuple(short), by_room=_could_fit(pod, node))
    return None


def _could_fit(pod: Document, node: Document) -> bool:
    """Whether the pod would fit on the empty node."""
    return not missing(left_on(node, ()), requests_of(pod))


def _refusal_by_pods(pod: Document, place: NodeInfo, places: Sequence[NodeInfo]) -> FitRefusal | None:
    affinity = spec_of(pod).get("affinity") or {}
    for term in _required(affinity, "podAffinity"):
        if not _has_near(pod, term, place, places) and not _is_first(pod, term, place, places):
            return FitRefusal(("node(s) didn't match pod affinity rules",), by_room=False)
    if any(_has_near(pod, term, place, places) for term in _required(affinity, "podAntiAffinity")):
        return FitRefusal(("node(s) didn't match pod anti-affinity rules",), by_room=True)
    for other_place in places:
        for other in other_place.pods:
            for term in _required(spec_of(other).get("affinity") or {}, "podAntiAffinity"):
                if not is_terminal(other) and _selects(other, term, pod) and _is_near(term, place, other_place):
                    return FitRefusal(("node(s) didn't satisfy existing pods anti-affinity rules",), by_room=True)
    return None


def _required(affinity: Document, kind: str) -> Sequence[Document]:
    return (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ()


def _has_near(pod: Document, term: Document, place: NodeInfo, places: Sequence[NodeInfo]) -> bool:
    """Whether a pod that the term selects runs in the same topology domain."""
    return any(
        _is_near(term, place, other) and any(not is_terminal(p) and _selects(pod, term, p) for p in other.pods)
        for other in places
    )


def _is_first(pod: Document, term: Document, place: NodeInfo, places: Sequence[NodeInfo]) -> bool:
    """Whether the pod selects itself and no other is there yet: else the first of a group could never start."""
    if not _selects(pod, term, pod) or term.get("topologyKey") not in labels_of(place.node):
        return False
    return not any(_selects(pod, term, p) for other in places for p in other.pods if not is_terminal(p))


def _is_near(term: Document, place: NodeInfo, other: NodeInfo) -> bool:
    key = str(term.get("topologyKey"))
    here, there = labels_of(place.node).get(key), labels_of(other.node).get(key)
    return here is not None and here == there


def _selects(owner: Document, term: Document, pod: Document) -> bool:
    """Whether a term of `owner` means the pod. Namespaces are compared by name only: their labels are not read, so a
    namespace selector, unless it is absent, selects every namespace."""
    named = term.get("namespaces") or ()
    if term.get("namespaceSelector") is None and namespace_of(pod) not in (named or (namespace_of(owner),)):
        return False
    selector = label_selector_of(term.get("labelSelector"))
    return selector is not None and selector.matches_document(pod)


def message_of(refusals: Sequence[FitRefusal], nodes: int) -> str:
    """The sentence in which kube-scheduler says why no node takes a pod."""
    if not nodes:
        return NO_NODES
    reasons = Counter(reason for refusal in refusals for reason in refusal.reasons)
    found = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    after = Counter(
        "No preemption victims found for incoming pod" if r.by_room else "Preemption is not helpful for scheduling"
        for r in refusals
    )
    tail = ", ".join(sorted(f"{count} {reason}" for reason, count in after.items()))
    available = f"0/{nodes} nodes are available"
    return f"{available}: {found}. no new claims to deallocate, preemption: {available}: {tail}."


def places_of(nodes: Iterable[Document], pods: Iterable[Document], assumed: Mapping[str, str]) -> list[NodeInfo]:
    """The nodes in the order of their names, with the pods on them.

    `assumed`: the nodes, by uid of the pod, of pods whose binding is not visible yet.
    """
    on: dict[str, list[Document]] = {}
    for pod in pods:
        on.setdefault(node_of(pod) or assumed.get(uid_of(pod), ""), []).append(pod)
    return [NodeInfo(node, on.get(name_of(node), [])) for node in sorted(nodes, key=name_of)]


REPORTER = "default-scheduler"
"""Reporting controller of the events, and the scheduler that pods name."""
_ALL = Key("", "pending-pods")
_NOTE = 1024
"""Bytes of the note of an event."""


class Scheduler(ControllerBase):
    """Schedules pods."""

    RULES = (
        Rule.on(POD, *WATCH),
        Rule.on(POD, "create", subresource="binding"),
        Rule.on(POD, "patch", subresource="status"),
        Rule.on(NODE, *WATCH),
        *EventRecorder.RULES,
    )
    REPORTER = REPORTER

    def declare(self, manager: Manager) -> None:
        """Declare what it watches."""
        self._assumed: dict[str, str] = {}
        builder = manager.controller("scheduler").watches(POD, _everything).watches(NODE, _everything)
        builder.reconcile(self.reconcile, workers=1)

    async def reconcile(self, key: Key) -> Result:  # noqa: ARG002 - there is only one
        """Look at all pending pods once."""
        pods = self.cache.list(POD)
        unseen = {uid_of(pod) for pod in pods if not node_of(pod)}
        self._assumed = {uid: node for uid, node in self._assumed.items() if uid in unseen}
        pending = [pod for pod in pods if _is_pending(pod) and uid_of(pod) not in self._assumed]
        if not pending:
            return Done()
        places = places_of(self.cache.list(NODE), pods, self._assumed)
        pacer = Pacer()
        refused: list[ApiError] = []
        for verdict in schedule(pending, places, self.settings.check):
            if verdict.node:
                try:
                    await self._bind(verdict.pod, verdict.node)
                except ApiError as error:  # A webhook may refuse one binding; the other pods do not wait for it.
                    refused.append(error)
            else:
                await self._refuse(verdict.pod, verdict.message)
            await pacer.pause()
        if refused:
            raise refused[0]
        return Done()

    async def _bind(self, pod: Document, node: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name_of(pod), "namespace": namespace_of(pod), "uid": uid_of(pod)},
            "target": {"kind": "Node", "name": node},
        }
        try:
            await self.client.post_subresource(POD, name_of(pod), namespace_of(pod), "binding", body)
        except (NotFound, Conflict):
            return  # deleted, or bound by someone else; its event brings the next look
        except Forbidden as error:
            if is_namespace_ending(error):
                return
            raise
        self._assumed[uid_of(pod)] = node
        note = f"Successfully assigned {namespace_of(pod)}/{name_of(pod)} to {node}"
        self.recorder.event(pod, "Normal", "Scheduled", note, action="Binding")

    async def _refuse(self, pod: Document, message: str) -> None:
        wanted: Document = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastProbeTime": None,
        }
        current = find(conditions_of(pod), "PodScheduled")
        if current is not None and all(current.get(name) == value for name, value in wanted.items()):
            return
        same = current is not None and current.get("status") == "False"
        wanted["lastTransitionTime"] = (current or {}).get("lastTransitionTime") if same else format_time(self.now())
        if generation_of(pod):
            wanted["observedGeneration"] = generation_of(pod)
        patch = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [wanted]}}
        try:
            await self.client.patch(POD, name_of(pod), namespace_of(pod), patch, type="strategic", subresource="status")
        except NotFound:
            return
        note = message if len(message) <= _NOTE or message == NO_NODES else f"{message[: _NOTE - 4]} ..."
        self.recorder.event(pod, "Warning", "FailedScheduling", note, action="Scheduling")


def _everything(obj: Document) -> Iterable[Key]:  # noqa: ARG001 - as every mapper
    return (_ALL,)


def _is_pending(pod: Document) -> bool:
    spec = spec_of(pod)
    return (
        not node_of(pod)
        and not spec.get("schedulingGates")
        and deletion_timestamp_of(pod) is None
        and not is_terminal(pod)
        and (spec.get("schedulerName") or REPORTER) == REPORTER
    )
