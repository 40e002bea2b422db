# SPDX-License-Identifier: Apache-2.0
"""Errors of requests and limits."""

from trainwright.api.objects import Document
from trainwright.api.quantity import Quantity
from trainwright.api.validation import names
from trainwright.controller.local.apiserver.kinds.builtin import amounts
from trainwright.controller.local.apiserver.kinds.builtin.formats import NEGATIVE, Errors
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part
from trainwright.controller.local.apiserver.schema.errors import (
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)

_NATIVE_DOMAIN = "kubernetes.io/"
_HUGE_PAGES = "hugepages-"
_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_COUNTED = ("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps")
_COUNTED_TOO = ("persistentvolumeclaims", "services.nodeports", "services.loadbalancers")
_STANDARD = (
    *_CONTAINER_RESOURCES,
    *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _CONTAINER_RESOURCES),
    "storage",
    "requests.storage",
    *_COUNTED,
    *_COUNTED_TOO,
)
_ONE = 10**9
"""Billionths in one."""


def is_native(name: str) -> bool:
    """Whether a resource is Kubernetes' own."""
    return "/" not in name or _NATIVE_DOMAIN in name


def is_extended(name: str) -> bool:
    """Whether a resource is one that a device plugin could offer."""
    return not is_native(name) and not name.startswith("requests.") and not names.qualified(f"requests.{name}")


def _is_standard(name: str) -> bool:
    return name in _STANDARD or name.startswith((_HUGE_PAGES, f"requests.{_HUGE_PAGES}"))


def _name_errors(name: str, field: str) -> Errors:
    found = [invalid(field, name, text) for text in names.qualified(name)]
    if not found and "/" not in name and not _is_standard(name):
        found.append(invalid(field, name, "must be a standard resource type or fully qualified"))
    return found


def container_resource_name(name: str, field: str) -> Errors:
    """Errors of the name of a resource that a container asks for."""
    found = _name_errors(name, field)
    if "/" not in name:
        if name not in _CONTAINER_RESOURCES and not name.startswith(_HUGE_PAGES):
            found.append(invalid(field, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        found.append(invalid(field, name, "doesn't follow extended resource name standard"))
    return found


def pod_resource_name(name: str, field: str) -> Errors:
    """Errors of the name of a resource of a whole pod."""
    found = _name_errors(name, field)
    if found or name in ("cpu", "memory") or name.startswith(_HUGE_PAGES):
        return found
    return [not_supported(field, name, ("cpu", "hugepages-", "memory"))]


def quantity_errors(name: str, amount: Quantity, field: str) -> Errors:
    """Errors of an amount: not negative, and whole where a resource is counted."""
    found = [invalid(field, amount.canonical(), NEGATIVE)] if amount.nanos < 0 else []
    if (name in (*_COUNTED, *_COUNTED_TOO) or is_extended(name)) and amount.nanos % _ONE:
        found.append(invalid(field, amount.canonical(), "must be an integer"))
    return found


def _page_errors(name: str, amount: Quantity, field: str) -> Errors:
    if not name.startswith(_HUGE_PAGES):
        return []
    try:
        page = Quantity.parse(name[len(_HUGE_PAGES) :])
    except ValueError:
        page = Quantity(0)
    if page.nanos > 0 and page.nanos % _ONE == 0 and amount.nanos % page.nanos == 0:
        return []
    return [invalid(field, amount.canonical(), f"{amount.canonical()} is not positive integer multiple of {name}")]


def requirement_errors(resources: Document, field: str, claims: set[str], *, of_pod: bool = False) -> Errors:
    """Errors of the resources of a container or of a pod. `claims` are the names of `spec.resourceClaims`."""
    check_name = pod_resource_name if of_pod else container_resource_name
    limits, requests = amounts.read(resources.get("limits")), amounts.read(resources.get("requests"))
    found: Errors = []
    for name, amount in limits.items():
        where = f"{field}.limits[{name}]"
        found += check_name(name, where) + quantity_errors(name, amount, where) + _page_errors(name, amount, where)
    for name, amount in requests.items():
        where = f"{field}.requests[{name}]"
        found += check_name(name, where) + quantity_errors(name, amount, where)
        found += _request_errors(name, amount, limits.get(name), field) + _page_errors(name, amount, where)
    named = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in named) and not named & {"cpu", "memory"}:
        found.append(forbidden(field, "HugePages require cpu or memory"))
    return found + _claim_errors(resources, claims, f"{field}.claims")


def _request_errors(name: str, amount: Quantity, limit: Quantity | None, field: str) -> Errors:
    shared = is_native(name) and not name.startswith(_HUGE_PAGES)
    if limit is None:
        text = "Limit must be set for non overcommitable resources"
        return [] if shared else [required(f"{field}.limits", text)]
    if amount != limit and not shared:
        text = f"must be equal to {name} limit of {limit.canonical()}"
    elif amount > limit:
        text = f"must be less than or equal to {name} limit of {limit.canonical()}"
    else:
        return []
    return [invalid(f"{field}.requests", amount.canonical(), text)]


def _claim_errors(resources: Document, claims: set[str], field: str) -> Errors:
    found: Errors = []
    seen: set[str] = set()
    for index, claim in enumerate(entries(resources, "claims")):
        where, name = f"{field}[{index}]", claim.get("name") or ""
        if not name:
            found.append(required(where))
            continue
        key = f"{name}/{claim['request']}" if claim.get("request") else name
        if name in seen or key in seen or (key == name and any(one.startswith(f"{name}/") for one in seen)):
            found.append(duplicate(where, name if name in seen else key))
        seen.add(key)
        if name not in claims:
            listed = f": {', '.join(sorted(claims))}" if claims else " which is empty"
            found.append(not_found(where, name, f"must be one of the names in pod.spec.resourceClaims{listed}"))
    return found


def pod_requirement_errors(spec: Document, claims: set[str], field: str) -> Errors:
    """Errors of `spec.resources`, which is for the pod as a whole (KEP-2837)."""
    resources = spec.get("resources")
    if resources is None:
        return []
    found = (
        [forbidden(f"{field}.claims", "claims may not be set for Resources at pod-level")]
        if resources.get("claims")
        else []
    )
    found += requirement_errors(resources, field, claims, of_pod=True)
    requests, limits = amounts.read(resources.get("requests")), amounts.read(resources.get("limits"))
    for name, amount in amounts.of_containers(spec, "requests").items():
        if name in requests and amount > requests[name]:
            text = f"must be greater than or equal to aggregate container requests of {amount.canonical()}"
            found.append(invalid(f"{field}.requests[{name}]", requests[name].canonical(), text))
    for name, amount in amounts.of_containers(spec, "limits").items():
        if name.startswith(_HUGE_PAGES) and name in limits and amount > limits[name]:
            text = f"must be greater than or equal to aggregate container limits of {amount.canonical()}"
            found.append(invalid(f"{field}.limits[{name}]", limits[name].canonical(), text))
    for index, container in enumerate(entries(spec, "containers")):
        for name, amount in amounts.read(part(part(container, "resources"), "limits")).items():
            if name in limits and amount > limits[name]:
                text = f"must be less than or equal to pod limits of {limits[name].canonical()}"
                found.append(invalid(f"{field}.containers[{index}][{name}].limits", amount.canonical(), text))
    return found
