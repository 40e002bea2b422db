# SPDX-License-Identifier: Apache-2.0
"""Cells of tables: read at the path that the row of a kind says, or by a function of this file.

Anything may be absent from the documents that are shown.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from trainwright.api.times import parse
from trainwright.controller.local.apiserver.views.jsonpath import compile_path

UNKNOWN = "<unknown>"


def human_duration(duration: timedelta) -> str:
    """A duration such as `45s`, `5m12s`, `3h`, `2d4h` or `1y30d`; a negative one is `<invalid>`."""
    # Towards zero: a clock that is less than two seconds behind counts as now.
    seconds = int(duration.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, hours = seconds // 60, seconds // 3600
    days = hours // 24
    if minutes < 180:
        return _two(minutes, "m", seconds % 60 if minutes < 10 else 0, "s")
    if hours < 48:
        return _two(hours, "h", minutes % 60 if hours < 8 else 0, "m")
    if days < 365 * 2:
        return _two(days, "d", hours % 24 if days < 8 else 0, "h")
    return _two(days // 365, "y", days % 365 if days < 365 * 8 else 0, "d")


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def since(timestamp: Any, now: datetime) -> str:
    """The age of a Time or MicroTime; `<unknown>` where there is none."""
    return human_duration(now - parse(timestamp)) if timestamp else UNKNOWN


Document = Mapping[str, Any]

NONE = "<none>"


def part(document: Any, *path: str) -> Document:
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document if isinstance(document, Mapping) else {}


def parts(document: Document, key: str) -> Sequence[Any]:
    found = document.get(key)
    return found if isinstance(found, list) else ()


def text(document: Document, key: str, default: str = "") -> str:
    """The string of a field; the default where there is none, or an empty one."""
    return document.get(key) or default


def condition_is_true(status: Document, kind: str) -> bool:
    found = next((one for one in parts(status, "conditions") if one.get("type") == kind), None)
    return found is not None and found.get("status") == "True"


def pairs(labels: Document) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or NONE


def selector_text(selector: Document) -> str:
    """A LabelSelector as `a=1,b in (x,y),!c`, sorted by label."""
    terms: list[tuple[str, str]] = [(key, f"{key}={value}") for key, value in part(selector, "matchLabels").items()]
    for expression in parts(selector, "matchExpressions"):
        key, values = text(expression, "key"), ",".join(sorted(parts(expression, "values")))
        shapes = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
        terms.append((key, shapes.get(text(expression, "operator"), key)))
    return ",".join(shape for _, shape in sorted(terms, key=lambda term: term[0])) or NONE


Cell = Callable[[Document, datetime], Any]
Read = Callable[[Document], Any]
"""A cell that does not depend on the time."""

_PART = re.compile(r"\{([^}]+)\}")


def compile_cell(text: str) -> Cell:
    """The function that reads a cell from an object, at a time."""
    if not text.startswith("{"):
        return _reader(text)
    readers = [_reader(part) for part in _PART.findall(text)]
    shape = _PART.sub("{}", text)
    return lambda document, now: shape.format(*(read(document, now) for read in readers))


def _reader(text: str) -> Cell:
    expression, _, fallback = text.partition("|")
    function, _, path = expression.rpartition(" ")
    find, shown = compile_path(path), _SHOWN[function]
    missing = json.loads(fallback) if fallback else UNKNOWN if function == "age" else ""

    def read(document: Document, now: datetime) -> Any:
        found = find(document)
        if not found or found[0] in (None, ""):
            return missing
        return shown(found, now)

    return read


_SHOWN: dict[str, Callable[[list[Any], datetime], Any]] = {
    "": lambda found, _: found[0],
    "age": lambda found, now: since(found[0], now),
    "count": lambda found, _: len(found[0]),
    "join": lambda found, _: ",".join(map(str, found[0] if isinstance(found[0], list) else found)),
    "pairs": lambda found, _: pairs(found[0]),
    "selector": lambda found, _: selector_text(found[0]),
    "text": lambda found, _: str(found[0]),
}
"""The functions, of what is at the path."""


_ENDS = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def pod_cells(pod: Document, now: datetime) -> list[Any]:
    metadata, spec, status = part(pod, "metadata"), part(pod, "spec"), part(pod, "status")
    initial = parts(spec, "initContainers")
    sidecars = {one.get("name") for one in initial if one.get("restartPolicy") == "Always"}
    started, ready, blocked = _initialized(parts(status, "initContainerStatuses"), sidecars, len(initial))
    reason = blocked or _pod_reason(status)
    if blocked and not condition_is_true(status, "Initialized"):
        counted = started
    else:
        containers = parts(status, "containerStatuses")
        counted = [*(one for one in started if one.get("name") in sidecars), *containers]
        ready += sum(map(_runs, containers))
        reason = _containers_reason(status, containers, reason)
    if metadata.get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in _ENDS:
            reason = "Terminating"
    addresses, gates = parts(status, "podIPs"), parts(spec, "readinessGates")
    true = sum(condition_is_true(status, gate.get("conditionType")) for gate in gates)
    return [
        metadata.get("name"),
        f"{ready}/{len(parts(spec, 'containers')) + len(sidecars)}",
        reason,
        _restarts(counted, now),
        since(metadata.get("creationTimestamp"), now),
        text(addresses[0], "ip", NONE) if addresses else NONE,
        text(spec, "nodeName", NONE),
        text(status, "nominatedNodeName", NONE),
        f"{true}/{len(gates)}" if gates else NONE,
    ]


def pod_conditions(pod: Document) -> list[dict[str, str]]:
    """The conditions of a pod's row: whether it is over."""
    phase = part(pod, "status").get("phase")
    if phase not in _ENDS:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDS[phase]}]


