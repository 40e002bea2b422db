# SPDX-License-Identifier: Apache-2.0
"""Pods that have no node: too few free devices, nodes that are too small, selectors, taints, claims, gates."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from trainwright.api.kubernetes.core.v1 import PodSpec
from trainwright.api.messages import counted
from trainwright.api.nodes import is_local, selects, tolerates, untolerated
from trainwright.api.objects import Document, controller_of, dig, name_of, uid_of
from trainwright.api.quantity import Quantity
from trainwright.controller.trainer.why import messages
from trainwright.controller.trainer.why.catalogue import cause, here, of_pods, runtime_of
from trainwright.controller.trainer.why.kinds import CLAIM, NODE, STORAGE_CLASS
from trainwright.controller.trainer.why.words import amount, listed, quoted, scheduler_says, verb
from trainwright.plugins.contract.picture import (
    About,
    Cause,
    Picture,
    condition_of,
    created_at,
    earliest,
    event_since,
    since_of,
)
from trainwright.plugins.contract.picture import counted as share
from trainwright.plugins.contract.podset import pod_requests

UNSCHEDULABLE_SECONDS = 10.0
NO_SCHEDULER_SECONDS = 60.0
_SELECTOR = "didn't match Pod's node affinity/selector"
_TAINT = "untolerated taint"
_GANG = ("PodGroup", "sibling pods", "gang", "pod group", "resource gap")
_MOST_PODS = 1000
_CORDONED = "node.kubernetes.io/unschedulable"
"""The key of the taint of a node that an administrator has closed for new pods."""
_SILENT = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Those of nodes that are not ready or do not answer."""


class WaitingPods(NamedTuple):
    message: str
    pods: tuple[Document, ...]
    since: datetime | None

    def told(self, reason: str, text: str, **more: Any) -> Cause:
        return of_pods(reason, text, *self.pods, since=self.since, **more)


def unscheduled(picture: Picture) -> Iterator[Cause]:
    """Why pods have no node; one cause for the pods that wait for the same."""
    waiting = [pod for pod in picture.present_pods if _has_no_node(pod)]
    yield from _unseen(picture, [pod for pod in waiting if condition_of(pod, "PodScheduled") is None])
    for group in _groups(waiting):
        if group.message.startswith("gate "):
            yield _gated(group)
        elif any(word in group.message for word in _GANG):
            continue  # The plugin of the gang scheduler says it.
        elif picture.lasted(group.since, UNSCHEDULABLE_SECONDS) or _coming(picture, group) is not None:
            yield _coming(picture, group) or _why(picture, group)


def _has_no_node(pod: Document) -> bool:
    phase = dig(pod, "status.phase") or "Pending"
    is_ending = dig(pod, "metadata.deletionTimestamp")
    return phase == "Pending" and not is_ending and not dig(pod, "spec.nodeName")


def _groups(pods: Sequence[Document]) -> list[WaitingPods]:
    found: dict[str, list[Document]] = {}
    for pod in pods:
        condition = condition_of(pod, "PodScheduled")
        if condition is None or condition.get("status") != "False":
            continue
        message = scheduler_says(str(condition.get("message", "")))
        gates = dig(pod, "spec.schedulingGates") or ()
        if condition.get("reason") == "SchedulingGated" or gates:
            message = f"gate {listed(str(gate.get('name')) for gate in gates)}"
        found.setdefault(message, []).append(pod)
    return [
        WaitingPods(message, tuple(some), earliest(since_of(condition_of(pod, "PodScheduled")) for pod in some))
        for message, some in sorted(found.items())
    ]


def _unseen(picture: Picture, pods: Sequence[Document]) -> Iterator[Cause]:
    old = [pod for pod in pods if picture.lasted(created_at(pod), NO_SCHEDULER_SECONDS)]
    if not old:
        return
    name = str(dig(old[0], "spec.schedulerName") or "default-scheduler")
    text = (
        f"no scheduler has looked at {share(old, picture.present_pods)}: their schedulerName is {name}; is it "
        "installed and running? If not, use another runtime"
    )
    yield cause(
        "SchedulerMissing", text, About.of(old[0], "Pod"), earliest(created_at(pod) for pod in old), pods=len(old)
    )


