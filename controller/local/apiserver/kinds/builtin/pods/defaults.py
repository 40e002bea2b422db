# SPDX-License-Identifier: Apache-2.0
"""What a pod specification leaves open, in Pods and in templates, and no recorded default of one field says."""

import re

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.kinds.builtin import amounts
from trainwright.controller.local.apiserver.kinds.builtin.parts import ensure, ensure_filled, entries, part
from trainwright.controller.local.gowriting import fields_of

CONTAINER_FIELDS = ("initContainers", "containers", "ephemeralContainers")

_SOURCES = frozenset(fields_of("core/v1.Volume")) - {"name"}
_LEGACY_ANNOTATIONS = tuple(
    f"pod.{stage}.kubernetes.io/init-container{what}" for stage in ("beta", "alpha") for what in ("s", "-statuses")
)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(
    rf"(?:{_DOMAIN}/)?(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?:@(?P<digest>{_DIGEST}))?",
    re.ASCII,
)


def default_pod(pod: Document) -> None:
    """Defaults of a Pod: those of any pod specification, and some that templates do not get."""
    drop_legacy_annotations(pod)
    spec = pod["spec"]
    for field in ("containers", "initContainers"):
        for container in entries(spec, field):
            _request_limits(container)
    default_pod_spec(spec)
    _default_pod_resources(spec)
    if spec.get("hostNetwork"):
        _open_host_ports(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    _default_status(pod["status"])


def default_template(template: Document) -> None:
    """Defaults of a pod template."""
    drop_legacy_annotations(template)
    default_pod_spec(template["spec"])


def drop_legacy_annotations(document: Document) -> None:
    """Take out annotations of Kubernetes 1.7 that kubelets of that time acted on."""
    annotations = part(document, "metadata").get("annotations")
    if annotations:
        for key in _LEGACY_ANNOTATIONS:
            annotations.pop(key, None)
        if not annotations:
            del document["metadata"]["annotations"]


def default_pod_spec(spec: Document) -> None:
    """Defaults that Pods and templates share."""
    for volume in entries(spec, "volumes"):
        if all(volume.get(source) is None for source in _SOURCES):
            volume["emptyDir"] = {}
        if volume.get("image") is not None:
            ensure_filled(volume["image"], "pullPolicy", pull_policy(volume["image"].get("reference") or ""))
        claim = part(part(volume, "ephemeral"), "volumeClaimTemplate")
        if claim:
            round_up_resources(claim["spec"]["resources"])
    set_account(spec, spec.get("serviceAccountName") or spec.get("serviceAccount") or "")
    for field in CONTAINER_FIELDS:
        for container in entries(spec, field):
            ensure_filled(container, "imagePullPolicy", pull_policy(container.get("image") or ""))
            round_up_resources(container["resources"])
            for variable in entries(container, "env"):
                source = part(variable, "valueFrom").get("fileKeyRef")
                if source is not None:
                    ensure(source, "optional", False)
    amounts.round_up(spec, "overhead")
    round_up_resources(spec.get("resources"))


def set_account(spec: Document, name: str) -> None:
    """Name the service account, under the old field too: both are always the same."""
    for field in ("serviceAccountName", "serviceAccount"):
        if name:
            spec[field] = name
        else:
            spec.pop(field, None)


def round_up_resources(resources: Document | None) -> None:
    """Write requests and limits canonically."""
    if resources:
        amounts.round_up(resources, "limits")
        amounts.round_up(resources, "requests")


def _request_limits(container: Document) -> None:
    resources = part(container, "resources")
    for name, limit in part(resources, "limits").items():
        if not resources.get("requests"):
            resources["requests"] = {}
        resources["requests"].setdefault(name, limit)


def _default_pod_resources(spec: Document) -> None:
    """Requests and limits of the whole pod, where it has some already (KEP-2837)."""
    resources = spec.get("resources")
    if not resources or not (resources.get("limits") or resources.get("requests")):
        return
    limits = dict(part(resources, "limits"))
    for name, amount in amounts.of_containers(spec, "limits").items():
        if name.startswith("hugepages-") and name not in part(resources, "requests"):
            limits.setdefault(name, amount.canonical())
    if limits:
        resources["limits"] = limits
    if not limits:
        return
    requests = dict(part(resources, "requests"))
    for name, amount in amounts.of_containers(spec, "requests").items():
        if name in ("cpu", "memory"):
            requests.setdefault(name, amount.canonical())
    for name, limit in limits.items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            requests.setdefault(name, limit)
    if requests:
        resources["requests"] = requests


def _open_host_ports(spec: Document) -> None:
    for field in ("containers", "initContainers"):
        for container in entries(spec, field):
            for port in entries(container, "ports"):
                ensure_filled(port, "hostPort", port.get("containerPort"))


def _default_status(status: Document) -> None:
    address, addresses = status.get("podIP"), status.get("podIPs")
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses:
        status["podIP"] = addresses[0].get("ip")
    for field in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for container in entries(status, field):
            amounts.round_up(container, "allocatedResources")
            round_up_resources(container.get("resources"))
    amounts.round_up(status, "allocatedResources")
    round_up_resources(status.get("resources"))


def pull_policy(image: str) -> str:
    """The default `imagePullPolicy`: Always for the tag `latest`, also when it is implied, else IfNotPresent."""
    return "Always" if _tag(image) == "latest" else "IfNotPresent"


def _tag(image: str) -> str:
    """The tag; `latest` if neither tag nor digest is given; empty if this is not the name of an image."""
    found = _REFERENCE.fullmatch(image)
    if found is None or _IDENTIFIER.fullmatch(image):
        return ""
    if found["tag"]:
        return found["tag"]
    return "" if found["digest"] else "latest"
