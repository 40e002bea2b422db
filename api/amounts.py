# SPDX-License-Identifier: Apache-2.0
"""Amounts of resources in documents: `requests`, `limits`, `capacity` and the like, and what a pod needs in all."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from trainwright.api.objects import Document
from trainwright.api.quantity import Quantity

Amounts: TypeAlias = dict[str, Quantity]
"""By the name of the resource, such as cpu, memory or nvidia.com/gpu."""


def read(listed: Mapping[str, Any] | None) -> Amounts:
    """The amounts of a resource list, without those that are no quantities."""
    found: Amounts = {}
    for name, wire in (listed or {}).items():
        try:
            found[name] = Quantity.parse(wire)
        except ValueError:
            continue  # The API server's validation names it.
    return found


def add(total: Amounts, more: Amounts) -> None:
    """Add amounts to others, in place."""
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def of_containers(spec: Document, field: str) -> Amounts:
    """What the containers of a pod need together: `requests` or `limits`.

    The containers run at once, beside the sidecars; each init container runs beside the sidecars that are declared
    before it. https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    together: Amounts = {}
    for container in spec.get("containers") or ():
        add(together, read((container.get("resources") or {}).get(field)))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = read((container.get("resources") or {}).get(field))
        if container.get("restartPolicy") == "Always":
            add(together, own)
            add(sidecars, own)
            _raise(peak, sidecars)
        else:
            beside = dict(sidecars)
            add(beside, own)
            _raise(peak, beside)
    _raise(together, peak)
    return together


def _raise(total: Amounts, least: Amounts) -> None:
    for name, quantity in least.items():
        if name not in total or quantity > total[name]:
            total[name] = quantity
