# SPDX-License-Identifier: Apache-2.0
"""The rows of built-in kinds other than pods."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from trainwright.api.times import parse
from trainwright.controller.local.apiserver.tables.ages import UNKNOWN, human_duration, since
from trainwright.controller.local.apiserver.tables.reading import (
    NONE,
    Document,
    condition_is_true,
    pairs,
    part,
    parts,
    selector_text,
    text,
)

Cells = list[Any]

_UNSET = "<unset>"
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_ROLE_LABEL = "node-role.kubernetes.io/"


def name_of(document: Document) -> Any:
    """The name of an object."""
    return part(document, "metadata").get("name", "")


def _age(document: Document, now: datetime) -> str:
    return since(part(document, "metadata").get("creationTimestamp"), now)


def default_cells(document: Document, _: datetime) -> Cells:
    """Name and time of creation, of kinds without columns of their own."""
    return [name_of(document), part(document, "metadata").get("creationTimestamp", "")]


def job_cells(job: Document, now: datetime) -> Cells:
    """The cells of a Job."""
    spec, status = part(job, "spec"), part(job, "status")
    succeeded = status.get("succeeded") or 0
    completions, parallelism = spec.get("completions"), spec.get("parallelism") or 0
    if completions is not None:
        done = f"{succeeded}/{completions}"
    else:
        done = f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
    started, completed = status.get("startTime"), status.get("completionTime")
    lasted = human_duration((parse(completed) if completed else now) - parse(started)) if started else ""
    containers = parts(part(spec, "template", "spec"), "containers")
    names, images = (",".join(text(one, key) for one in containers) for key in ("name", "image"))
    selector = selector_text(part(spec, "selector"))
    return [name_of(job), _job_status(job), done, lasted, _age(job, now), names, images, selector]


def _job_status(job: Document) -> str:
    status = part(job, "status")
    for kind in ("Complete", "Failed"):
        if condition_is_true(status, kind):
            return kind
    if part(job, "metadata").get("deletionTimestamp"):
        return "Terminating"
    others = ("Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((kind for kind in others if condition_is_true(status, kind)), "Running")


def node_cells(node: Document, now: datetime) -> Cells:
    """The cells of a Node."""
    status, info = part(node, "status"), part(node, "status", "nodeInfo")
    ready = [one for one in parts(status, "conditions") if one.get("type") == "Ready"]
    states = ["Unknown"] if not ready else ["Ready" if ready[-1].get("status") == "True" else "NotReady"]
    if part(node, "spec").get("unschedulable"):
        states.append("SchedulingDisabled")
    kernel = text(info, "kernelVersion", UNKNOWN)
    if architecture := info.get("architecture"):
        kernel += f" ({architecture})"
    return [
        name_of(node),
        ",".join(states),
        ",".join(sorted(set(_roles(part(node, "metadata", "labels"))))) or NONE,
        _age(node, now),
        text(info, "kubeletVersion"),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        text(info, "osImage", UNKNOWN),
        kernel,
        text(info, "containerRuntimeVersion", UNKNOWN),
    ]


def _roles(labels: Document) -> Iterable[str]:
    for key, value in labels.items():
        if key.startswith(_ROLE_LABEL) and key != _ROLE_LABEL:
            yield key.removeprefix(_ROLE_LABEL)
        elif key == "kubernetes.io/role" and value:
            yield value


def _address(status: Document, kind: str) -> str:
    found = (text(one, "address") for one in parts(status, "addresses") if one.get("type") == kind)
    return next(found, NONE)


def namespace_cells(namespace: Document, now: datetime) -> Cells:
    """The cells of a Namespace."""
    return [name_of(namespace), text(part(namespace, "status"), "phase"), _age(namespace, now)]


def event_cells(event: Document, now: datetime) -> Cells:
    """The cells of an Event, in the form of either of its groups."""
    involved = part(event, "involvedObject") or part(event, "regarding")
    first = event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event.get("eventTime")
    last = event.get("lastTimestamp") or event.get("deprecatedLastTimestamp") or first
    count = event.get("count") or event.get("deprecatedCount") or 1
    if event.get("series") is not None:
        series = part(event, "series")
        last, count = series.get("lastObservedTime"), series.get("count") or 0
    source = part(event, "source") or part(event, "deprecatedSource")
    component = text(source, "component") or text(event, "reportingComponent") or text(event, "reportingController")
    instance = text(source, "host") or text(event, "reportingInstance")
    target, name = text(involved, "kind").lower(), text(involved, "name")
    return [
        since(last, now),
        text(event, "type"),
        text(event, "reason"),
        f"{target}/{name}" if name else target,
        text(involved, "fieldPath"),
        f"{component}, {instance}" if instance else component,
        (text(event, "message") or text(event, "note")).strip(),
        since(first, now),
        count,
        name_of(event),
    ]


def service_cells(service: Document, now: datetime) -> Cells:
    """The cells of a Service."""
    spec = part(service, "spec")
    addresses = parts(spec, "clusterIPs")
    ports = ",".join(_port(port) for port in parts(spec, "ports"))
    return [
        name_of(service),
        text(spec, "type"),
        addresses[0] if addresses else NONE,
        _external_addresses(service),
        ports or NONE,
        _age(service, now),
        pairs(part(spec, "selector")),
    ]


def _port(port: Document) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node_port}/{text(port, 'protocol')}"


def _external_addresses(service: Document) -> str:
    spec = part(service, "spec")
    external = list(parts(spec, "externalIPs"))
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            ingress = parts(part(service, "status", "loadBalancer"), "ingress")
            balanced = {text(one, "ip") or text(one, "hostname") for one in ingress} - {""}
            return ",".join([*sorted(balanced), *external]) or "<pending>"
        case "ExternalName":
            return text(spec, "externalName")
    return UNKNOWN


def secret_cells(secret: Document, now: datetime) -> Cells:
    """The cells of a Secret."""
    return [name_of(secret), text(secret, "type"), len(part(secret, "data")), _age(secret, now)]


def config_map_cells(config_map: Document, now: datetime) -> Cells:
    """The cells of a ConfigMap."""
    count = len(part(config_map, "data")) + len(part(config_map, "binaryData"))
    return [name_of(config_map), count, _age(config_map, now)]


def _modes(modes: Iterable[str]) -> str:
    found = set(modes)
    return ",".join(short for mode, short in _MODES.items() if mode in found)


def _storage_class(document: Document) -> str:
    annotations = part(document, "metadata", "annotations")
    beta = annotations.get("volume.beta.kubernetes.io/storage-class")
    return beta if beta is not None else text(part(document, "spec"), "storageClassName")


def _phase(document: Document) -> str:
    if part(document, "metadata").get("deletionTimestamp"):
        return "Terminating"
    return text(part(document, "status"), "phase")


def claim_cells(claim: Document, now: datetime) -> Cells:
    """The cells of a PersistentVolumeClaim."""
    spec, status = part(claim, "spec"), part(claim, "status")
    volume = text(spec, "volumeName")
    return [
        name_of(claim),
        _phase(claim),
        volume,
        part(status, "capacity").get("storage", "0") if volume else "",
        _modes(parts(status, "accessModes")) if volume else "",
        _storage_class(claim),
        spec.get("volumeAttributesClassName", _UNSET),
        _age(claim, now),
        spec.get("volumeMode", _UNSET),
    ]


def volume_cells(volume: Document, now: datetime) -> Cells:
    """The cells of a PersistentVolume."""
    spec, claim = part(volume, "spec"), part(volume, "spec", "claimRef")
    return [
        name_of(volume),
        part(spec, "capacity").get("storage", "0"),
        _modes(parts(spec, "accessModes")),
        text(spec, "persistentVolumeReclaimPolicy"),
        _phase(volume),
        f"{text(claim, 'namespace')}/{text(claim, 'name')}" if "claimRef" in spec else "",
        _storage_class(volume),
        spec.get("volumeAttributesClassName", _UNSET),
        text(part(volume, "status"), "reason"),
        _age(volume, now),
        spec.get("volumeMode", _UNSET),
    ]


def lease_cells(lease: Document, now: datetime) -> Cells:
    """The cells of a Lease."""
    return [name_of(lease), text(part(lease, "spec"), "holderIdentity"), _age(lease, now)]


def age_cells(document: Document, now: datetime) -> Cells:
    """Name and age, of a ServiceAccount."""
    return [name_of(document), _age(document, now)]


def storage_class_cells(storage_class: Document, now: datetime) -> Cells:
    """The cells of a StorageClass; the default one is marked."""
    annotations = part(storage_class, "metadata", "annotations")
    keys = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
    default = any(annotations.get(key) == "true" for key in keys)
    return [
        f"{name_of(storage_class)} (default)" if default else name_of(storage_class),
        text(storage_class, "provisioner"),
        text(storage_class, "reclaimPolicy", "Delete"),
        text(storage_class, "volumeBindingMode", "Immediate"),
        storage_class.get("allowVolumeExpansion") is True,
        _age(storage_class, now),
    ]


def priority_class_cells(priority_class: Document, now: datetime) -> Cells:
    """The cells of a PriorityClass."""
    return [
        name_of(priority_class),
        priority_class.get("value") or 0,
        priority_class.get("globalDefault") is True,
        _age(priority_class, now),
        text(priority_class, "preemptionPolicy"),
    ]


def runtime_class_cells(runtime_class: Document, now: datetime) -> Cells:
    """The cells of a RuntimeClass."""
    return [name_of(runtime_class), text(runtime_class, "handler"), _age(runtime_class, now)]


def webhook_cells(configuration: Document, now: datetime) -> Cells:
    """The cells of a webhook configuration."""
    return [name_of(configuration), len(parts(configuration, "webhooks")), _age(configuration, now)]


def policy_cells(policy: Document, now: datetime) -> Cells:
    """The cells of a ValidatingAdmissionPolicy."""
    kind = part(policy, "spec", "paramKind")
    shown = f"{text(kind, 'apiVersion')}/{text(kind, 'kind')}" if kind else _UNSET
    return [name_of(policy), len(parts(part(policy, "spec"), "validations")), shown, _age(policy, now)]


def policy_binding_cells(binding: Document, now: datetime) -> Cells:
    """The cells of a ValidatingAdmissionPolicyBinding."""
    spec, reference = part(binding, "spec"), part(binding, "spec", "paramRef")
    shown = _UNSET
    if text(reference, "name"):
        shown = f"{text(reference, 'namespace', '*')}/{text(reference, 'name')}"
    elif part(reference, "selector"):
        shown = selector_text(part(reference, "selector"))
    return [name_of(binding), text(spec, "policyName"), shown, _age(binding, now)]


def binding_cells(binding: Document, now: datetime) -> Cells:
    """The cells of a RoleBinding or ClusterRoleBinding."""
    role = part(binding, "roleRef")
    subjects: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in parts(binding, "subjects"):
        name, namespace = text(subject, "name"), text(subject, "namespace")
        if subject.get("kind") == "ServiceAccount" and namespace:
            name = f"{namespace}/{name}"
        subjects.setdefault(text(subject, "kind"), []).append(name)
    cells = [name_of(binding), f"{text(role, 'kind')}/{text(role, 'name')}", _age(binding, now)]
    return [*cells, *(", ".join(subjects[kind]) for kind in ("User", "Group", "ServiceAccount"))]
