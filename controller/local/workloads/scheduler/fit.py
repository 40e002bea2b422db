# SPDX-License-Identifier: Apache-2.0
"""Places pods on nodes: a pure function of both. Says in kube-scheduler's words why a pod has no place.

Nobody is preempted. The checks and their texts are those of kube-scheduler 1.36; a node that fails one check is not
checked further, so its first reason counts.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from trainwright.api.nodes import selects, tolerates, untolerated
from trainwright.api.objects import Document, labels_of, name_of, namespace_of, uid_of
from trainwright.controller.local.workloads.documents import created_of, labels_match, spec_of
from trainwright.controller.local.workloads.pods import is_terminal, node_of
from trainwright.controller.local.workloads.scheduler.requests import Amounts, left_on, missing, requests_of, take

Check: TypeAlias = Callable[[Document, Sequence[Document]], str | None]
"""A check of the node's own: given a pod and the pods on the node, why the pod does not fit; None: it does."""

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
    selector: Mapping[str, object] | None = term.get("labelSelector")
    return selector is not None and labels_match(selector, labels_of(pod))


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