def _gated(group: WaitingPods) -> Cause:
    gates = group.message.removeprefix("gate ")
    who = (
        "Kueue removes it when the job is admitted"
        if "kueue" in gates
        else "the controller that set it has to remove it"
    )
    text = (
        f"{counted(len(group.pods), 'pod')} {verb(len(group.pods), 'is', 'are')} held by scheduling gate {gates}: {who}"
    )
    return group.told("SchedulingGated", text)


def _coming(picture: Picture, group: WaitingPods) -> Cause | None:
    """The autoscaler has asked for a node for these pods."""
    for event in picture.events(*group.pods):
        if event.get("reason") == "NotTriggerScaleUp":
            return None
        if event.get("reason") == "TriggeredScaleUp":
            number = len(group.pods)
            text = f"the autoscaler adds a node for {counted(number, 'pod')} of the job; nothing is to be done"
            return cause("NodeComing", text, About.of(group.pods[0], "Pod"), event_since(event), pods=number)
    return None


def _why(picture: Picture, group: WaitingPods) -> Cause:
    if told := _claims(picture, group):
        return told
    reasons = [
        (int(count), text.strip().rstrip(".")) for count, text in messages.NODES_REASON.findall(_after(group.message))
    ]
    short = sorted(found[1] for _, text in reasons if (found := messages.INSUFFICIENT.search(text)))
    nodes = picture.list(NODE)
    if nodes and (told := _from_nodes(picture, group, nodes, short)) is not None:
        return told
    if short:
        return group.told("NoFreeNode", _shortage(picture, group, short, nodes))
    if not nodes and any(_TAINT in text for _, text in reasons):
        return group.told("NodesTainted", _tainted_text(picture, group, []))
    if not nodes and len(reasons) == 1 and _SELECTOR in reasons[0][1]:
        return group.told("NoNodeMatches", _selector_text(picture, group.pods[0], nodes))
    told_by = quoted(_after(group.message) or group.message, 200)
    who = share(group.pods, picture.present_pods)
    return group.told(
        "Unschedulable", f"{who} {verb(len(group.pods), 'has', 'have')} no node; the scheduler says: {told_by}"
    )


def _claims(picture: Picture, group: WaitingPods) -> Cause | None:
    """The scheduler stops at a claim that is missing or has no volume."""
    if found := messages.CLAIM.search(group.message):
        return _claim_missing(picture, found[1], group) if found[2] == "not found" else None
    if "unbound immediate PersistentVolumeClaims" not in group.message:
        return None
    for pod in picture.present_pods:
        for name in _claims_of(pod):
            claim = picture.get(CLAIM, name)
            if claim is None and picture.lacks(CLAIM, name):
                return _claim_missing(picture, name, group)
            if claim is not None and dig(claim, "status.phase") == "Pending":
                return _claim_pending(picture, claim, group)
    return group.told("ClaimPending", "a PersistentVolumeClaim of the pods has no volume yet: see `kubectl get pvc`")


def _claims_of(pod: Document) -> list[str]:
    volumes = dig(pod, "spec.volumes") or ()
    return [one["persistentVolumeClaim"]["claimName"] for one in volumes if one.get("persistentVolumeClaim")]


def _claim_missing(picture: Picture, name: str, group: WaitingPods) -> Cause:
    text = (
        f"PersistentVolumeClaim {name} does not exist in namespace {picture.namespace}: create it, or correct the "
        "volume in the runtime and create the job again"
    )
    return group.told("ClaimMissing", text, about=here(picture, "PersistentVolumeClaim", name))


def _claim_pending(picture: Picture, claim: Document, group: WaitingPods) -> Cause:
    name = name_of(claim)
    storage = dig(claim, "spec.storageClassName")
    if storage and picture.lacks(STORAGE_CLASS, storage):
        why = f"StorageClass {storage} does not exist; use another class"
    else:
        warned = [one for one in picture.events(claim) if one.get("type") == "Warning"]
        any_of = warned or list(picture.events(claim))
        why = (
            quoted(str(any_of[0].get("message", "")))
            if any_of
            else f"no volume was made for it; see `kubectl describe pvc {name}`"
        )
    about = About.of(claim, "PersistentVolumeClaim")
    return group.told("ClaimPending", f"PersistentVolumeClaim {name} is Pending: {why}", about=about)


def _after(message: str) -> str:
    return message.partition("nodes are available:")[2].strip()


