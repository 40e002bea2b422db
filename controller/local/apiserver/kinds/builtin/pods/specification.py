# SPDX-License-Identifier: Apache-2.0
"""Errors of pod specifications, in Pods and in templates."""

from trainwright.api.objects import Document
from trainwright.api.validation import names
from trainwright.api.validation.names import NameRule
from trainwright.controller.local.apiserver.kinds.builtin.formats import (
    MAX_INT32,
    Errors,
    between,
    choice_errors,
    finalizer_errors,
    ip_errors,
    label_errors,
    name_errors,
    qualified_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.parts import entries, part, texts
from trainwright.controller.local.apiserver.kinds.builtin.pods.containers import (
    ContainerContext,
    container_errors,
    init_container_errors,
    padded_image_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.pods.environment import file_volume_errors
from trainwright.controller.local.apiserver.kinds.builtin.pods.placement import (
    affinity_errors,
    gate_errors,
    spread_errors,
    toleration_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.pods.requirements import (
    pod_requirement_errors,
    requirement_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.pods.security import (
    pod_security_errors,
    user_namespace_errors,
)
from trainwright.controller.local.apiserver.kinds.builtin.pods.volumes import volume_errors
from trainwright.controller.local.apiserver.schema.errors import (
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)

_RESTARTS = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTIONS = ("PreemptLowerPriority", "Never")
MIRROR = "kubernetes.io/config.mirror"
"""The annotation of pods that kubelets run from files."""
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_MOST_NAME_SERVERS = 3
_LONGEST_HOSTNAME = 64


def specification_errors(spec: Document, field: str, *, pod_name: str = "", in_pod: bool = False) -> Errors:
    """Errors of a pod specification.

    Args:
        spec: with its defaults.
        field: where it is.
        pod_name: of the Pod; empty in a template.
        in_pod: whether this is a Pod and not a template.
    """
    grace = spec.get("terminationGracePeriodSeconds")
    volumes, found = volume_errors(entries(spec, "volumes"), pod_name, f"{field}.volumes")
    claims = {claim["name"] for claim in entries(spec, "resourceClaims") if claim.get("name")}
    found += _claim_errors(entries(spec, "resourceClaims"), f"{field}.resourceClaims")
    pod = ContainerContext(volumes, claims, grace, spec.get("restartPolicy") or "")
    regular, inits = entries(spec, "containers"), entries(spec, "initContainers")
    found += container_errors(regular, pod, f"{field}.containers")
    found += init_container_errors(inits, regular, pod, f"{field}.initContainers")
    found += pod_requirement_errors(spec, claims, f"{field}.resources")
    found += _host_network_errors(spec, field, in_pod=in_pod)
    found += choice_errors(spec.get("restartPolicy"), f"{field}.restartPolicy", _RESTARTS, sort=False)
    found += choice_errors(spec.get("dnsPolicy"), f"{field}.dnsPolicy", _DNS_POLICIES, sort=False)
    found += label_errors(spec.get("nodeSelector"), f"{field}.nodeSelector")
    found += pod_security_errors(spec, f"{field}.securityContext")
    found += affinity_errors(spec.get("affinity"), f"{field}.affinity")
    found += _dns_errors(spec, f"{field}.dnsConfig")
    for index, gate in enumerate(entries(spec, "readinessGates")):
        found += qualified_errors(gate.get("conditionType") or "", f"{field}.readinessGates[{index}].conditionType")
    found += gate_errors(entries(spec, "schedulingGates"), f"{field}.schedulingGates")
    found += spread_errors(entries(spec, "topologySpreadConstraints"), f"{field}.topologySpreadConstraints")
    found += user_namespace_errors(spec, field) + _hostname_errors(spec, field) + _name_errors(spec, field)
    return found + file_volume_errors(spec, field)


def _named(spec: Document, fields: tuple[str, ...], rule: NameRule, where: str) -> Errors:
    found: Errors = []
    for name in fields:
        if spec.get(name):
            found += name_errors(spec[name], f"{where}.{name}", rule)
    return found


def _name_errors(spec: Document, field: str) -> Errors:
    found = _named(spec, ("serviceAccountName", "nodeName"), names.dns_subdomain, field)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= MAX_INT32:
        found.append(invalid(f"{field}.activeDeadlineSeconds", deadline, between(1, MAX_INT32)))
    found += _named(spec, ("hostname", "subdomain"), names.dns_label, field)
    found += toleration_errors(entries(spec, "tolerations"), f"{field}.tolerations")
    found += _alias_errors(entries(spec, "hostAliases"), f"{field}.hostAliases")
    found += _named(spec, ("priorityClassName",), names.dns_subdomain, field)
    if spec.get("runtimeClassName") is not None:
        found += name_errors(spec["runtimeClassName"], f"{field}.runtimeClassName", names.dns_subdomain)
    if spec.get("preemptionPolicy") is not None:
        found += choice_errors(spec["preemptionPolicy"], f"{field}.preemptionPolicy", _PREEMPTIONS, sort=False)
    if spec.get("overhead") is not None:
        found += requirement_errors({"limits": spec["overhead"]}, f"{field}.overhead", set())
    return found + _system_errors(spec.get("os"), f"{field}.os")


def _alias_errors(aliases: list[Document], field: str) -> Errors:
    found: Errors = []
    for index, alias in enumerate(aliases):
        found += ip_errors(alias.get("ip") or "", f"{field}[{index}].ip")
        for position, name in enumerate(texts(alias, "hostnames")):
            found += name_errors(name, f"{field}[{index}].hostnames[{position}]", names.dns_subdomain)
    return found


def _system_errors(system: Document | None, field: str) -> Errors:
    if system is None:
        return []
    name = system.get("name") or ""
    if not name:
        return [required(f"{field}.name")]
    return [] if name in ("linux", "windows") else [not_supported(field, name, ("linux", "windows"))]


def _claim_errors(claims: list[Document], field: str) -> Errors:
    found: Errors = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        where, name = f"{field}[{index}]", claim.get("name") or ""
        if not name:
            found.append(required(f"{where}.name"))
        elif name in seen:
            found.append(duplicate(f"{where}.name", name))
        else:
            found += name_errors(name, f"{where}.name", names.dns_label)
            seen.add(name)
        given = [key for key in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(key) is not None]
        if len(given) > 1:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            found.append(invalid(where, claim, text))
        if not given:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            found.append(invalid(where, claim, text))
        for key in given:
            found += name_errors(claim[key], f"{where}.{key}", names.dns_subdomain)
    return found


def _host_network_errors(spec: Document, field: str, *, in_pod: bool) -> Errors:
    if not spec.get("hostNetwork"):
        return []
    found: Errors = []
    for index, container in enumerate(entries(spec, "containers")):
        for position, port in enumerate(entries(container, "ports")):
            host, inside = port.get("hostPort") or 0, port.get("containerPort") or 0
            if (in_pod or host) and host != inside:
                where = f"{field}.containers[{index}].ports[{position}].hostPort"
                found.append(invalid(where, host, "must match `containerPort` when `hostNetwork` is true"))
    return found


def _dns_errors(spec: Document, field: str) -> Errors:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [required(field, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{field}.nameservers", text)]
    if config is None:
        return []
    found: Errors = []
    servers = texts(config, "nameservers")
    if len(servers) > _MOST_NAME_SERVERS:
        found.append(invalid(f"{field}.nameservers", servers, "must not have more than 3 nameservers"))
    for index, server in enumerate(servers):
        found += ip_errors(server, f"{field}.nameservers[{index}]")
    for index, option in enumerate(entries(config, "options")):
        if not option.get("name"):
            found.append(required(f"{field}.options[{index}]", "must not be empty"))
    return found


def _hostname_errors(spec: Document, field: str) -> Errors:
    name = spec.get("hostnameOverride")
    if name is None:
        return []
    where = f"{field}.hostnameOverride"
    found: Errors = []
    for other in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(other):
            found.append(forbidden(where, f"may not be specified when {other} is true"))
    if len(name) > _LONGEST_HOSTNAME:
        found.append(too_long(where, _LONGEST_HOSTNAME))
    return found + name_errors(name, where, names.dns_subdomain)


def annotation_errors(annotations: Document, spec: Document, field: str) -> Errors:
    """Errors of annotations that mean something for pods."""
    found: Errors = []
    mirror, cost = annotations.get(MIRROR), annotations.get(_DELETION_COST)
    if mirror is not None and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        found.append(invalid(f"{field}[{MIRROR}]", mirror, text))
    if cost is not None and not _is_int32(cost):
        found.append(invalid(f"{field}[{_DELETION_COST}]", cost, "must be a 32bit integer"))
    return found


def _is_int32(text: str) -> bool:
    digits = text.removeprefix("-")
    plain = digits.isdecimal() and digits.isascii() and (digits == "0" or digits[0] != "0")
    return plain and -MAX_INT32 - 1 <= int(text) <= MAX_INT32


def template_errors(template: Document, field: str) -> Errors:
    """Errors of a pod template."""
    metadata, spec = part(template, "metadata"), part(template, "spec")
    found = label_errors(metadata.get("labels"), f"{field}.labels")
    for key in part(metadata, "annotations"):
        found += qualified_errors(key.lower(), f"{field}.annotations")
    found += annotation_errors(part(metadata, "annotations"), spec, f"{field}.annotations")
    found += specification_errors(spec, f"{field}.spec")
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        found.append(forbidden(f"{field}.spec.ephemeralContainers", text))
    return found


def pod_errors(pod: Document) -> Errors:
    """Errors of a Pod."""
    metadata, spec = part(pod, "metadata"), part(pod, "spec")
    found = finalizer_errors(pod) + annotation_errors(part(metadata, "annotations"), spec, "metadata.annotations")
    found += specification_errors(spec, "spec", pod_name=metadata.get("name") or "", in_pod=True)
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(entries(spec, "volumes")):
            for position, source in enumerate(entries(part(volume, "projected"), "sources")):
                if source.get("serviceAccountToken") is not None:
                    where = f"spec.volumes[{index}].projected.sources[{position}].serviceAccountToken"
                    found.append(forbidden(where, "must not be specified when serviceAccountName is not set"))
    for name in ("containers", "initContainers"):
        found += padded_image_errors(entries(spec, name), f"spec.{name}")
    return found


def new_pod_errors(pod: Document) -> Errors:
    """Errors of a Pod that is created."""
    found, spec = pod_errors(pod), part(pod, "spec")
    if spec.get("ephemeralContainers"):
        found.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        found.append(forbidden("spec.nodeName", text))
    return found
