# SPDX-License-Identifier: Apache-2.0
"""Errors of Services. Load balancers, which nobody provides here, are checked in part."""

from trainwright.api.objects import Document
from trainwright.api.validation import names
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    Errors,
    choice_errors,
    ip_errors,
    label_errors,
    name_errors,
    port_errors,
    port_number,
    qualified_errors,
    repeated,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part, texts
from trainwright.controller.local.apiserver.schema.errors import duplicate, forbidden, invalid, not_supported, required
from trainwright.controller.local.apiserver.schema.published import enum_of

HEADLESS = "None"
_TYPES = enum_of("core.v1.ServiceSpec", "type")
_PROTOCOLS = enum_of("core.v1.ServicePort", "protocol")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_LONGEST_AFFINITY = 86_400


def _is_headless(spec: Document) -> bool:
    return texts(spec, "clusterIPs") == [HEADLESS]


def service_errors(service: Document, old: Document | None) -> Errors:
    """Errors of a Service, given the one before it."""
    spec = part(service, "spec")
    kind, ports = spec.get("type") or "", entries(spec, "ports")
    found: Errors = []
    if not ports and not _is_headless(spec) and kind != "ExternalName":
        found.append(required("spec.ports"))
    found += _type_errors(spec, kind) + _port_list_errors(ports)
    found += label_errors(spec.get("selector"), "spec.selector") + _affinity_errors(spec)
    if kind != "ExternalName":
        found += _address_errors(spec)
    known = texts(part(old or {}, "spec"), "externalIPs")
    for index, address in enumerate(texts(spec, "externalIPs")):
        if address not in known:
            found += ip_errors(address, f"spec.externalIPs[{index}]")
    found += choice_errors(kind, "spec.type", _TYPES)
    if kind == "ClusterIP":
        text = "may not be used when `type` is 'ClusterIP'"
        found += [
            forbidden(f"spec.ports[{index}].nodePort", text) for index, port in enumerate(ports) if port.get("nodePort")
        ]
    found += _same_port_errors(ports) + _balancer_errors(spec, kind) + _traffic_errors(spec, kind)
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        found.append(not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS))
    return found


def _type_errors(spec: Document, kind: str) -> Errors:
    if kind in ("LoadBalancer", "NodePort") and _is_headless(spec):
        return [invalid("spec.clusterIPs[0]", HEADLESS, f"may not be set to 'None' for {kind} services")]
    if kind != "ExternalName":
        return []
    text = "may not be set for ExternalName services"
    found = [
        forbidden(f"spec.{name}", text) for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy") if spec.get(name)
    ]
    host = (spec.get("externalName") or "").removesuffix(".")
    return found + (
        name_errors(host, "spec.externalName", names.dns_subdomain) if host else [required("spec.externalName")]
    )


def _port_list_errors(ports: list[Document]) -> Errors:
    found: Errors = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"spec.ports[{index}]", port.get("name") or ""
        if name:
            found += name_errors(name, f"{where}.name", names.dns_label) + repeated(seen, name, f"{where}.name")
        elif len(ports) > 1:
            found.append(required(f"{where}.name"))
        number = port.get("port") or 0
        found += [invalid(f"{where}.port", number, text) for text in port_number(number)]
        found += choice_errors(port.get("protocol"), f"{where}.protocol", _PROTOCOLS)
        found += port_errors(port.get("targetPort"), f"{where}.targetPort")
        if port.get("appProtocol") is not None:
            found += qualified_errors(port["appProtocol"], f"{where}.appProtocol")
    return found


def _same_port_errors(ports: list[Document]) -> Errors:
    found: Errors = []
    for name in ("nodePort", "port"):
        seen: list[tuple[str, int]] = []
        for index, port in enumerate(ports):
            number = port.get(name) or 0
            key = (port.get("protocol") or "", number)
            if name == "nodePort" and not number:
                continue
            if key in seen:
                found.append(duplicate(f"spec.ports[{index}]{'.nodePort' if name == 'nodePort' else ''}", number))
            seen.append(key)
    return found


def _affinity_errors(spec: Document) -> Errors:
    found = choice_errors(spec.get("sessionAffinity"), "spec.sessionAffinity", ("ClientIP", "None"))
    if spec.get("sessionAffinity") != "ClientIP":
        return found
    seconds = part(part(spec, "sessionAffinityConfig"), "clientIP").get("timeoutSeconds") or 0
    if not 0 < seconds <= _LONGEST_AFFINITY:
        text = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
        found.append(invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, text))
    return found


