# SPDX-License-Identifier: Apache-2.0
"""How much a pod asks for, and how much of a node is left.

Source: https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/ and, for sidecars,
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
"""

from collections.abc import Iterable, Mapping

from trainwright.api.objects import Document
from trainwright.api.quantity import Quantity
from trainwright.controller.local.workloads.documents import spec_of, status_of
from trainwright.controller.local.workloads.pods import is_terminal

Amounts = dict[str, Quantity]
"""Amounts by the name of the resource, such as cpu, memory or nvidia.com/gpu."""


def amounts(wire: Mapping[str, str | int | float] | None) -> Amounts:
    """Read a map of quantities."""
    return {name: Quantity.parse(value) for name, value in (wire or {}).items()}


def requests_of(pod: Document) -> Amounts:
    """What has to be free on a node for the pod: the most that it needs at any time of its life."""
    spec = spec_of(pod)
    running = _sum(_requests(container) for container in spec.get("containers") or ())
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars = _sum((sidecars, _requests(container)))
            starting = _most(starting, sidecars)
        else:
            starting = _most(starting, _sum((sidecars, _requests(container))))
    needed = _most(_sum((running, sidecars)), starting)
    # Resources of the whole pod stand in place of those of its containers.
    needed |= _requests(spec)
    return _sum((needed, amounts(spec.get("overhead"))))


def left_on(node: Document, pods: Iterable[Document]) -> Amounts:
    """What is left of a node's allocatable amounts, and of its places for pods, with these pods on it."""
    left = amounts(status_of(node).get("allocatable"))
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


def _requests(container: Document) -> Amounts:
    return amounts((container.get("resources") or {}).get("requests"))


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def _most(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, Quantity(0)), other.get(name, Quantity(0))) for name in one.keys() | other.keys()}
