# SPDX-License-Identifier: Apache-2.0
"""Cells of tables: read at the path that the row of a kind says, or by a function of this file."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainwright.api.times import parse
from trainwright.controller.local.apiserver.views.reading import (
    NONE,
    UNKNOWN,
    Cell,
    Document,
    Read,
    compile_cell,
    condition_is_true,
    human_duration,
    part,
    parts,
    selector_text,
    since,
    text,
)

_ENDS = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


@dataclass(slots=True)
class _Restarts:
    count: int = 0
    last: str = ""

    def add(self, container: Document) -> None:
        """Count a container's restarts, and note when its last run ended."""
        self.count += container.get("restartCount") or 0
        ended = part(container, "lastState", "terminated").get("finishedAt")
        if ended and (not self.last or parse(self.last) < parse(ended)):
            self.last = ended

    def shown(self, now: datetime) -> str:
        return f"{self.count} ({since(self.last, now)} ago)" if self.count and self.last else str(self.count)


@dataclass(slots=True)
class _Findings:
    """What the containers tell of a pod."""

    reason: str
    ready: int = 0
    initializing: bool = False


def pod_cells(pod: Document, now: datetime) -> list[Any]:
    """The cells of a pod."""
    metadata, spec, status = part(pod, "metadata"), part(pod, "spec"), part(pod, "status")
    sidecars = {one.get("name") for one in parts(spec, "initContainers") if one.get("restartPolicy") == "Always"}
    found = _Findings(_pod_reason(status))
    of_all_init, restarts = _Restarts(), _Restarts()
    _look_at_init_containers(pod, sidecars, found, of_all_init, restarts)
    if not found.initializing or condition_is_true(status, "Initialized"):
        _look_at_containers(status, found, restarts)
    else:
        restarts = of_all_init
    if metadata.get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            found.reason = "Unknown"
        elif status.get("phase") not in _ENDS:
            found.reason = "Terminating"
    total = len(parts(spec, "containers")) + len(sidecars)
    addresses = parts(status, "podIPs")
    return [
        metadata.get("name"),
        f"{found.ready}/{total}",
        found.reason,
        restarts.shown(now),
        since(metadata.get("creationTimestamp"), now),
        text(addresses[0], "ip", NONE) if addresses else NONE,
        text(spec, "nodeName", NONE),
        text(status, "nominatedNodeName", NONE),
        _gates(spec, status),
    ]


def pod_conditions(pod: Document) -> list[dict[str, str]]:
    """The conditions of a pod's row: whether it is over."""
    phase = part(pod, "status").get("phase")
    if phase not in _ENDS:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDS[phase]}]


def _pod_reason(status: Document) -> str:
    gated = any(
        one.get("type") == "PodScheduled" and one.get("reason") == "SchedulingGated"
        for one in parts(status, "conditions")
    )
    return "SchedulingGated" if gated else text(status, "reason", text(status, "phase"))


def _look_at_init_containers(
    pod: Document, sidecars: set[Any], found: _Findings, of_all: _Restarts, of_sidecars: _Restarts
) -> None:
    """Up to the first one that has neither ended well nor is a sidecar that runs."""
    statuses = parts(part(pod, "status"), "initContainerStatuses")
    for index, container in enumerate(statuses):
        of_all.add(container)
        is_sidecar = container.get("name") in sidecars
        if is_sidecar:
            of_sidecars.add(container)
        state = part(container, "state")
        terminated, waiting = state.get("terminated"), part(state, "waiting")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if is_sidecar and container.get("started"):
            found.ready += container.get("ready") is True
            continue
        if terminated is not None:
            found.reason = f"Init:{_ended(terminated)}"
        elif text(waiting, "reason", "PodInitializing") != "PodInitializing":
            found.reason = f"Init:{waiting['reason']}"
        else:
            found.reason = f"Init:{index}/{len(parts(part(pod, 'spec'), 'initContainers'))}"
        found.initializing = True
        return


def _look_at_containers(status: Document, found: _Findings, restarts: _Restarts) -> None:
    """The first container's reason counts most, so it is looked at last."""
    running, failure = False, ""
    for container in reversed(parts(status, "containerStatuses")):
        restarts.add(container)
        state = part(container, "state")
        terminated = state.get("terminated")
        if reason := part(state, "waiting").get("reason"):
            found.reason = reason
        elif terminated is not None:
            found.reason = _ended(terminated)
            if terminated.get("exitCode"):
                failure = found.reason
        elif container.get("ready") and state.get("running") is not None:
            running = True
            found.ready += 1
    if found.reason == "Completed":
        if running and any(
            one.get("type") == "Ready" and one.get("status") == "True" for one in parts(status, "conditions")
        ):
            found.reason = "Running"
        elif failure:
            found.reason = failure
        elif running:
            found.reason = "NotReady"