def _address_errors(spec: Document) -> Errors:
    first, addresses = spec.get("clusterIP") or "", texts(spec, "clusterIPs")
    found: Errors = []
    if first and not addresses:
        found.append(required("spec.clusterIPs"))
    elif first and addresses[0] != first:
        found.append(invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`"))
    elif not first and addresses:
        found.append(invalid("spec.clusterIPs", addresses, "must be empty when `clusterIP` is not specified"))
    seen: set[str] = set()
    for index, family in enumerate(texts(spec, "ipFamilies")):
        if family not in _FAMILIES:
            found.append(not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        found += repeated(seen, family, f"spec.ipFamilies[{index}]")
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _FAMILY_POLICIES:
        found.append(not_supported("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES))
    if len(addresses) > 1 and addresses[0] == HEADLESS:
        return [*found, invalid("spec.clusterIPs", addresses, "'None' must be the first and only value")]
    if _is_headless(spec):
        return found
    for index, address in enumerate(addresses):
        found += ip_errors(address, f"spec.clusterIPs[{index}]")
    if len(addresses) > 2:
        found.append(invalid("spec.clusterIPs", addresses, "may only hold up to 2 values"))
    return found


def _balancer_errors(spec: Document, kind: str) -> Errors:
    if kind == "LoadBalancer":
        chosen = spec.get("loadBalancerClass")
        return [] if chosen is None else qualified_errors(chosen, "spec.loadBalancerClass")
    text = "may only be used when `type` is 'LoadBalancer'"
    found: Errors = []
    if spec.get("loadBalancerSourceRanges"):
        found.append(forbidden("spec.LoadBalancerSourceRanges", text))
    for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if spec.get(name) is not None:
            found.append(forbidden(f"spec.{name}", text))
    return found


def service_status_errors(service: Document) -> Errors:
    """Errors of a Service's status."""
    addressed = entries(part(part(service, "status"), "loadBalancer"), "ingress")
    if not addressed or part(service, "spec").get("type") == "LoadBalancer":
        return []
    return [forbidden("status.loadBalancer.ingress", "may only be used when `spec.type` is 'LoadBalancer'")]


def _traffic_errors(spec: Document, kind: str) -> Errors:
    external = kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))
    policy = spec.get("externalTrafficPolicy") or ""
    found: Errors = []
    if external:
        found += choice_errors(policy, "spec.externalTrafficPolicy", ("Cluster", "Local"))
    elif policy:
        text = "may only be set for externally-accessible services"
        found.append(invalid("spec.externalTrafficPolicy", policy, text))
    port = spec.get("healthCheckNodePort")
    if port and not (kind == "LoadBalancer" and policy == "Local"):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        found.append(invalid("spec.healthCheckNodePort", port, text))
    inside = spec.get("internalTrafficPolicy")
    if inside is not None and inside not in ("Cluster", "Local"):
        found.append(not_supported("spec.internalTrafficPolicy", inside, ("Cluster", "Local")))
    return found


def service_change_errors(service: Document, old: Document) -> Errors:
    """Errors of what an update changes: addresses that are given stay."""
    spec, before = part(service, "spec"), part(old, "spec")
    found: Errors = []
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        if not (_is_headless(spec) and _is_headless(before)):
            found += _changed(spec, before, "clusterIPs")
        if not _is_headless(spec) and not _is_headless(before):
            found += _changed(spec, before, "ipFamilies")
    balanced = spec.get("type") == before.get("type") == "LoadBalancer"
    if balanced and spec.get("loadBalancerClass") != before.get("loadBalancerClass"):
        found.append(invalid("spec.loadBalancerClass", spec.get("loadBalancerClass"), "may not change once set"))
    return found


def _changed(spec: Document, before: Document, name: str) -> Errors:
    now, then = texts(spec, name), texts(before, name)
    changed = [index for index, (new, old) in enumerate(zip(now, then, strict=False)) if new != old]
    # The real server says 0 for any family.
    return [
        invalid(f"spec.{name}[{index if name == 'clusterIPs' else 0}]", now, "may not change once set")
        for index in changed
    ]
