# SPDX-License-Identifier: Apache-2.0
"""What a pod specification leaves open, in Pods and in templates.

The source is `pkg/apis/core/v1/defaults.go` with its conversions; the published schema holds only part of it.
"""

from typing import Any

from trainwright.api.objects import Document
from trainwright.controller.local.apiserver.strategies import amounts
from trainwright.controller.local.apiserver.strategies.images import pull_policy
from trainwright.controller.local.apiserver.strategies.parts import ensure, ensure_filled, entries, part

CONTAINER_FIELDS = ("initContainers", "containers", "ephemeralContainers")

_MODE = 0o644
_TOKEN_SECONDS = 3600
_GRACE_SECONDS = 30
_PROBE_DEFAULTS = (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3))
_VOLUME_DEFAULTS: dict[str, tuple[tuple[str, Any], ...]] = {
    "secret": (("defaultMode", _MODE),),
    "configMap": (("defaultMode", _MODE),),
    "downwardAPI": (("defaultMode", _MODE),),
    "projected": (("defaultMode", _MODE),),
    "hostPath": (("type", ""),),
    "azureDisk": (("cachingMode", "ReadWrite"), ("fsType", "ext4"), ("readOnly", False), ("kind", "Shared")),
}
_FILLED_VOLUME_DEFAULTS = {
    "iscsi": (("iscsiInterface", "default"),),
    "rbd": (("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")),
    "scaleIO": (("storageMode", "ThinProvisioned"), ("fsType", "xfs")),
}
_LEGACY_ANNOTATIONS = tuple(
    f"pod.{stage}.kubernetes.io/init-container{what}" for stage in ("beta", "alpha") for what in ("s", "-statuses")
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
    ensure(spec, "enableServiceLinks", True)
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
    ensure_filled(spec, "dnsPolicy", "ClusterFirst")
    ensure_filled(spec, "restartPolicy", "Always")
    ensure(spec, "securityContext", {})
    ensure(spec, "terminationGracePeriodSeconds", _GRACE_SECONDS)
    ensure_filled(spec, "schedulerName", "default-scheduler")
    set_account(spec, spec.get("serviceAccountName") or spec.get("serviceAccount") or "")
    for volume in entries(spec, "volumes"):
        _default_volume(volume)
    for field in CONTAINER_FIELDS:
        for container in entries(spec, field):
            _default_container(container)
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


def _default_container(container: Document) -> None:
    ensure_filled(container, "imagePullPolicy", pull_policy(container.get("image") or ""))
    ensure_filled(container, "terminationMessagePath", "/dev/termination-log")
    ensure_filled(container, "terminationMessagePolicy", "File")
    for port in entries(container, "ports"):
        ensure_filled(port, "protocol", "TCP")
    for variable in entries(container, "env"):
        _default_source(part(variable, "valueFrom"))
    round_up_resources(container["resources"])
    for field in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(field) is not None:
            _default_probe(container[field])
    for field in ("postStart", "preStop"):
        _default_http(part(part(container, "lifecycle"), field).get("httpGet"))


def _default_source(source: Document) -> None:
    """Defaults of `valueFrom`, and of the items of a downwardAPI volume."""
    if source.get("fieldRef") is not None:
        ensure_filled(source["fieldRef"], "apiVersion", "v1")
    if source.get("fileKeyRef") is not None:
        ensure(source["fileKeyRef"], "optional", False)


def _default_probe(probe: Document) -> None:
    for field, value in _PROBE_DEFAULTS:
        ensure_filled(probe, field, value)
    _default_http(probe.get("httpGet"))
    if probe.get("grpc") is not None:
        ensure(probe["grpc"], "service", "")


def _default_http(action: Document | None) -> None:
    if action is not None:
        ensure_filled(action, "path", "/")
        ensure_filled(action, "scheme", "HTTP")


def _default_volume(volume: Document) -> None:
    if all(value is None for field, value in volume.items() if field != "name"):
        volume["emptyDir"] = {}
    for field, source in volume.items():
        if not isinstance(source, dict):
            continue
        for name, value in _VOLUME_DEFAULTS.get(field, ()):
            ensure(source, name, value)
        for name, value in _FILLED_VOLUME_DEFAULTS.get(field, ()):
            ensure_filled(source, name, value)
    if volume.get("image") is not None:
        ensure_filled(volume["image"], "pullPolicy", pull_policy(volume["image"].get("reference") or ""))
    _default_projections(volume)


def _default_projections(volume: Document) -> None:
    for item in entries(part(volume, "downwardAPI"), "items"):
        _default_source(item)
    for source in entries(part(volume, "projected"), "sources"):
        for item in entries(part(source, "downwardAPI"), "items"):
            _default_source(item)
        if source.get("serviceAccountToken") is not None:
            ensure(source["serviceAccountToken"], "expirationSeconds", _TOKEN_SECONDS)
    claim = part(part(volume, "ephemeral"), "volumeClaimTemplate")
    if claim:
        default_claim_spec(claim["spec"])


def default_claim_spec(spec: Document) -> None:
    """Defaults of a claim for a volume."""
    ensure(spec, "volumeMode", "Filesystem")
    round_up_resources(spec["resources"])


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
