# SPDX-License-Identifier: Apache-2.0
"""Lists of resources: `requests`, `limits`, `capacity` and the like."""

from collections.abc import Iterator

from trainwright.api.objects import Document
from trainwright.api.quantity import Quantity
from trainwright.controller.local.apiserver.kinds.parts import entries, part

Amounts = dict[str, Quantity]

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


def read(listed: Document | None) -> Amounts:
    """The amounts of a resource list, without those that are no quantities."""
    found: Amounts = {}
    for name, wire in (listed or {}).items():
        try:
            found[name] = Quantity.parse(wire)
        except ValueError:
            continue  # Validation names it.
    return found


def restarts_always(container: Document) -> bool:
    """Whether an init container is a sidecar."""
    return container.get("restartPolicy") == "Always"


def of_containers(spec: Document, field: str) -> Amounts:
    """What the containers of a pod need together: `requests` or `limits`.

    The containers run at once, beside the sidecars; each init container runs beside the sidecars that are declared
    before it. https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    together: Amounts = {}
    for container in entries(spec, "containers"):
        _add(together, read(part(container, "resources").get(field)))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in entries(spec, "initContainers"):
        own = read(part(container, "resources").get(field))
        if restarts_always(container):
            _add(together, own)
            _add(sidecars, own)
            _raise(peak, sidecars)
        else:
            beside = dict(sidecars)
            _add(beside, own)
            _raise(peak, beside)
    _raise(together, peak)
    return together


def _add(total: Amounts, more: Amounts) -> None:
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def _raise(total: Amounts, least: Amounts) -> None:
    for name, quantity in least.items():
        if name not in total or quantity > total[name]:
            total[name] = quantity


def quality_of_service(spec: Document) -> str:
    """The QoS class of a pod. https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/."""
    requests: Amounts = {}
    limits: Amounts = {}
    guaranteed = True
    for resources in _container_resources(spec):
        _add(requests, _computed(resources.get("requests")))
        limited = _computed(resources.get("limits"))
        _add(limits, limited)
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