def _pod_reason(status: Document) -> str:
    scheduling = (one for one in parts(status, "conditions") if one.get("type") == "PodScheduled")
    gated = any(one.get("reason") == "SchedulingGated" for one in scheduling)
    return "SchedulingGated" if gated else text(status, "reason", text(status, "phase"))


def _initialized(statuses: Sequence[Document], sidecars: set[Any], total: int) -> tuple[list[Document], int, str]:
    """The init containers up to the one that the pod waits for, how many sidecars are ready, and what it waits for."""
    ready = 0
    for index, container in enumerate(statuses):
        state = part(container, "state")
        terminated, waiting = state.get("terminated"), text(part(state, "waiting"), "reason", "PodInitializing")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if container.get("name") in sidecars and container.get("started"):
            ready += container.get("ready") is True
            continue
        why = f"{index}/{total}" if waiting == "PodInitializing" else waiting
        return list(statuses[: index + 1]), ready, f"Init:{why if terminated is None else _ended(terminated)}"
    return list(statuses), ready, ""


def _runs(container: Document) -> bool:
    state = part(container, "state")
    if part(state, "waiting").get("reason") or state.get("terminated") is not None:
        return False
    return bool(container.get("ready")) and state.get("running") is not None


def _containers_reason(status: Document, containers: Sequence[Document], reason: str) -> str:
    """The first container's reason counts most, so it is looked at last."""
    failure = ""
    for container in reversed(containers):
        state = part(container, "state")
        terminated = state.get("terminated")
        if waiting := part(state, "waiting").get("reason"):
            reason = waiting
        elif terminated is not None:
            reason = _ended(terminated)
            failure = reason if terminated.get("exitCode") else failure
    if reason != "Completed":
        return reason
    running = any(map(_runs, containers))
    ready = {"type": "Ready", "status": "True"}.items()
    if running and any(ready <= one.items() for one in parts(status, "conditions")):
        return "Running"
    return failure or ("NotReady" if running else reason)


def _ended(terminated: Document) -> str:
    signal = terminated.get("signal")
    code = f"Signal:{signal}" if signal else f"ExitCode:{terminated.get('exitCode') or 0}"
    return text(terminated, "reason", code)


def _restarts(containers: Sequence[Document], now: datetime) -> str:
    """How often containers were started again, and when the last of their runs ended."""
    count = sum(one.get("restartCount") or 0 for one in containers)
    ends = [part(one, "lastState", "terminated").get("finishedAt") for one in containers]
    last = max(filter(None, ends), key=parse, default=None)
    return f"{count} ({since(last, now)} ago)" if count and last else str(count)


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_ROLE_LABEL = "node-role.kubernetes.io/"


def name_of(document: Document) -> Any:
    return part(document, "metadata").get("name", "")


def default_cells(document: Document, _: datetime) -> list[Any]:
    """Name and time of creation, of kinds without columns of their own."""
    return [name_of(document), part(document, "metadata").get("creationTimestamp", "")]


def _completions(job: Document) -> str:
    spec, succeeded = part(job, "spec"), part(job, "status").get("succeeded") or 0
    completions, parallelism = spec.get("completions"), spec.get("parallelism") or 0
    wanted = completions if completions is not None else f"1 of {parallelism}" if parallelism > 1 else 1
    return f"{succeeded}/{wanted}"


def _duration(job: Document, now: datetime) -> str:
    status = part(job, "status")
    started, completed = status.get("startTime"), status.get("completionTime")
    return human_duration((parse(completed) if completed else now) - parse(started)) if started else ""


def _job_status(job: Document) -> str:
    status, going = part(job, "status"), part(job, "metadata").get("deletionTimestamp")
    ends = ("Complete", "Failed")
    others = ("Terminating",) if going else ("Suspended", "FailureTarget", "SuccessCriteriaMet")
    shown = (kind for kind in (*ends, *others) if kind == "Terminating" or condition_is_true(status, kind))
    return next(shown, "Running")


