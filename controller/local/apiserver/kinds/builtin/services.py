# SPDX-License-Identifier: Apache-2.0
"""Services.

They are stored and never routed, so addresses and node ports need not be unique: they are made from the uid and the
name of the port. The same Service always gets the same ones.
"""

import hashlib
from ipaddress import IPv4Address

from trainwright.api.objects import Document
from trainwright.api.validation import DocumentError
from trainwright.controller.local.apiserver.kinds.builtin.formats import finalizer_errors
from trainwright.controller.local.apiserver.kinds.builtin.parts import ensure, ensure_filled, entries, part, texts
from trainwright.controller.local.apiserver.kinds.builtin.service_validation import (
    HEADLESS,
    service_change_errors,
    service_errors,
    service_status_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.kinds.strategy import set_or_drop
from trainwright.controller.local.apiserver.schema.errors import invalid

ADDRESSES = IPv4Address("10.96.0.0")
"""The range of addresses begins here and holds 65,536."""
_NODE_PORTS = range(30_000, 32_768)
_NOT_IN_RANGE = (
    f"provided port is not in the valid range. The range of valid ports is {_NODE_PORTS.start}-{_NODE_PORTS.stop - 1}"
)
_AFFINITY_SECONDS = 10_800
_EXTERNAL = ("NodePort", "LoadBalancer")


class ServiceStrategy(BuiltInStrategy):
    """Services."""

    def fill_in(self, document: Document) -> None:
        spec = document["spec"]
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        elif spec["sessionAffinity"] == "ClientIP" and _affinity_seconds(spec) is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
        for port in entries(spec, "ports"):
            ensure_filled(port, "targetPort", port.get("port"))
        external = spec["type"] in _EXTERNAL
        if external or (spec["type"] == "ClusterIP" and spec.get("externalIPs")):
            ensure_filled(spec, "externalTrafficPolicy", "Cluster")
        if spec["type"] in ("ClusterIP", *_EXTERNAL):
            ensure(spec, "internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            ensure(spec, "allocateLoadBalancerNodePorts", True)
            for entry in entries(document["status"]["loadBalancer"], "ingress"):
                if entry.get("ip"):
                    ensure(entry, "ipMode", "VIP")

    def validate(self, document: Document) -> list[DocumentError]:
        found = finalizer_errors(document) + service_errors(document, None)
        return found or _allocation_errors(document["spec"], {})

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        if subresource == "status":
            return finalizer_errors(new) + service_status_errors(new)
        found = finalizer_errors(new) + service_change_errors(new, old) + service_errors(new, old)
        return found or _allocation_errors(new["spec"], old["spec"])

    def warnings(self, new: Document, old: Document | None) -> list[str]:  # noqa: ARG002
        spec = part(new, "spec")
        headless, kind = texts(spec, "clusterIPs") == [HEADLESS], spec.get("type")
        found: list[str] = []
        if headless:
            ignored = ("loadBalancerIP", "externalIPs")
            found += [f"spec.{name} is ignored for headless services" for name in ignored if spec.get(name)]
            if spec.get("sessionAffinity") != "None":
                found.append("spec.SessionAffinity is ignored for headless services")
        if spec.get("externalIPs"):
            if kind == "ExternalName":
                found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
            elif not headless:
                found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
        if kind != "ExternalName" and spec.get("externalName"):
            found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
        if spec.get("trafficDistribution") == "PreferClose":
            found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
        return found

    def prepare_for_create(self, document: Document) -> None:
        super().prepare_for_create(document)
        document["status"] = {"loadBalancer": {}}
        _allocate(document, None)

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        super().prepare_for_update(new, old, subresource)
        if subresource:
            return
        _drop_what_the_type_lost(new, old)
        _align_addresses(new["spec"], old["spec"])
        _keep_allocated(new["spec"], old["spec"])
        _allocate(new, old)


def _affinity_seconds(spec: Document) -> int | None:
    seconds: int | None = part(part(spec, "sessionAffinityConfig"), "clientIP").get("timeoutSeconds")
    return seconds


def _needs_address(spec: Document) -> bool:
    return bool(spec.get("type") != "ExternalName")


def _drop_what_the_type_lost(new: Document, old: Document) -> None:
    """Take out what an earlier type of this Service needed, unless the client changed it too."""
    spec, before = new["spec"], old["spec"]

    def drop_if_same(*fields: str) -> None:
        if all(spec.get(field) == before.get(field) for field in fields):
            for field in fields:
                spec.pop(field, None)

    if _needs_address(before) and not _needs_address(spec):
        drop_if_same("clusterIP", "clusterIPs")
        drop_if_same("ipFamilies")
        drop_if_same("ipFamilyPolicy")
    if before.get("type") in _EXTERNAL and spec.get("type") not in _EXTERNAL:
        if _node_ports(spec) <= _node_ports(before):
            for port in entries(spec, "ports"):
                port.pop("nodePort", None)
        if not spec.get("externalIPs"):
            drop_if_same("externalTrafficPolicy")
    if before.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"):
            drop_if_same(field)
        new["status"] = {**part(new, "status"), "loadBalancer": {}}


def _node_ports(spec: Document) -> set[int]:
    return {port["nodePort"] for port in entries(spec, "ports") if port.get("nodePort")}


def _align_addresses(spec: Document, before: Document) -> None:
    """Make `clusterIPs` follow a change of `clusterIP`, for clients that know only that field."""
    first, first_before = spec.get("clusterIP") or "", before.get("clusterIP") or ""
    if first != first_before and texts(spec, "clusterIPs") == texts(before, "clusterIPs"):
        set_or_drop(spec, "clusterIPs", [first] if first else None)


def _keep_allocated(spec: Document, before: Document) -> None:
    """What was allocated stays where the update leaves it open."""
    if _needs_address(before) and _needs_address(spec):
        if not spec.get("clusterIP") and not spec.get("clusterIPs"):
            for field in ("clusterIP", "clusterIPs"):
                if before.get(field):
                    spec[field] = before[field]
        for field in ("ipFamilies", "ipFamilyPolicy"):
            if not spec.get(field) and before.get(field):
                spec[field] = before[field]
    if before.get("type") in _EXTERNAL and spec.get("type") in _EXTERNAL:
        by_name = {port.get("name"): port.get("nodePort") for port in entries(before, "ports")}
        given = _node_ports(spec)
        for port in entries(spec, "ports"):
            known = by_name.get(port.get("name"))
            if known and not port.get("nodePort") and known not in given:
                port["nodePort"] = known


def _allocate(service: Document, old: Document | None) -> None:
    spec = service["spec"]
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if not _needs_address(spec):
        return
    uid = service["metadata"].get("uid") or (old or service)["metadata"].get("uid") or ""
    if not spec.get("clusterIP"):
        given = texts(spec, "clusterIPs")
        spec["clusterIP"] = given[0] if given else str(ADDRESSES + 1 + _number(uid, 2**16 - 2))
        spec["clusterIPs"] = [spec["clusterIP"]]
    any_family = _takes_any_family(spec)
    ensure(spec, "ipFamilyPolicy", "RequireDualStack" if any_family else "SingleStack")
    families = texts(spec, "ipFamilies") or ["IPv6" if ":" in spec["clusterIP"] else "IPv4"]
    if any_family and len(families) == 1 and spec["ipFamilyPolicy"] != "SingleStack":
        families = [*families, "IPv4" if families[0] == "IPv6" else "IPv6"]
    spec["ipFamilies"] = families
    if spec.get("type") == "NodePort" or (
        spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts")
    ):
        _allocate_node_ports(spec, uid)


def _allocate_node_ports(spec: Document, uid: str) -> None:
    taken = _node_ports(spec)
    for port in entries(spec, "ports"):
        if port.get("nodePort"):
            continue
        offset = _number(f"{uid}/{port.get('protocol')}/{port.get('port')}", len(_NODE_PORTS))
        while _NODE_PORTS[offset] in taken:
            offset = (offset + 1) % len(_NODE_PORTS)
        port["nodePort"] = _NODE_PORTS[offset]
        taken.add(port["nodePort"])


def _allocation_errors(spec: Document, before: Document) -> list[DocumentError]:
    """What cannot be allocated: addresses other than IPv4, and new node ports outside the range.

    kube-apiserver finds these after all other errors. Its default is a cluster with one family.
    """
    if not _needs_address(spec):
        return []
    found: list[DocumentError] = []
    families, policy = texts(spec, "ipFamilies"), spec.get("ipFamilyPolicy")
    kept = (families, policy) == (texts(before, "ipFamilies"), before.get("ipFamilyPolicy"))
    if not kept and not _takes_any_family(spec):
        if policy == "RequireDualStack":
            text = "this cluster is not configured for dual-stack services"
            found.append(invalid("spec.ipFamilyPolicy", policy, text))
        for index, family in enumerate(families):
            if family != "IPv4":
                found.append(invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster"))
    if found:
        return found
    known = _node_ports(before)
    for index, port in enumerate(entries(spec, "ports")):
        number = port.get("nodePort")
        if number and number not in _NODE_PORTS and number not in known:
            return [invalid(f"spec.ports[{index}].nodePort", number, _NOT_IN_RANGE)]
    return []


def _takes_any_family(spec: Document) -> bool:
    return spec.get("clusterIP") == HEADLESS and not spec.get("selector")


def _number(text: str, below: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % below