def _from_nodes(picture: Picture, group: WaitingPods, nodes: Sequence[Document], short: Sequence[str]) -> Cause | None:
    """What the nodes themselves tell: selector, then taints, then size; None if they would do."""
    spec = group.pods[0].get("spec") or {}
    requests = requests_of(spec)
    selected = [node for node in nodes if selects(spec, node)]
    if not selected:
        return group.told("NoNodeMatches", _selector_text(picture, group.pods[0], nodes))
    large = [node for node in selected if is_large_enough(node, requests)]
    if large and all(untolerated(spec, node) for node in large):
        return group.told("NodesTainted", _tainted_text(picture, group, large))
    if large:
        return None
    lacking = [name for name in requests if all(requests[name] > allocatable(node, name) for node in selected)]
    resource = next((name for name in (*short, *lacking) if name in lacking), next(iter(lacking), ""))
    if not resource:
        return None
    return group.told("NodesTooSmall", _too_small(spec, selected, resource, requests[resource]))


def _too_small(spec: Document, nodes: Sequence[Document], resource: str, asked: Quantity) -> str:
    most = max(allocatable(node, resource) for node in nodes)
    which = "no node that the node selector allows" if spec.get("nodeSelector") else "no node"
    if not most and all(map(is_local, nodes)):
        return (
            f"this machine has no {resource}, and each pod asks for {amount(resource, asked)}: run the job on a "
            "cluster that has it, or use another runtime"
        )
    if not most:
        return (
            f"{which} offers {resource}, and each pod asks for {amount(resource, asked)}: is its device plugin "
            "running? Else use another cluster or runtime"
        )
    largest = amount(resource, most)
    advice = f"ask for at most {largest} per node" + (", on more nodes" if "/" in resource else "")
    return (
        f"{which} has {amount(resource, asked)} {resource} (the largest has {largest}): {advice}, unless an "
        "autoscaler adds larger nodes"
    )


def _shortage(picture: Picture, group: WaitingPods, short: Sequence[str], nodes: Sequence[Document]) -> str:
    requests = requests_of(group.pods[0].get("spec") or {})
    asked = listed(f"{amount(name, requests[name])} {name}" if name in requests else name for name in short)
    number = len(group.pods)
    who = f"{share(group.pods, picture.present_pods)} {verb(number, 'waits', 'wait')} for {asked}"
    who += "" if number == 1 else " each"
    if nodes:
        room = _room(picture, group, nodes)
        if room is not None:
            return (
                f"{who}: together, the nodes that match have room for {counted(room, 'such pod')}; use a smaller "
                "numNodes, or ask for less, unless an autoscaler adds nodes"
            )
        return f"{who}: there are nodes of that size, and other pods use them; wait, or ask for less"
    return f"{who}: no node has that much free; wait, or ask for less"


def _room(picture: Picture, group: WaitingPods, nodes: Sequence[Document]) -> int | None:
    """How many such pods the nodes hold at the same time, if the job has more of them that run at the same time."""
    spec = group.pods[0].get("spec") or {}
    requests = requests_of(spec)
    alike = [pod for pod in picture.present_pods if _is_alike(pod, requests)]
    fitting = [node for node in nodes if selects(spec, node) and not untolerated(spec, node)]
    room = sum(room_for(node, requests) for node in fitting)
    return room if 0 < room < len(alike) else None


def _is_alike(pod: Document, requests: Mapping[str, Quantity]) -> bool:
    is_over = dig(pod, "status.phase") in ("Succeeded", "Failed")
    is_ending = dig(pod, "metadata.deletionTimestamp")
    return not is_over and not is_ending and requests_of(pod.get("spec") or {}) == requests


def _selector_text(picture: Picture, pod: Document, nodes: Sequence[Document]) -> str:
    spec = pod.get("spec") or {}
    selector: Document = spec.get("nodeSelector") or {}
    absent = [
        f"{key}={value}"
        for key, value in selector.items()
        if not any((dig(node, "metadata.labels") or {}).get(key) == value for node in nodes)
    ]
    wanted = absent or [f"{key}={value}" for key, value in selector.items()]
    if not wanted:
        origin = _origin(picture, pod, lambda part: bool((part.get("affinity") or {}).get("nodeAffinity")))
        return f"no node matches the node affinity that {origin}: correct it there, or label a node"
    labels = "the label" if len(wanted) == 1 else "the labels"
    pairs = {key: selector[key] for key in (text.partition("=")[0] for text in wanted)}
    origin = _origin(picture, pod, lambda part: pairs.items() <= (part.get("nodeSelector") or {}).items())
    every = "" if absent or len(wanted) == 1 else " at the same time"
    return f"no node has {labels} {listed(wanted)}{every}, which {origin}: correct it there, or label a node"


