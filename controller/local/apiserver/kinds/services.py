# SPDX-License-Identifier: Apache-2.0
"""Services: their addresses and node ports, and what no rule of `rules/services.json` says.

They are stored and never routed, so addresses and node ports need not be unique: they are made from the uid and the
name of the port. The same Service always gets the same ones.
"""

import hashlib
from ipaddress import IPv4Address

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.built_in_strategy import BuiltInStrategy
from trainwright.controller.local.apiserver.kinds.formats import Errors
from trainwright.controller.local.apiserver.kinds.places import ensure, ensure_filled, entries, part, texts
from trainwright.controller.local.apiserver.kinds.ruletests import register
from trainwright.controller.local.apiserver.kinds.strategy import set_or_drop
from trainwright.controller.local.types.errors import DocumentError, invalid, required

HEADLESS = "None"
ADDRESSES = IPv4Address("10.96.0.0")
"""The range of addresses begins here and holds 65,536."""
_NODE_PORTS = range(30_000, 32_768)
_AFFINITY_SECONDS = 10_800
_EXTERNAL = ("NodePort", "LoadBalancer")


class ServiceStrategy(BuiltInStrategy):
    """Services."""

    def default(self, document: Document) -> None:
        super().default(document)
        spec = document["spec"]
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        elif spec["sessionAffinity"] == "ClientIP" and not part(spec, "sessionAffinityConfig").get("clientIP"):
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

    def prepare_for_create(self, document: Document) -> None:
        super().prepare_for_create(document)
        document["status"] = {"loadBalancer": {}}
        _allocate(document, {})

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        super().prepare_for_update(new, old, subresource)
        if subresource:
            return
        spec, before = new["spec"], old["spec"]
        _drop_what_the_type_lost(spec, before)
        if (spec.get("clusterIP") or "") != (before.get("clusterIP") or "") and texts(spec, "clusterIPs") == texts(
            before, "clusterIPs"
        ):
            # For clients that know only the old field.
            set_or_drop(spec, "clusterIPs", [spec["clusterIP"]] if spec.get("clusterIP") else None)
        _allocate(new, before)

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        found = super().validate_update(new, old, subresource)
        now, then = (texts(part(one, "spec"), "clusterIPs") for one in (new, old))
        if subresource or "ExternalName" in (part(new, "spec").get("type"), part(old, "spec").get("type")):
            return found
        return found + [
            invalid(f"spec.clusterIPs[{index}]", now, "may not change once set")
            for index, (address, before) in enumerate(zip(now, then, strict=False))
            if address != before
        ]

    def warnings(self, new: Document, old: Document | None) -> list[str]:  # noqa: ARG002
        spec = part(new, "spec")
        found: list[str] = []
        if texts(spec, "clusterIPs") == [HEADLESS] and spec.get("sessionAffinity") != "None":
            found.append("spec.SessionAffinity is ignored for headless services")
        if spec.get("type") != "ExternalName" and spec.get("externalName"):
            found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
        return found


@register("names of ports")
def _port_name_errors(ports: list[Document], field: str, _: Document) -> Errors:
    missing = [index for index, port in enumerate(ports) if not port.get("name")] if len(ports) > 1 else []
    return [required(f"{field}[{index}].name") for index in missing]


@register("first address")
def _address_errors(addresses: list[str], field: str, spec: Document) -> Errors:
    if spec.get("type") == "ExternalName" or addresses[:1] == [spec.get("clusterIP")]:
        return []
    return [invalid(field, addresses, "first value must match `clusterIP`")]


def _drop_what_the_type_lost(spec: Document, before: Document) -> None:
    """Take out what an earlier type of this Service needed, unless the client changed it too."""
    lost: list[str] = []
    if spec.get("type") == "ExternalName":
        lost += ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]
    if before.get("type") in _EXTERNAL and spec.get("type") not in _EXTERNAL:
        lost += ["externalTrafficPolicy"]
        if _node_ports(spec) <= _node_ports(before):
            for port in entries(spec, "ports"):
                port.pop("nodePort", None)
    if before.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        lost += ["allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"]
    for field in lost:
        if spec.get(field) == before.get(field):
            spec.pop(field, None)


def _node_ports(spec: Document) -> set[int]:
    return {port["nodePort"] for port in entries(spec, "ports") if port.get("nodePort")}


def _allocate(service: Document, before: Document) -> None:
    """Give addresses and node ports. What an update leaves open stays as it was."""
    spec, uid = service["spec"], service["metadata"].get("uid") or ""
    if spec.get("clusterIP"):
        ensure_filled(spec, "clusterIPs", [spec["clusterIP"]])
    if spec.get("type") == "ExternalName":
        return
    if before.get("type") != "ExternalName" and not spec.get("clusterIP") and not spec.get("clusterIPs"):
        for field in ("clusterIP", "clusterIPs"):
            set_or_drop(spec, field, before.get(field))
    given = texts(spec, "clusterIPs")
    ensure_filled(spec, "clusterIP", given[0] if given else str(ADDRESSES + 1 + _number(uid, 2**16 - 2)))
    ensure_filled(spec, "clusterIPs", [spec["clusterIP"]])
    any_family = spec["clusterIP"] == HEADLESS and not spec.get("selector")
    policy = "RequireDualStack" if any_family else "SingleStack"
    families = ["IPv4", "IPv6"] if any_family else ["IPv6" if ":" in spec["clusterIP"] else "IPv4"]
    ensure(spec, "ipFamilyPolicy", before.get("ipFamilyPolicy") or policy)
    ensure_filled(spec, "ipFamilies", before.get("ipFamilies") or families)
    if spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts"):
        _allocate_node_ports(spec, uid, before)


def _allocate_node_ports(spec: Document, uid: str, before: Document) -> None:
    known = {port.get("name"): port.get("nodePort") for port in entries(before, "ports")}
    taken = _node_ports(spec)
    for port in entries(spec, "ports"):
        if port.get("nodePort"):
            continue
        number = known.get(port.get("name"))
        offset = _number(f"{uid}/{port.get('protocol')}/{port.get('port')}", len(_NODE_PORTS))
        while number is None or number in taken:
            number = _NODE_PORTS[offset]
            offset = (offset + 1) % len(_NODE_PORTS)
        port["nodePort"] = number
        taken.add(number)


def _number(text: str, below: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % below