def _ended(terminated: Document) -> str:
    if terminated.get("reason"):
        return text(terminated, "reason")
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _gates(spec: Document, status: Document) -> str:
    gates = parts(spec, "readinessGates")
    true = sum(condition_is_true(status, gate.get("conditionType")) for gate in gates)
    return f"{true}/{len(gates)}" if gates else NONE


_UNSET = "<unset>"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_ROLE_LABEL = "node-role.kubernetes.io/"


def name_of(document: Document) -> Any:
    """The name of an object."""
    return part(document, "metadata").get("name", "")


def default_cells(document: Document, _: datetime) -> list[Any]:
    """Name and time of creation, of kinds without columns of their own."""
    return [name_of(document), part(document, "metadata").get("creationTimestamp", "")]


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


# ------------------------------------------------------------------ nodes


def _node_status(node: Document) -> str:
    ready = [one for one in parts(part(node, "status"), "conditions") if one.get("type") == "Ready"]
    states = ["Unknown"] if not ready else ["Ready" if ready[-1].get("status") == "True" else "NotReady"]
    if part(node, "spec").get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _kernel(node: Document) -> str:
    info = part(node, "status", "nodeInfo")
    kernel, architecture = text(info, "kernelVersion") or UNKNOWN, info.get("architecture")
    return f"{kernel} ({architecture})" if architecture else kernel


def _roles(node: Document) -> str:
    found: set[str] = set()
    for key, value in part(node, "metadata", "labels").items():
        if key.startswith(_ROLE_LABEL) and key != _ROLE_LABEL:
            found.add(key.removeprefix(_ROLE_LABEL))
        elif key == "kubernetes.io/role" and value:
            found.add(value)
    return ",".join(sorted(found)) or NONE


def _address(kind: str) -> Read:
    def read(node: Document) -> str:
        addresses = parts(part(node, "status"), "addresses")
        return next((text(one, "address") for one in addresses if one.get("type") == kind), NONE)

    return read


# ------------------------------------------------------------------ events, in the form of either group


def _of_event(*fields: str) -> Read:
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


# ------------------------------------------------------------------ storage


def _modes(document: Document) -> str:
    found = parts(document, "accessModes")
    return ",".join(short for mode, short in _MODES.items() if mode in found)


def _storage_class(document: Document) -> str:
    beta = part(document, "metadata", "annotations").get("volume.beta.kubernetes.io/storage-class")
    return beta if beta is not None else text(part(document, "spec"), "storageClassName")


def _phase(document: Document) -> str:
    if part(document, "metadata").get("deletionTimestamp"):
        return "Terminating"
    return text(part(document, "status"), "phase")


def _claim(volume: Document) -> str:
    claim = part(volume, "spec", "claimRef")
    return f"{text(claim, 'namespace')}/{text(claim, 'name')}" if "claimRef" in part(volume, "spec") else ""


def _if_bound(read: Read) -> Read:
    return lambda claim: read(claim) if text(part(claim, "spec"), "volumeName") else ""


def _class_name(storage_class: Document) -> str:
    annotations = part(storage_class, "metadata", "annotations")
    keys = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
    default = any(annotations.get(key) == "true" for key in keys)
    return f"{name_of(storage_class)} (default)" if default else name_of(storage_class)


# ------------------------------------------------------------------ others


def _subjects(kind: str) -> Read:
    def read(binding: Document) -> str:
        found = [one for one in parts(binding, "subjects") if one.get("kind") == kind]
        inside = "namespace" if kind == "ServiceAccount" else ""
        return ", ".join(f"{text(one, inside)}/{text(one, 'name')}" if inside else text(one, "name") for one in found)

    return read


def _parameters(policy: Document) -> str:
    kind = part(policy, "spec", "paramKind")
    return f"{text(kind, 'apiVersion')}/{text(kind, 'kind')}" if kind else _UNSET


def _parameter(binding: Document) -> str:
    reference = part(binding, "spec", "paramRef")
    if text(reference, "name"):
        return f"{text(reference, 'namespace', '*')}/{text(reference, 'name')}"
    return selector_text(part(reference, "selector")) if part(reference, "selector") else _UNSET