def _node_status(node: Document) -> str:
    ready = [one for one in parts(part(node, "status"), "conditions") if one.get("type") == "Ready"]
    state = "Unknown" if not ready else "Ready" if ready[-1].get("status") == "True" else "NotReady"
    return f"{state},SchedulingDisabled" if part(node, "spec").get("unschedulable") else state


def _kernel(node: Document) -> str:
    info = part(node, "status", "nodeInfo")
    kernel, architecture = text(info, "kernelVersion") or UNKNOWN, info.get("architecture")
    return f"{kernel} ({architecture})" if architecture else kernel


def _roles(node: Document) -> str:
    labels = part(node, "metadata", "labels")
    found = {key.removeprefix(_ROLE_LABEL) for key in labels if key.startswith(_ROLE_LABEL)}
    return ",".join(sorted({*found, labels.get("kubernetes.io/role") or ""} - {""})) or NONE


def _of_event(*fields: str) -> Read:
    """The first of some fields that is set: events have the form of either of two groups."""
    return lambda event: next((event[field] for field in fields if event.get(field)), None)


_first_seen = _of_event("firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
_last_seen = _of_event("lastTimestamp", "deprecatedLastTimestamp")
_count = _of_event("count", "deprecatedCount")
_involved = _of_event("involvedObject", "regarding")


def _last_time(event: Document, now: datetime) -> str:
    return since(part(event, "series").get("lastObservedTime") or _last_seen(event) or _first_seen(event), now)


def _target(event: Document) -> str:
    involved = _involved(event) or {}
    target, name = text(involved, "kind").lower(), text(involved, "name")
    return f"{target}/{name}" if name else target


def _source(event: Document) -> str:
    source = part(event, "source") or part(event, "deprecatedSource")
    component = text(source, "component") or text(event, "reportingComponent") or text(event, "reportingController")
    instance = text(source, "host") or text(event, "reportingInstance")
    return f"{component}, {instance}" if instance else component


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
            balanced = parts(part(service, "status", "loadBalancer"), "ingress")
            addresses = {text(one, "ip") or text(one, "hostname") for one in balanced} - {""}
            return ",".join([*sorted(addresses), *external]) or "<pending>"
        case "ExternalName":
            return text(spec, "externalName")
    return UNKNOWN


def _modes(document: Document) -> str:
    found = parts(document, "accessModes")
    return ",".join(short for mode, short in _MODES.items() if mode in found)


def _storage_class(document: Document) -> str:
    beta = part(document, "metadata", "annotations").get("volume.beta.kubernetes.io/storage-class")
    return beta if beta is not None else text(part(document, "spec"), "storageClassName")


def _phase(document: Document) -> str:
    going = part(document, "metadata").get("deletionTimestamp")
    return "Terminating" if going else text(part(document, "status"), "phase")


def _claim(volume: Document) -> str:
    claim = part(volume, "spec").get("claimRef")
    return "" if claim is None else f"{text(claim, 'namespace')}/{text(claim, 'name')}"


def _if_bound(read: Read) -> Read:
    return lambda claim: read(claim) if text(part(claim, "spec"), "volumeName") else ""


def _class_name(storage_class: Document) -> str:
    annotations = part(storage_class, "metadata", "annotations")
    keys = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
    default = any(annotations.get(key) == "true" for key in keys)
    return f"{name_of(storage_class)} (default)" if default else name_of(storage_class)


def _last_schedule(cron_job: Document, now: datetime) -> str:
    last = part(cron_job, "status").get("lastScheduleTime")
    return since(last, now) if last else NONE


_VOLUME: dict[str, str | Read] = {
    "Status": _phase,
    "StorageClass": _storage_class,
    "VolumeAttributesClass": '.spec.volumeAttributesClassName|"<unset>"',
    "VolumeMode": '.spec.volumeMode|"<unset>"',
}
_EVENT: dict[str, str | Read] = {
    "Type": ".type",
    "Reason": ".reason",
    "Object": _target,
    "Subobject": lambda event: text(_involved(event) or {}, "fieldPath"),
    "Source": _source,
    "Message": lambda event: (text(event, "message") or text(event, "note")).strip(),
    "Count": lambda event: part(event, "series").get("count") or _count(event) or 1,
}
CELLS: dict[str, Mapping[str, str | Read | None]] = {
    "Event": _EVENT,
    "Node": {
        "Status": _node_status,
        "Roles": _roles,
        "Version": ".status.nodeInfo.kubeletVersion",
        "Internal-IP": '.status.addresses[?(@.type=="InternalIP")].address|"<none>"',
        "External-IP": '.status.addresses[?(@.type=="ExternalIP")].address|"<none>"',
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
    "ClusterRoleBinding": {"Users": None},
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
