# SPDX-License-Identifier: Apache-2.0
"""Services: their addresses and node ports, and what no rule of `rules/services.json` says.

They are stored and never routed, so addresses and node ports need not be unique: they are made from the uid and the
name of the port. The same Service always gets the same ones.
"""

import hashlib
from ipaddress import IPv4Address

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.formats import Errors
from trainwright.controller.local.apiserver.kinds.metadata import ensure, ensure_filled, entries, part, texts
from trainwright.controller.local.apiserver.kinds.rules import register
from trainwright.controller.local.apiserver.kinds.strategy import BuiltInStrategy
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
        if spec["type"] in _EXTERNAL:
            ensure_filled(spec, "externalTrafficPolicy", "Cluster")
        if spec["type"] in ("ClusterIP", *_EXTERNAL):
            ensure(spec, "internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            ensure(spec, "allocateLoadBalancerNodePorts", True)

    def prepare_for_create(self, document: Document) -> None:
        super().prepare_for_create(document)
        _allocate(document["spec"], document["metadata"].get("uid") or "", {})

    def prepare_for_update(self, new: Document, old: Document, subresource: str) -> None:
        super().prepare_for_update(new, old, subresource)
        if not subresource:
            _drop_what_the_type_lost(new["spec"], old["spec"])
            _allocate(new["spec"], new["metadata"].get("uid") or "", old["spec"])

    def validate_update(self, new: Document, old: Document, subresource: str) -> list[DocumentError]:
        found = super().validate_update(new, old, subresource)
        now, then = (texts(part(one, "spec"), "clusterIPs") for one in (new, old))
        if now[:1] != then[:1] and now and then and not subresource:
            found.append(invalid("spec.clusterIPs[0]", now, "may not change once set"))
        return found


@register("names of ports")
def _port_name_errors(ports: list[Document], field: str, _: Document) -> Errors:
    missing = [index for index, port in enumerate(ports) if not port.get("name")] if len(ports) > 1 else []
    return [required(f"{field}[{index}].name") for index in missing]


# -------------------------------------------------------------- allocation


def _drop_what_the_type_lost(spec: Document, before: Document) -> None:
    """Take out what only the old type could have, unless the client has changed it too."""
    lost: list[str] = []
    if before.get("type") != "ExternalName" and spec.get("type") == "ExternalName":
        lost += ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]
    if before.get("type") in _EXTERNAL and spec.get("type") not in _EXTERNAL:
        lost.append("externalTrafficPolicy")
        known = {port.get("nodePort") for port in entries(before, "ports")}
        for port in entries(spec, "ports"):
            if port.get("nodePort") in known:
                port.pop("nodePort", None)
    if before.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        lost += ["allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"]
    for field in lost:
        if spec.get(field) == before.get(field):
            spec.pop(field, None)


def _allocate(spec: Document, uid: str, before: Document) -> None:
    """Give addresses and node ports. What an update leaves open stays as it was."""
    if spec.get("clusterIP"):
        ensure_filled(spec, "clusterIPs", [spec["clusterIP"]])
    if spec.get("type") == "ExternalName":
        return
    address = spec.get("clusterIP") or next(iter(texts(spec, "clusterIPs")), None) or before.get("clusterIP")
    ensure_filled(spec, "clusterIP", address or str(ADDRESSES + 1 + _number(uid, 2**16 - 2)))
    if spec.get("clusterIPs") in (None, [], before.get("clusterIPs")):
        # Clients that know only the old field change it alone.
        spec["clusterIPs"] = [spec["clusterIP"], *texts(spec, "clusterIPs")[1:]]
    anywhere = spec["clusterIP"] == HEADLESS and not spec.get("selector")
    families = ["IPv4", "IPv6"] if anywhere else ["IPv6" if ":" in spec["clusterIP"] else "IPv4"]
    ensure(spec, "ipFamilyPolicy", before.get("ipFamilyPolicy") or ("RequireDualStack" if anywhere else "SingleStack"))
    ensure_filled(spec, "ipFamilies", before.get("ipFamilies") or families)
    if spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts"):
        known = {port.get("name"): port.get("nodePort") for port in entries(before, "ports")}
        taken = {port.get("nodePort") for port in entries(spec, "ports")} | set(known.values())
        start = _number(uid, len(_NODE_PORTS))
        free = (one for one in (*_NODE_PORTS[start:], *_NODE_PORTS[:start]) if one not in taken)
        for port in entries(spec, "ports"):
            if not port.get("nodePort"):
                port["nodePort"] = known.get(port.get("name")) or next(free)


def _number(text: str, below: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % below
