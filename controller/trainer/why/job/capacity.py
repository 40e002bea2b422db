# SPDX-License-Identifier: Apache-2.0
"""What pods ask for and what nodes offer, as far as the scheduler's first filters go."""

from collections.abc import Iterable, Mapping

import msgspec

from trainwright.api.kubernetes.core.v1 import PodSpec
from trainwright.api.nodes import is_required_value
from trainwright.api.objects import Document, dig, labels_of
from trainwright.api.quantity import Quantity
from trainwright.plugins.contract.podset import pod_requests

_MOST_PODS = 1000
_CORDONED = "node.kubernetes.io/unschedulable"
_SILENT = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


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


def is_selected(node: Document, pod_spec: Document) -> bool:
    """Whether the pod's node selector and required node affinity allow the node."""
    labels = labels_of(node)
    if any(labels.get(key) != value for key, value in (pod_spec.get("nodeSelector") or {}).items()):
        return False
    affinity = dig(pod_spec, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution")
    terms = dig(affinity, "nodeSelectorTerms")
    return terms is None or any(_matches(labels, term.get("matchExpressions") or ()) for term in terms)


def _matches(labels: Mapping[str, str], expressions: Iterable[Document]) -> bool:
    return all(
        is_required_value(labels.get(one["key"]), one.get("operator"), one.get("values") or ()) for one in expressions
    )


def untolerated(node: Document, pod_spec: Document) -> list[Document]:
    tolerations = pod_spec.get("tolerations") or ()
    return [
        taint
        for taint in dig(node, "spec.taints") or ()
        if taint.get("effect") in ("NoSchedule", "NoExecute")
        and not any(_tolerates(toleration, taint) for toleration in tolerations)
    ]


def _tolerates(toleration: Document, taint: Document) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint.get("key"))
    return toleration.get("key") == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")


def is_cordon(taint: Document) -> bool:
    """Whether an administrator has closed the node for new pods."""
    return taint.get("key") == _CORDONED


def is_silence(taint: Document) -> bool:
    """Whether the node is closed because it is not ready or does not answer."""
    return taint.get("key") in _SILENT


def taint_text(taint: Document) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}"