def _origin(picture: Picture, pod: Document, asks: Callable[[Document], bool]) -> str:
    """Who asks for what a pod asks for: looked up in what the pod was made of, from the TrainJob on."""
    runtime, owner = runtime_of(picture), controller_of(pod)
    made = [("JobSet", picture.jobset)]
    made += [("Job", one) for one in picture.jobs if owner is not None and uid_of(one) == owner.uid]
    kind, first = next(((kind, one) for kind, one in made if one and _part(one, asks)), ("Pod", pod))
    if kind == "JobSet" or picture.jobset is None:
        for patch in dig(picture.job, "spec.runtimePatches") or ():
            if _part(patch.get("trainingRuntimeSpec"), asks):
                return f"the patch of {patch.get('manager')} asks for"
        if _part(runtime, asks):
            return "the runtime asks for"
    beside = "" if runtime is None else " and the runtime does not"
    return f"{kind} {name_of(first)} asks for{beside}"


def _part(value: object, asks: Callable[[Document], bool]) -> Document | None:
    """The innermost object inside a value that asks for it, such as the spec of a pod."""
    if isinstance(value, dict) and asks(value):
        return value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((found for one in inner if (found := _part(one, asks)) is not None), None)


def _tainted_text(picture: Picture, group: WaitingPods, nodes: Sequence[Document]) -> str:
    spec = group.pods[0].get("spec") or {}
    taints = [taint for node in nodes for taint in untolerated(spec, node)]
    who = share(group.pods, picture.present_pods)
    names = listed(name_of(node) for node in nodes)
    keys = {taint.get("key") for taint in taints}
    if keys == {_CORDONED}:
        return f"{who} cannot start: the nodes that fit ({names}) are cordoned; ask the administrator to uncordon them"
    if keys and keys <= _SILENT:
        return f"{who} cannot start: the nodes that fit ({names}) are not ready; ask the administrator of the nodes"
    if not taints:
        return f"{who} cannot start: nodes have taints that the pods do not tolerate; add tolerations to the runtime"
    names = listed(taint_text(taint) for taint in taints if taint.get("key") != _CORDONED)
    number = len(nodes)
    fit = "the one node that fits has" if number == 1 else f"the {number} nodes that fit have"
    which = f"{fit} the {'taint' if len(set(map(taint_text, taints))) == 1 else 'taints'} {names}, which"
    runtime = runtime_of(picture)
    if _part(runtime, lambda part: all(tolerates(part, taint) for taint in taints)):
        return f"{which} the runtime tolerates and the pods, which were made otherwise, do not: create the job again"
    return f"{which} the pods do not tolerate: add a toleration to the runtime"


def requests_of(pod_spec: Document) -> Mapping[str, Quantity]:
    """What one pod requests, by resource; a container with limits alone requests those."""
    completed = {**pod_spec, "containers": [_completed(one) for one in pod_spec.get("containers") or ()]}
    try:
        return pod_requests(msgspec.convert(completed, PodSpec))
    except (msgspec.ValidationError, ValueError):
        return {}


def _completed(container: Document) -> Document:
    resources = container.get("resources") or {}
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}} if requests else container


def allocatable(node: Document, resource: str) -> Quantity:
    """How much of a resource the node offers in all."""
    return Quantity.parse((dig(node, "status.allocatable") or {}).get(resource, "0"))


def is_large_enough(node: Document, requests: Mapping[str, Quantity]) -> bool:
    """Whether the empty node would have room for one such pod."""
    return all(not amount > allocatable(node, resource) for resource, amount in requests.items())


def room_for(node: Document, requests: Mapping[str, Quantity]) -> int:
    counts = [allocatable(node, resource).nanos // amount.nanos for resource, amount in requests.items() if amount]
    return min((*counts, _MOST_PODS))


def taint_text(taint: Document) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}"
