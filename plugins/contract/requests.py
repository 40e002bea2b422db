# SPDX-License-Identifier: Apache-2.0
"""Amounts of resources: what a pod requests, and the numbers of devices and CPUs that process counts derive from.

Only requests count. The requests that the API server adds to a container that has only limits are left out, as in
Kubeflow Trainer and in Kueue, which recomputes these sums.
"""

from collections.abc import Mapping

from trainwright.api.kubernetes.core.v1 import PodSpec, ResourceRequirements
from trainwright.api.quantity import Quantity, Wire
from trainwright.plugins.contract.errors import Refusal

_SIDECAR = "Always"
"""The restartPolicy that turns an init container into a sidecar."""
_POD_LEVEL = ("cpu", "memory")
_POD_LEVEL_PREFIX = "hugepages-"

Amounts = dict[str, Quantity]


def pod_requests(pod: PodSpec) -> Amounts:
    """What the scheduler counts for one pod.

    That is the sum of containers and sidecars, or the peak during initialisation if it is higher. Requests of the pod
    as a whole replace the sum; overhead is added.
    """
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.init_containers or ():
        own = amounts(container.resources_or_empty.requests)
        if container.restart_policy == _SIDECAR:
            add(sidecars, own)
            raise_to(peak, sidecars)
        else:
            raise_to(peak, _sum(own, sidecars))
    total = dict(sidecars)
    for container in pod.containers or ():
        add(total, amounts(container.resources_or_empty.requests))
    raise_to(total, peak)
    total.update(_pod_level(pod))
    add(total, amounts(pod.overhead))
    return total


def amounts(wire: Mapping[str, Wire] | None) -> Amounts:
    """Read a resource list. Raises Refusal for a value that is not a quantity."""
    return {name: _parsed(name, value) for name, value in (wire or {}).items()}


def add(total: Amounts, more: Mapping[str, Quantity]) -> None:
    """Add to a sum, resource by resource."""
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def raise_to(total: Amounts, other: Mapping[str, Quantity]) -> None:
    """Raise each resource to the other amount where that is higher."""
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def gpu_count(resources: ResourceRequirements | None) -> int:
    """Number of accelerators of one container: its requests, or its limits if it requests none. 0 without any."""
    if resources is None:
        return 0
    return _gpus(resources.requests) or _gpus(resources.limits)


def cpu_count(resources: ResourceRequirements | None) -> int:
    """Number of CPUs of one container, rounded up: its requests, or its limits if it requests none."""
    if resources is None:
        return 0
    return _units(resources.requests, "cpu") or _units(resources.limits, "cpu")


def _gpus(wire: Mapping[str, Wire] | None) -> int:
    """The resource with `gpu` in its name; of several, one that ends in /gpu, else the first by name."""
    names = sorted(name for name in wire or {} if "gpu" in name.lower())
    if not names:
        return 0
    return _units(wire, next((name for name in names if name.lower().endswith("/gpu")), names[0]))


def _units(wire: Mapping[str, Wire] | None, name: str) -> int:
    value = (wire or {}).get(name)
    return _parsed(name, value).rounded_up() if value is not None else 0


def _parsed(name: str, value: Wire) -> Quantity:
    try:
        return Quantity.parse(value)
    except ValueError as error:
        raise Refusal(f"resource {name}: {error}") from error


def _pod_level(pod: PodSpec) -> Amounts:
    requests = amounts(pod.resources_or_empty.requests)
    return {name: a for name, a in requests.items() if name in _POD_LEVEL or name.startswith(_POD_LEVEL_PREFIX)}


def _sum(one: Mapping[str, Quantity], other: Mapping[str, Quantity]) -> Amounts:
    total = dict(one)
    add(total, other)
    return total
