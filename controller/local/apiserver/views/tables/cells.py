# SPDX-License-Identifier: Apache-2.0
"""Cells of built-in kinds that show more than what is at a path."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from trainwright.api.times import parse
from trainwright.controller.local.apiserver.views.tables.ages import UNKNOWN, human_duration, since
from trainwright.controller.local.apiserver.views.tables.reading import (
    NONE,
    Document,
    condition_is_true,
    pairs,
    part,
    parts,
    selector_text,
    text,
)

Cell = Callable[[Document, datetime], Any]

_UNSET = "<unset>"
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_ROLE_LABEL = "node-role.kubernetes.io/"
_SHOWN_PARTS = 3
"""Endpoints, ports and targets that are shown before `+ 2 more...`."""


def name_of(document: Document) -> Any:
    """The name of an object."""
    return part(document, "metadata").get("name", "")


def default_cells(document: Document, _: datetime) -> list[Any]:
    """Name and time of creation, of kinds without columns of their own."""
    return [name_of(document), part(document, "metadata").get("creationTimestamp", "")]


def _cell(read: Callable[[Document], Any]) -> Cell:
    """A cell that no time counts for."""
    return lambda document, _: read(document)


# ------------------------------------------------------------------ jobs


def _completions(job: Document) -> str:
    spec = part(job, "spec")
    succeeded = part(job, "status").get("succeeded") or 0
    completions, parallelism = spec.get("completions"), spec.get("parallelism") or 0
    if completions is not None:
        return f"{succeeded}/{completions}"
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(job: Document, now: datetime) -> str:
    status = part(job, "status")
    started, completed = status.get("startTime"), status.get("completionTime")
    return human_duration((parse(completed) if completed else now) - parse(started)) if started else ""


def _job_status(job: Document) -> str:
    status = part(job, "status")
    for kind in ("Complete", "Failed"):
        if condition_is_true(status, kind):
            return kind
    if part(job, "metadata").get("deletionTimestamp"):
        return "Terminating"
    others = ("Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((kind for kind in others if condition_is_true(status, kind)), "Running")


def _selector(document: Document) -> str:
    return selector_text(part(document, "spec", "selector"))


# ------------------------------------------------------------------ nodes


def _node_status(node: Document) -> str:
    ready = [one for one in parts(part(node, "status"), "conditions") if one.get("type") == "Ready"]
    states = ["Unknown"] if not ready else ["Ready" if ready[-1].get("status") == "True" else "NotReady"]
    if part(node, "spec").get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _kernel(node: Document) -> str:
    info = part(node, "status", "nodeInfo")
    kernel, architecture = text(info, "kernelVersion", UNKNOWN), info.get("architecture")
    return f"{kernel} ({architecture})" if architecture else kernel


def _roles(node: Document) -> str:
    found: set[str] = set()
    for key, value in part(node, "metadata", "labels").items():
        if key.startswith(_ROLE_LABEL) and key != _ROLE_LABEL:
            found.add(key.removeprefix(_ROLE_LABEL))
        elif key == "kubernetes.io/role" and value:
            found.add(value)
    return ",".join(sorted(found)) or NONE


def _address(kind: str) -> Cell:
    def read(node: Document) -> str:
        addresses = parts(part(node, "status"), "addresses")
        return next((text(one, "address") for one in addresses if one.get("type") == kind), NONE)

    return _cell(read)


def _of_node(field: str, default: str = "") -> Cell:
    return _cell(lambda node: text(part(node, "status", "nodeInfo"), field, default))


# ------------------------------------------------------------------ events, in the form of either group


def _of_event(*fields: str) -> Callable[[Document], Any]:
    return lambda event: next((event[field] for field in fields if event.get(field)), None)


_first_seen = _of_event("firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
_last_seen = _of_event("lastTimestamp", "deprecatedLastTimestamp")


def _last_time(event: Document, now: datetime) -> str:
    series = part(event, "series").get("lastObservedTime") if event.get("series") is not None else None
    return since(series or _last_seen(event) or _first_seen(event), now)


def _count(event: Document) -> int:
    if event.get("series") is not None:
        return part(event, "series").get("count") or 0
    return _of_event("count", "deprecatedCount")(event) or 1


def _target(event: Document) -> str:
    involved = part(event, "involvedObject") or part(event, "regarding")
    target, name = text(involved, "kind").lower(), text(involved, "name")
    return f"{target}/{name}" if name else target


def _source(event: Document) -> str:
    source = part(event, "source") or part(event, "deprecatedSource")
    component = text(source, "component") or text(event, "reportingComponent") or text(event, "reportingController")
    instance = text(source, "host") or text(event, "reportingInstance")
    return f"{component}, {instance}" if instance else component


_EVENT: dict[str, Cell] = {
    "Last Seen": _last_time,
    "Type": _cell(lambda event: text(event, "type")),
    "Reason": _cell(lambda event: text(event, "reason")),
    "Object": _cell(_target),
    "Subobject": _cell(lambda event: text(part(event, "involvedObject") or part(event, "regarding"), "fieldPath")),
    "Source": _cell(_source),
    "Message": _cell(lambda event: (text(event, "message") or text(event, "note")).strip()),
    "First Seen": lambda event, now: since(_first_seen(event), now),
    "Count": _cell(_count),
}


# ------------------------------------------------------------------ networks


def _ports(service: Document) -> str:
    return ",".join(map(_port, parts(part(service, "spec"), "ports"))) or NONE


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
            return ",".join([*_balanced(service), *external]) or "<pending>"
        case "ExternalName":
            return text(spec, "externalName")
    return UNKNOWN


def _balanced(document: Document) -> list[str]:
    """The addresses of a load balancer."""
    ingress = parts(part(document, "status", "loadBalancer"), "ingress")
    return sorted({text(one, "ip") or text(one, "hostname") for one in ingress} - {""})


def _hosts(ingress: Document) -> str:
    hosts = [one["host"] for one in parts(part(ingress, "spec"), "rules") if one.get("host")]
    return _some(hosts, "*", " + {} more...")


def _some(found: list[str], none: str, more: str) -> str:
    rest = len(found) - _SHOWN_PARTS
    return (",".join(found[:_SHOWN_PARTS]) or none) + (more.format(rest) if rest > 0 else "")


def _endpoints(endpoints: Document) -> str:
    found: list[str] = []
    for subset in parts(endpoints, "subsets"):
        ports = [one.get("port") for one in parts(subset, "ports")]
        for address in parts(subset, "addresses"):
            ip = text(address, "ip")
            found += [f"{ip}:{port}" for port in ports] or [ip]
    return _some(found, NONE, " + {} more...")


def _slice_ports(slice_: Document) -> str:
    return _some([str(one.get("port", "*")) for one in parts(slice_, "ports")], _UNSET, " + {} more...")


def _slice_addresses(slice_: Document) -> str:
    found = [address for one in parts(slice_, "endpoints") for address in parts(one, "addresses")]
    return _some(found, _UNSET, " + {} more...")


# ------------------------------------------------------------------ storage


def _modes(modes: Iterable[str]) -> str:
    found = set(modes)
    return ",".join(short for mode, short in _MODES.items() if mode in found)


def _storage_class(document: Document) -> str:
    beta = part(document, "metadata", "annotations").get("volume.beta.kubernetes.io/storage-class")
    return beta if beta is not None else text(part(document, "spec"), "storageClassName")


def _phase(document: Document) -> str:
    if part(document, "metadata").get("deletionTimestamp"):
        return "Terminating"
    return text(part(document, "status"), "phase")


def _if_bound(claim: Document, shown: str) -> str:
    return shown if text(part(claim, "spec"), "volumeName") else ""


def _claim(volume: Document) -> str:
    claim = part(volume, "spec", "claimRef")
    return f"{text(claim, 'namespace')}/{text(claim, 'name')}" if "claimRef" in part(volume, "spec") else ""


def _of_spec(field: str, default: Any = _UNSET) -> Cell:
    return _cell(lambda document: part(document, "spec").get(field, default))


def _class_name(storage_class: Document) -> str:
    annotations = part(storage_class, "metadata", "annotations")
    keys = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
    default = any(annotations.get(key) == "true" for key in keys)
    return f"{name_of(storage_class)} (default)" if default else name_of(storage_class)


_VOLUME_PARTS: dict[str, Cell] = {
    "Status": _cell(_phase),
    "StorageClass": _cell(_storage_class),
    "VolumeAttributesClass": _of_spec("volumeAttributesClassName"),
    "VolumeMode": _of_spec("volumeMode"),
}


# ------------------------------------------------------------------ others


def _subjects(kind: str) -> Cell:
    def read(binding: Document) -> str:
        names: list[str] = []
        for subject in parts(binding, "subjects"):
            name = text(subject, "name")
            if subject.get("kind") == kind:
                names.append(f"{text(subject, 'namespace')}/{name}" if kind == "ServiceAccount" else name)
        return ", ".join(names)

    return _cell(read)


def _parameters(policy: Document) -> str:
    kind = part(policy, "spec", "paramKind")
    return f"{text(kind, 'apiVersion')}/{text(kind, 'kind')}" if kind else _UNSET


def _parameter(binding: Document) -> str:
    reference = part(binding, "spec", "paramRef")
    if text(reference, "name"):
        return f"{text(reference, 'namespace', '*')}/{text(reference, 'name')}"
    return selector_text(part(reference, "selector")) if part(reference, "selector") else _UNSET


def _claim_state(claim: Document) -> str:
    status = part(claim, "status")
    deleted = bool(part(claim, "metadata").get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if status.get("allocation") is None:
        states += [] if deleted else ["pending"]
    else:
        states += ["allocated", *(["reserved"] if status.get("reservedFor") else [])]
    return ",".join(states)


def _controller(revision: Document) -> str:
    for owner in parts(part(revision, "metadata"), "ownerReferences"):
        if owner.get("controller"):
            group = text(owner, "apiVersion").rpartition("/")[0]
            return f"{text(owner, 'kind').lower()}{f'.{group}' if group else ''}/{text(owner, 'name')}"
    return NONE


def _class_parameters(one: Document) -> str:
    reference = part(one, "spec", "parameters")
    group = text(reference, "apiGroup")
    return f"{text(reference, 'kind')}{f'.{group}' if group else ''}/{text(reference, 'name')}" if reference else NONE


def _parent(address: Document) -> str:
    reference = part(address, "spec", "parentRef")
    steps = (text(reference, name) for name in ("resource", "group", "namespace", "name"))
    return "/".join(step for step in steps if step)


def _missing_level(schema: Document) -> str:
    dangling = [one for one in parts(part(schema, "status"), "conditions") if one.get("type") == "Dangling"]
    return text(dangling[0], "status") if dangling else "?"


def _last_schedule(cron_job: Document, now: datetime) -> str:
    last = part(cron_job, "status").get("lastScheduleTime")
    return since(last, now) if last else NONE


def _requestor_duration(request: Document, _: datetime) -> str:
    seconds = part(request, "spec").get("expirationSeconds")
    return NONE if seconds is None else human_duration(timedelta(seconds=seconds))


def _request_condition(request: Document) -> str:
    found = [text(one, "type") for one in parts(part(request, "status"), "conditions")]
    state = "Denied" if "Denied" in found else "Approved" if "Approved" in found else "Pending"
    failed = ",Failed" if "Failed" in found else ""
    return f"{state}{failed}{',Issued' if part(request, 'status').get('certificate') else ''}"


def _quota(prefix: str) -> Cell:
    def read(quota: Document) -> str:
        hard, used = part(quota, "status", "hard"), part(quota, "status", "used")
        named = [name for name in sorted(hard) if (name.startswith("limits")) == (prefix == "limits")]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in named)

    return _cell(read)


def _service_of(api_service: Document) -> str:
    service = part(api_service, "spec", "service")
    return f"{text(service, 'namespace')}/{text(service, 'name')}" if service else "Local"


def _available(api_service: Document) -> str:
    found = [one for one in parts(part(api_service, "status"), "conditions") if one.get("type") == "Available"]
    if not found:
        return UNKNOWN
    status = text(found[0], "status")
    return status if status == "True" or not found[0].get("reason") else f"{status} ({found[0]['reason']})"


def _metrics(scaler: Document) -> str:
    found = [_metric(one) for one in parts(part(scaler, "spec"), "metrics")]
    return _some(found[:2], NONE, "") + (f" + {len(found) - 2} more..." if len(found) > 2 else "")


def _metric(metric: Document) -> str:
    resource = part(metric, "resource") or part(metric, "containerResource")
    targets = [part(one, "target") for one in metric.values() if part(one, "target")]
    target = targets[0] if targets else {}
    percent = target.get("averageUtilization")
    wanted = f"{percent}%" if percent is not None else target.get("averageValue") or target.get("value") or UNKNOWN
    return f"{text(resource, 'name')}: {UNKNOWN}/{wanted}" if resource else f"{UNKNOWN}/{wanted}"


_RBAC_SUBJECTS: dict[str, Cell] = {
    "Users": _subjects("User"),
    "Groups": _subjects("Group"),
    "ServiceAccounts": _subjects("ServiceAccount"),
}
_ADMISSION, _RBAC = "admissionregistration.k8s.io/v1", "rbac.authorization.k8s.io/v1"
CELLS: dict[tuple[str, str], dict[str, Cell]] = {
    ("v1", "Event"): _EVENT,
    ("events.k8s.io/v1", "Event"): _EVENT,
    ("v1", "Node"): {
        "Status": _cell(_node_status),
        "Roles": _cell(_roles),
        "Version": _of_node("kubeletVersion"),
        "Internal-IP": _address("InternalIP"),
        "External-IP": _address("ExternalIP"),
        "OS-Image": _of_node("osImage", UNKNOWN),
        "Kernel-Version": _cell(_kernel),
        "Container-Runtime": _of_node("containerRuntimeVersion", UNKNOWN),
    },
    ("v1", "Service"): {
        "Cluster-IP": _cell(lambda service: next(iter(parts(part(service, "spec"), "clusterIPs")), NONE)),
        "External-IP": _cell(_external_addresses),
        "Port(s)": _cell(_ports),
        "Selector": _cell(lambda service: pairs(part(service, "spec", "selector"))),
    },
    ("v1", "ConfigMap"): {"Data": _cell(lambda one: len(part(one, "data")) + len(part(one, "binaryData")))},
    ("v1", "PersistentVolumeClaim"): {
        **_VOLUME_PARTS,
        "Volume": _of_spec("volumeName", ""),
        "Capacity": _cell(lambda claim: _if_bound(claim, part(claim, "status", "capacity").get("storage", "0"))),
        "Access Modes": _cell(lambda claim: _if_bound(claim, _modes(parts(part(claim, "status"), "accessModes")))),
    },
    ("v1", "PersistentVolume"): {
        **_VOLUME_PARTS,
        "Capacity": _cell(lambda volume: part(volume, "spec", "capacity").get("storage", "0")),
        "Access Modes": _cell(lambda volume: _modes(parts(part(volume, "spec"), "accessModes"))),
        "Claim": _cell(_claim),
        "Reason": _cell(lambda volume: text(part(volume, "status"), "reason")),
    },
    ("v1", "Endpoints"): {"Endpoints": _cell(_endpoints)},
    ("v1", "ResourceQuota"): {"Request": _quota("requests"), "Limit": _quota("limits")},
    ("batch/v1", "Job"): {
        "Status": _cell(_job_status),
        "Completions": _cell(_completions),
        "Duration": _duration,
        "Selector": _cell(_selector),
    },
    ("batch/v1", "CronJob"): {
        "Last Schedule": _last_schedule,
        "Selector": _cell(lambda job: selector_text(part(job, "spec", "jobTemplate", "spec", "selector"))),
    },
    ("apps/v1", "ControllerRevision"): {"Controller": _cell(_controller)},
    ("autoscaling/v2", "HorizontalPodAutoscaler"): {"Targets": _cell(_metrics)},
    ("networking.k8s.io/v1", "IngressClass"): {"Parameters": _cell(_class_parameters)},
    ("networking.k8s.io/v1", "IPAddress"): {"ParentRef": _cell(_parent)},
    ("v1", "PodTemplate"): {"Pod Labels": _cell(lambda one: pairs(part(one, "template", "metadata", "labels")))},
    ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema"): {"MissingPL": _cell(_missing_level)},
    ("scheduling.k8s.io/v1", "PriorityClass"): {
        "Value": _cell(lambda one: one.get("value") or 0),
        "Global-Default": _cell(lambda one: one.get("globalDefault") is True),
    },
    ("certificates.k8s.io/v1", "CertificateSigningRequest"): {
        "Requestor": _cell(lambda request: text(part(request, "spec"), "username")),
        "RequestedDuration": _requestor_duration,
        "Condition": _cell(_request_condition),
    },
    ("discovery.k8s.io/v1", "EndpointSlice"): {
        "Ports": _cell(_slice_ports),
        "Endpoints": _cell(_slice_addresses),
    },
    ("networking.k8s.io/v1", "Ingress"): {
        "Hosts": _cell(_hosts),
        "Address": _cell(lambda ingress: ",".join(_balanced(ingress))),
        "Ports": _cell(lambda ingress: "80, 443" if parts(part(ingress, "spec"), "tls") else "80"),
    },
    ("storage.k8s.io/v1", "StorageClass"): {"Name": _cell(_class_name)},
    ("apiregistration.k8s.io/v1", "APIService"): {"Service": _cell(_service_of), "Available": _cell(_available)},
    (_ADMISSION, "ValidatingAdmissionPolicy"): {"ParamKind": _cell(_parameters)},
    (_ADMISSION, "MutatingAdmissionPolicy"): {"ParamKind": _cell(_parameters)},
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): {"ParamRef": _cell(_parameter)},
    (_ADMISSION, "MutatingAdmissionPolicyBinding"): {"ParamRef": _cell(_parameter)},
    (_RBAC, "RoleBinding"): _RBAC_SUBJECTS,
    (_RBAC, "ClusterRoleBinding"): _RBAC_SUBJECTS,
    ("resource.k8s.io/v1", "ResourceClaim"): {"State": _cell(_claim_state)},
}
"""By kind and column: in place of what was recorded."""