def _last_schedule(cron_job: Document, now: datetime) -> str:
    last = part(cron_job, "status").get("lastScheduleTime")
    return since(last, now) if last else NONE


_VOLUME: dict[str, str | Read] = {
    "Status": _phase,
    "StorageClass": _storage_class,
    "VolumeAttributesClass": '.spec.volumeAttributesClassName|"<unset>"',
    "VolumeMode": '.spec.volumeMode|"<unset>"',
}
_SUBJECTS: dict[str, str | Read] = {
    "Users": _subjects("User"),
    "Groups": _subjects("Group"),
    "ServiceAccounts": _subjects("ServiceAccount"),
}
_EVENT: dict[str, str | Read] = {
    "Type": ".type",
    "Reason": ".reason",
    "Object": _target,
    "Subobject": lambda event: text(part(event, "involvedObject") or part(event, "regarding"), "fieldPath"),
    "Source": _source,
    "Message": lambda event: (text(event, "message") or text(event, "note")).strip(),
    "Count": _count,
}
CELLS: dict[str, Mapping[str, str | Read | None]] = {
    "Event": _EVENT,
    "Node": {
        "Status": _node_status,
        "Roles": _roles,
        "Version": ".status.nodeInfo.kubeletVersion",
        "Internal-IP": _address("InternalIP"),
        "External-IP": _address("ExternalIP"),
        "OS-Image": '.status.nodeInfo.osImage|"<unknown>"',
        "Kernel-Version": _kernel,
        "Container-Runtime": '.status.nodeInfo.containerRuntimeVersion|"<unknown>"',
    },
    "Service": {
        "Cluster-IP": '.spec.clusterIPs[*]|"<none>"',
        "External-IP": _external_addresses,
        "Port(s)": lambda service: ",".join(map(_port, parts(part(service, "spec"), "ports"))) or NONE,
        "Selector": 'pairs .spec.selector|"<none>"',
    },
    "ConfigMap": {"Data": lambda one: len(part(one, "data")) + len(part(one, "binaryData"))},
    "PersistentVolumeClaim": {
        **_VOLUME,
        "Volume": ".spec.volumeName",
        "Capacity": _if_bound(lambda claim: part(claim, "status", "capacity").get("storage", "0")),
        "Access Modes": _if_bound(lambda claim: _modes(part(claim, "status"))),
    },
    "PersistentVolume": {
        **_VOLUME,
        "Capacity": '.spec.capacity.storage|"0"',
        "Access Modes": lambda volume: _modes(part(volume, "spec")),
        "Claim": _claim,
        "Reason": ".status.reason",
    },
    "Job": {"Status": _job_status, "Completions": _completions, "Selector": 'selector .spec.selector|"<none>"'},
    "CronJob": {"Selector": 'selector .spec.jobTemplate.spec.selector|"<none>"'},
    "PriorityClass": {"Value": ".value|0", "Global-Default": ".globalDefault|false"},
    "StorageClass": {"Name": _class_name},
    "ValidatingAdmissionPolicy": {"ParamKind": _parameters},
    "MutatingAdmissionPolicy": {"ParamKind": _parameters},
    "ValidatingAdmissionPolicyBinding": {"ParamRef": _parameter},
    "MutatingAdmissionPolicyBinding": {"ParamRef": _parameter},
    "RoleBinding": _SUBJECTS,
    "ClusterRoleBinding": _SUBJECTS,
    "ControllerRevision": {"Controller": None},
    "Ingress": {"Ports": None},
}
"""By kind and column, in place of what was recorded: a path, a function, or None for a column that is not shown."""
TIMED_CELLS: dict[tuple[str, str], Cell] = {
    ("Event", "Last Seen"): _last_time,
    ("Event", "First Seen"): lambda event, now: since(_first_seen(event), now),
    ("Job", "Duration"): _duration,
    ("CronJob", "Last Schedule"): _last_schedule,
}
"""By kind and column: cells that depend on the time."""


def cell_of(kind: str, column: str, recorded: str) -> Cell | None:
    """How the cell of a column of a built-in kind is read; None for a column that cannot be filled in."""
    if (timed := TIMED_CELLS.get((kind, column))) is not None:
        return timed
    read = CELLS.get(kind, {}).get(column, recorded)
    if not read:
        return None
    return compile_cell(read) if isinstance(read, str) else lambda document, _: read(document)
