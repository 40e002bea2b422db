# SPDX-License-Identifier: Apache-2.0
"""What the API server writes and derives of amounts: canonical quantities, the QoS class of a pod."""

from collections.abc import Iterator

from trainwright.api.amounts import Amounts, add, read
from trainwright.api.objects import Document
from trainwright.api.quantity import Quantity
from trainwright.controller.local.apiserver.kinds.parts import entries, part

_MILLI = 10**6
"""Billionths in a thousandth."""


def round_up(owner: Document, field: str) -> None:
    """Write the amounts of a resource list canonically, rounded up to thousandths. What is no quantity stays."""
    listed = owner.get(field)
    if not isinstance(listed, dict):
        return
    for name, wire in listed.items():
        try:
            quantity = Quantity.parse(wire)
        except ValueError:
            continue  # Validation names it.
        listed[name] = Quantity(-(-quantity.nanos // _MILLI) * _MILLI, quantity.style).canonical()


def restarts_always(container: Document) -> bool:
    """Whether an init container is a sidecar."""
    return container.get("restartPolicy") == "Always"


def quality_of_service(spec: Document) -> str:
    """The QoS class of a pod. https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/."""
    requests: Amounts = {}
    limits: Amounts = {}
    guaranteed = True
    for resources in _container_resources(spec):
        add(requests, _computed(resources.get("requests")))
        limited = _computed(resources.get("limits"))
        add(limits, limited)
        guaranteed = guaranteed and len(limited) == 2
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _container_resources(spec: Document) -> Iterator[Document]:
    for field in ("containers", "initContainers"):
        for container in entries(spec, field):
            yield part(container, "resources")


def _computed(listed: Document | None) -> Amounts:
    return {name: amount for name, amount in read(listed).items() if name in ("cpu", "memory") and amount.nanos > 0}
